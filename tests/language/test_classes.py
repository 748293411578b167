"""From phrases to classes, on a small corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.language.classes import ObjectClasses
from deixis.language.parse import Parse
from deixis.language.spacy_parse import spacy_parse, spacy_parse_words
from deixis.types import Phrase

CORPUS = [
    "Two men play with a black dog.",
    "A man in sunglasses holds a brown dog.",
    "A group of men with sunglasses.",
    "A woman in blue pants plays with her child.",
    "The women and their children watch a play.",
    "A woman plays the drums.",
]


@pytest.fixture(scope="module")
def captions() -> list[tuple[Parse, tuple[Phrase, ...]]]:
    return [(parsed, parsed.phrases) for parsed in spacy_parse(CORPUS, cache=False)]


def test_classes_are_the_lemmas_of_frequent_heads(captions: list[tuple[Parse, tuple[Phrase, ...]]]) -> None:
    classes = ObjectClasses.build(captions, minimum=2)
    assert classes.names == ("man", "woman", "child", "dog", "sunglasses")
    assert classes.counts == (3, 3, 2, 2, 2)
    assert len(ObjectClasses.build(captions, minimum=1)) > len(classes)


def test_words_of_a_caption_find_their_classes(captions: list[tuple[Parse, tuple[Phrase, ...]]]) -> None:
    classes = ObjectClasses.build(captions, minimum=2)
    words = ("the", "women", "play", "near", "a", "child", "in", "sunglasses")
    assert classes.object_words(words) == [(1, "woman"), (5, "child"), (7, "sunglasses")]
    assert classes.of("Men") == "man"
    assert classes.of("cat") is None


def test_a_word_that_is_mostly_a_verb_is_no_object(captions: list[tuple[Parse, tuple[Phrase, ...]]]) -> None:
    classes = ObjectClasses.build(captions, minimum=1)
    assert "play" in classes.names
    assert classes.of("plays") is None


def test_the_class_of_a_phrase(captions: list[tuple[Parse, tuple[Phrase, ...]]]) -> None:
    classes = ObjectClasses.build(captions, minimum=2)
    parsed, phrases = captions[2]
    assert [classes.of_phrase(parsed, phrase) for phrase in phrases] == ["man", "sunglasses"]
    (spoken,) = spacy_parse_words([("a", "dog", "and", "a", "cat")], cache=False)
    assert [classes.of_phrase(spoken, phrase) for phrase in spoken.phrases] == ["dog", None]


def test_they_are_read_back_as_saved(captions: list[tuple[Parse, tuple[Phrase, ...]]], tmp_path: Path) -> None:
    classes = ObjectClasses.build(captions, minimum=2)
    classes.save(tmp_path / "classes.json")
    assert ObjectClasses.load(tmp_path / "classes.json") == classes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "format"),
        ({"classes": {"man": "3"}}, "classes"),
        ({"words": ["men"]}, "words"),
        ({"words": {"cat": "cat"}}, "'cat', which is not a class of this list"),
        ({"minimum": None}, "int"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, change: dict[str, object], said: str) -> None:
    good = {"format": "deixis-classes-1", "minimum": 2, "classes": {"man": 3}, "words": {"men": "man"}}
    path = tmp_path / "classes.json"
    path.write_text(json.dumps(good | change))
    with pytest.raises(DeixisError, match=r"classes\.json") as error:
        ObjectClasses.load(path)
    assert said in str(error.value)
