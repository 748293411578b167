"""Nouns without a sentence."""

from deixis.language.nouns import noun_table
from deixis.language.parse import Parse
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
