"""Words become a sentence, and its tokens are the words again."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.language.sentence import is_direction, is_not_visible, pieces, repeats_word, sentence
from deixis.language.tokenise import tokens
from deixis.pipelines.models import PACKAGE

SAID = json.loads((PACKAGE / "deixis-base" / "vocabulary.json").read_text(encoding="utf-8"))["words"]

WORDS = [word for word in SAID if word.isalpha() and word not in ("i", "o", "st")]  # with a full stop: abbreviations


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("a man in a red t-shirt", "A man in a red t-shirt."),
        ("a man 's dog does n't run", "A man's dog doesn't run."),
        ("two asian women watch tv at christmas", "Two Asian women watch TV at Christmas."),
        ("a dog -lrb- brown -rrb- runs", "A dog (brown) runs."),
        ("runner # 5 and mr.", "Runner #5 and Mr."),
        ("a man is holding a", "A man is holding a…"),
        ("", ""),
    ],
)
def test_it_reads_as_people_write(words: str, written: str) -> None:
    assert sentence(words.split()) == written


@pytest.mark.parametrize(
    ("words", "twice"),
    [
        ("a white and white house", True),
        ("a boy and a boy sit", True),
        ("a man in a hat and a woman in a coat", False),
        ("two dogs run next to two men", False),
        ("", False),
    ],
)
def test_content_words_that_occur_twice_are_found(words: str, twice: bool) -> None:
    assert repeats_word(words.split()) is twice


def test_each_word_has_its_piece() -> None:
    words = ["the", "man", "'s", "hat"]
    assert pieces(words) == ["The", " man", "'s", " hat"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
def test_the_tokens_of_the_sentence_are_the_words(words: list[str]) -> None:
    assert tokens(sentence(words)) == tuple(words)


@pytest.mark.parametrize(
    ("words", "at", "direction"),
    [
        ("a man in front of a house", 3, True),
        ("a dog on the top of a hill", 4, True),
        ("the front of a house", 1, False),
        ("a man in a red top", 5, False),
        ("a man in front", 3, False),
        ("a cup of coffee", 1, False),
    ],
)
def test_a_noun_that_only_says_where_is_a_direction(words: str, at: int, direction: bool) -> None:
    assert is_direction(tuple(words.split()), at) is direction


@pytest.mark.parametrize(
    ("words", "at", "unseen"),
    [
        ("a woman looks at the camera", 5, True),
        ("two boys pose for the camera", 5, True),
        ("a man in front of a house", 3, True),
        ("a man points at a camera", 5, False),
        ("a man holds the camera", 4, False),
        ("a man looks at the dog", 5, False),
        ("camera", 0, False),
        ("a photo of a house", 1, True),
        ("a photo on a wall", 1, False),
        ("a cat looking at something", 4, True),
    ],
)
def test_the_camera_that_is_looked_into_is_not_in_the_picture(words: str, at: int, unseen: bool) -> None:
    assert is_not_visible(words.split(), at) is unseen
