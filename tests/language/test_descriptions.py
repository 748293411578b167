"""Descriptions: noun phrases and relations of captions, truncated, and of samples."""

from deixis.data import Caption, Sample
from deixis.data.descriptions import caption_descriptions
from deixis.language.descriptions import Description, describe, truncate
from deixis.language.relations import Relation
from deixis.language.spacy_parse import spacy_parse
from deixis.language.tokenise import tokens
from deixis.types import Phrase


def test_a_caption_is_described_by_its_phrases_and_their_relations() -> None:
    (parsed,) = spacy_parse(["A man in a red hat"])
    found = describe(parsed)
    assert found.texts() == ["a man", "a red hat"]
    assert found.relations == (Relation(0, "in", 1),)
    given = describe(parsed, [Phrase("a red hat", 3, 6), Phrase("", 2, 2)])
    assert given == Description(parsed.tokens, ((3, 6),))


def test_a_long_description_is_truncated_with_its_relations() -> None:
    words = ("a", "dog", "on", "a", "cat", "on", "a", "car")
    relations = (Relation(1, "on", 0), Relation(1, "on", 2))
    long = Description(words, ((3, 5), (0, 2), (6, 8)), relations)
    assert truncate(long, 8) == long
    assert truncate(long, 7) == Description(words[:7], ((3, 5), (0, 2)), relations[:1])
    assert truncate(long, 4) == Description(words[:4], ((0, 2),), ())


def test_phrases_that_are_annotated_as_not_visible_are_left_out() -> None:
    text = "a dog in the morning"
    marked = (Phrase("a dog", 0, 2), Phrase("the morning", 3, 5, types=("notvisual",)))
    one = Sample("1", (Caption(text, tuple(tokens(text)), marked),))
    assert [d.texts() for d in caption_descriptions([one])["1"]] == [["a dog"]]
    plain = Sample("2", (Caption(text, tuple(tokens(text))), Caption("a cat", ("a", "cat"))))
    assert [d.texts() for d in caption_descriptions([plain])["2"]] == [["a dog", "the morning"], ["a cat"]]
