"""Nouns of parsed sentences and of single words."""

from deixis.language.nouns import mark_words, noun_table
from deixis.language.parse import Parse
from deixis.language.spacy_parse import spacy_parse
from deixis.language.vocabulary import Vocabulary


def parsed(*words: tuple[str, str]) -> Parse:
    tokens, tags = zip(*words, strict=True)
    there = tuple(range(len(words)))
    return Parse(tokens, tokens, tags, tags, there, ("dep",) * len(words), ())


def test_the_majority_decides() -> None:
    vocabulary = Vocabulary.build([["play", "dogs", "swing", "a"]], minimum=1)
    parses = [
        parsed(("dogs", "NNS"), ("play", "VBP")),
        parsed(("a", "DT"), ("play", "NN"), ("swing", "NN")),
        parsed(("dogs", "NNS"), ("play", "VBP"), ("swing", "VB"), ("other", "NN")),
    ]
    table = dict(zip(vocabulary.words, noun_table(parses, vocabulary), strict=True))
    assert [word for word, noun in table.items() if noun] == ["dogs"]  # 'swing' is as often one as not


def test_marked_words() -> None:
    vocabulary = Vocabulary.build([["a", "brown", "dog", "runs", "after", "big", "ball"]], minimum=1)
    (sentence,) = spacy_parse(["A brown dog runs after a big frisbee"])

    def counted(count: str) -> list[str]:
        marks = mark_words(sentence, count, vocabulary)
        return [word for word, mark in zip(sentence.tokens, marks, strict=True) if mark]

    assert counted("all") == list(sentence.tokens)
    assert counted("nouns") == ["dog"]  # frisbee is not in the vocabulary
    assert counted("NOUN+ADJ") == ["brown", "dog", "big"]
