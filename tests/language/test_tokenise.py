"""The tokeniser against what the Java tokeniser of the caption metrics gave."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.language.tokenise import PUNCTUATION, Token, align, token_span, tokenise, tokens

GOLDEN = Path(__file__).parents[1] / "golden"
NASTY: list[tuple[str, list[str]]] = [tuple(pair) for pair in json.loads((GOLDEN / "ptb_tokens.json").read_text())]


def load(name: str) -> dict[str, list[str]]:
    return json.loads((GOLDEN / f"captions_{name}.json").read_text())


@pytest.mark.parametrize(("text", "expected"), NASTY, ids=[text[:30] for text, _ in NASTY])
def test_nasty_texts(text: str, expected: list[str]) -> None:
    assert list(tokens(text)) == expected


@pytest.mark.parametrize(("given_file", "expected_key"), [("gts", "tokenized_gts"), ("res", "tokenized_res")])
def test_captions_of_the_golden_set(given_file: str, expected_key: str) -> None:
    texts, out = load(given_file), json.loads((GOLDEN / "captions_out.json").read_text())[expected_key]
    assert {image: [" ".join(tokens(text)) for text in captions] for image, captions in texts.items()} == out


def test_java_still_gives_the_golden_tokens() -> None:
    ptb = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer")
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    # The Java tool looks beyond the end of a line, so a plain line follows each text.
    texts = {i: [{"caption": text}, {"caption": "zzz"}] for i, (text, _) in enumerate(NASTY)}
    found = ptb.PTBTokenizer().tokenize(texts)
    assert [found[i][0].strip().split(" ") for i in texts] == [expected or [""] for _, expected in NASTY]


@pytest.mark.skipif("DEIXIS_FLICKR30K_ENTITIES" not in os.environ, reason="DEIXIS_FLICKR30K_ENTITIES names no data set")
def test_all_captions_of_a_data_set() -> None:
    ptb = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer")
    from deixis.data import flickr30k_entities

    root = Path(os.environ["DEIXIS_FLICKR30K_ENTITIES"])
    captions = {
        sample.image_id: [caption.text for caption in sample.captions]
        for split in flickr30k_entities.splits(root)
        for sample in flickr30k_entities.load(root, split)
    }
    assert captions
    found = ptb.PTBTokenizer().tokenize({i: [{"caption": text} for text in texts] for i, texts in captions.items()})
    assert {i: [" ".join(tokens(text)) for text in texts] for i, texts in captions.items()} == found


def test_tokens_keep_case_punctuation_and_places() -> None:
    assert tokenise("The dog's (red) hat.") == [
        Token("The", 0, 3),
        Token("dog", 4, 7),
        Token("'s", 7, 9),
        Token("-LRB-", 10, 11),
        Token("red", 11, 14),
        Token("-RRB-", 14, 15),
        Token("hat", 16, 19),
        Token(".", 19, 20),
    ]


def test_half_a_character_is_no_part_of_a_word() -> None:
    assert tokenise("x\ud83d@y") == [Token("x", 0, 1), Token("@y", 2, 4)]


def test_two_words_in_one_have_their_own_places() -> None:
    assert tokenise("cannot") == [Token("can", 0, 3), Token("not", 3, 6)]
    assert tokenise("don’t") == [Token("do", 0, 2), Token("n't", 2, 5)]


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("A man's", ("a", "man", "'s")),
        ("hat, a scarf", ("hat", "a", "scarf")),
        ('"red"', ("red",)),
        ("car", ("scarf",)),  # a part of a word stands for the word
    ],
)
def test_spans_of_characters_become_spans_of_tokens(phrase: str, expected: tuple[str, ...]) -> None:
    text = 'A man\'s "red" hat, a scarf.'
    at = text.index(phrase)
    start, end = token_span(text, at, at + len(phrase))
    assert tokens(text)[start:end] == expected


def test_characters_without_a_word_give_an_empty_span() -> None:
    text = "A man , a dog ."
    assert token_span(text, 6, 7) == (2, 2)
    assert token_span(text, 14, 15) == (4, 4)
    assert token_span(text, 3, 3) == (1, 1)


@given(st.text(alphabet=st.sampled_from("aAbe12 '’\"-.,;:!?/&@#$%()[]<>_*…–é日😀\u00ad\u00a0\n"), max_size=30))
def test_tokens_lie_in_order_and_cover_every_letter(text: str) -> None:
    found = tokenise(text)
    place = 0
    for token in found:
        assert place <= token.start < token.end <= len(text)
        assert not any(c.isalnum() for c in text[place : token.start])
        assert token.text
        place = token.end
    assert not any(c.isalnum() for c in text[place:])
    kept = [(t.text.lower(), t.start, t.end) for t in found if t.text.lower() not in PUNCTUATION]
    where = align(text)
    assert kept == list(zip(where.tokens, where.starts, where.ends, strict=True))
    assert tokens(text) == where.tokens


@given(st.text(alphabet="ab '.-,", max_size=20), st.data())
def test_a_span_holds_the_tokens_that_its_characters_touch(text: str, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, len(text)))
    where = align(text)
    start, end = where.span(first, last)
    touched = [i for i in range(len(where.tokens)) if max(where.starts[i], first) < min(where.ends[i], last)]
    assert list(range(start, end)) == touched


@given(st.lists(st.sampled_from(["A", "dog", "cannot", "U.S.", "grass.", "it's", "5", ",", "...", "etc.", "  "])))
def test_words_of_letters_are_the_tokens_of_the_lexer(words: list[str]) -> None:
    text = " ".join(words)
    assert tokens(text) == align(text).tokens
