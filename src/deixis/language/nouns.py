"""Nouns of sentences and vocabularies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from deixis.language.parse import Parse
from deixis.language.vocabulary import Vocabulary


def mark_words(sentence: Parse, which: str, vocabulary: Vocabulary) -> tuple[bool, ...]:
    """Mark the tokens of a kind: "all", "nouns", or parts of speech such as "NOUN+ADJ".

    Words outside the vocabulary are marked only by "all", because they share one embedding.
    """
    if which == "all":
        return (True,) * len(sentence)
    wanted = sentence.nouns if which == "nouns" else [tag in which.split("+") for tag in sentence.pos]
    return tuple(want and token in vocabulary for want, token in zip(wanted, sentence.tokens, strict=True))


def noun_table(
    parses: Iterable[Parse],
    vocabulary: Vocabulary,
    marked: Callable[[Parse], Sequence[bool]] = lambda parse: parse.nouns,
) -> list[bool]:
    """Return for each word of the vocabulary whether it is a noun (or ``marked``) in most of its occurrences.

    During training this table replaces a tagger, which is too slow for sampled sentences.
    """
    total: Counter[str] = Counter()
    nouns: Counter[str] = Counter()
    for parse in parses:
        total.update(parse.tokens)
        nouns.update(word for word, noun in zip(parse.tokens, marked(parse), strict=True) if noun)
    return [2 * nouns[word] > total[word] for word in vocabulary.words]
