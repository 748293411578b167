"""Grounding queries: visible noun phrases of a caption, given spans of it, and phrases that stand alone."""

from __future__ import annotations

import pytest

from deixis.errors import DeixisError
from deixis.language.parse import Parse, parse, parse_words
from deixis.language.queries import caption_query, head_of, phrase_queries, shown_span, visible_phrases
from deixis.types import Phrase


def parsed(text: str) -> Parse:
    return parse([text])[0]


def visible(text: str) -> list[str]:
    return [phrase.text for phrase in visible_phrases(parsed(text))]


# Visible phrases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("A man stands in front of a house.", ["a man", "a house"]),
        ("A dog sits on top of a car.", ["a dog", "a car"]),
        ("A man in the middle of a street.", ["a man", "a street"]),
        ("Children play at the edge of the water.", ["children", "the water"]),
        ("The front of a house.", ["the front", "a house"]),
        ("A man in a red top.", ["a man", "a red top"]),
    ],
)
def test_directions_are_no_phrases(text: str, phrases: list[str]) -> None:
    assert visible(text) == phrases


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("A woman looks at the camera.", ["a woman"]),
        ("Two boys pose for the camera.", ["two boys"]),
        ("A man holds the camera.", ["a man", "the camera"]),
        ("A man points at a camera.", ["a man", "a camera"]),
        ("A man looks at the dog.", ["a man", "the dog"]),
    ],
)
def test_the_camera_that_somebody_looks_at_is_no_phrase(text: str, phrases: list[str]) -> None:
    assert visible(text) == phrases


@pytest.mark.parametrize(
    ("text", "head"),
    [
        ("a group of people", "people"),
        ("a couple of dogs", "dogs"),
        ("a lot of bikes", "bikes"),
        ("a piece of cake", "cake"),
        ("a bunch of the flowers", "flowers"),
        ("a pair of shoes", "shoes"),
    ],
)
def test_a_partitive_is_one_phrase_with_its_noun(text: str, head: str) -> None:
    (phrase,) = visible_phrases(parsed(f"{text} near a house"))[:-1]
    assert (phrase.text, phrase.head) == (text, head)


def test_a_noun_that_measures_nothing_stands_alone() -> None:
    assert visible("the roof of a house") == ["the roof", "a house"]


@pytest.mark.parametrize(
    "text",
    [
        "a rock wall",
        "a tank top",
        "a basketball player",
        "two basketball players",
        "a soccer ball",
        "a dirt bike",
        "a swimming pool",
        "an ice cream cone",
    ],
)
def test_a_compound_is_one_phrase(text: str) -> None:
    """Its head is its last word: in a written caption, and in the words that a captioner generates."""
    sentence = f"a man near {text} and a dog"
    for each in (parsed(f"{sentence.capitalize()}."), parse_words([sentence.split()])[0]):
        first, compound, last = visible_phrases(each)
        assert [first.text, compound.text, last.text] == ["a man", text, "a dog"]
        assert compound.head == text.split()[-1]
        assert head_of(each, compound) == compound.end - 1


def test_phrases_are_in_the_order_of_the_sentence() -> None:
    """A noun outside all noun chunks is a phrase of one word."""
    words = ("dog", "a", "boy", "runs", "grass")
    loose = Parse(
        tokens=words,
        lemmas=("dog", "a", "boy", "run", "grass"),
        pos=("NOUN", "DET", "NOUN", "VERB", "NOUN"),
        tags=("NN", "DT", "NN", "VBZ", "NN"),
        heads=(3, 2, 3, 3, 3),
        labels=("dep", "det", "nsubj", "ROOT", "dep"),
        chunks=((1, 3),),
    )
    found = visible_phrases(loose)
    assert [(one.text, one.start, one.end) for one in found] == [("dog", 0, 1), ("a boy", 1, 3), ("grass", 4, 5)]


@pytest.mark.parametrize("text", ["", "...", "Running quickly.", "She looks at the camera."])
def test_a_sentence_may_have_no_visible_phrase(text: str) -> None:
    assert visible(text) == []
    assert caption_query(parsed(text)).phrases == ()


# Heads, lemmas, number ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "head", "lemma", "plural"),
    [
        ("a brown dog", "dog", "dog", False),
        ("two dogs", "dogs", "dog", True),
        ("three women", "women", "woman", True),
        ("a group of people", "people", "people", True),
        ("a crowd", "crowd", "crowd", True),
        ("a basketball player", "player", "player", False),
        ("a man and a woman", "man", "man", True),
        ("a dog with two tails", "dog", "dog", False),
    ],
)
def test_a_phrase_has_the_lemma_and_the_number_of_its_head(text: str, head: str, lemma: str, plural: bool) -> None:
    (query,) = phrase_queries([text])
    (phrase,) = query.phrases
    assert (phrase.head, phrase.lemma, phrase.plural) == (head, lemma, plural)


def test_phrases_of_one_caption_have_their_own_number() -> None:
    found = visible_phrases(parsed("Two men chase a dog near some trees."))
    assert [(one.lemma, one.plural) for one in found] == [("man", True), ("dog", False), ("tree", True)]


def test_a_phrase_without_words_has_neither() -> None:
    empty = parsed("a dog").phrase(1, 1)
    assert (empty.text, empty.head, empty.lemma, empty.plural) == ("", "", "", False)


def test_lemma_and_number_do_not_count_in_comparisons() -> None:
    """A phrase of a data set, which has neither, equals the parsed one."""
    assert Phrase("dogs", 0, 1, "dogs") == Phrase("dogs", 0, 1, "dogs", lemma="dog", plural=True)


def test_the_head_of_a_phrase_without_a_noun_is_its_last_word() -> None:
    each = parsed("a man in bright red")
    assert each.tokens[head_of(each, Phrase("bright red", 3, 5))] == "red"


# Shown spans ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a red shirt", "red shirt"),
        ("the two dogs", "two dogs"),
        ("his red shirt", "red shirt"),
        ("some dogs", "dogs"),
        ("two dogs", "two dogs"),
        ("a rock wall", "rock wall"),
        ("a group of people", "group of people"),
        ("a bunch of the flowers", "bunch of the flowers"),
        ("dog", "dog"),
    ],
)
def test_shown_spans_have_no_determiner(text: str, shown: str) -> None:
    each = parsed(f"A man near {text}.")
    phrase = visible_phrases(each)[-1]
    assert phrase.text == text
    start, end = shown_span(each, phrase)
    assert " ".join(each.tokens[start:end]) == shown
    assert start <= head_of(each, phrase) < end


def test_a_span_that_is_only_a_determiner_keeps_it() -> None:
    each = parsed("a dog")
    assert shown_span(each, Phrase("a", 0, 1)) == (0, 1)


# Queries --------------------------------------------------------------------------------------------------------------


def test_a_caption_asks_for_its_visible_phrases_or_for_given_spans() -> None:
    each = parsed("A man stands in front of two houses.")
    query = caption_query(each)
    assert query.parse is each
    assert query.phrases == visible_phrases(each)
    assert [one.text for one in query.phrases] == ["a man", "two houses"]
    given = caption_query(each, [Phrase("Two Houses", 6, 8, entity="7"), Phrase("front", 4, 5)])
    assert [(one.text, one.start, one.end, one.lemma, one.plural) for one in given.phrases] == [
        ("Two Houses", 6, 8, "house", True),
        ("front", 4, 5, "front", False),
    ]
    assert caption_query(each, []).phrases == ()


def test_phrases_that_stand_alone_are_their_own_sentences() -> None:
    texts = ["A man in a red hat!", "in front of the house"]
    found = phrase_queries(texts)
    assert [[(one.text, one.start, one.end) for one in query.phrases] for query in found] == [
        [("A man in a red hat!", 0, 6)],
        [("in front of the house", 0, 5)],
    ]
    assert found[0].parse.tokens == ("a", "man", "in", "a", "red", "hat")
    assert found[0].phrases[0].head == "man"
    assert phrase_queries([]) == []


@pytest.mark.parametrize("text", ["", "  ", "...", ", ."])
def test_a_phrase_without_words_is_an_error(text: str) -> None:
    with pytest.raises(DeixisError, match=r"has no words\. Write what to find"):
        phrase_queries(["a dog", text])
