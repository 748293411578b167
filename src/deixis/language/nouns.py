"""Nouns: of parsed sentences, and of single words without a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from deixis.language.parse import Parse
from deixis.language.vocabulary import Vocabulary


def head_lemma(parse: Parse) -> str:
    """Lemma of the head word of a phrase that was parsed alone; "" if it has no word."""
    head = parse.head(0, len(parse))
    return "" if head is None else parse.lemmas[head]


def counted_words(parse: Parse, count: str, vocabulary: Vocabulary) -> tuple[bool, ...]:
    """Mark the tokens that count: "all", "nouns", or parts of speech joined by "+" ("NOUN+ADJ").

    Words outside the vocabulary count only with "all".
    """
    if count == "all":
        return (True,) * len(parse)
    wanted = parse.nouns if count == "nouns" else [tag in count.split("+") for tag in parse.pos]
    return tuple(want and token in vocabulary for want, token in zip(wanted, parse.tokens, strict=True))


def noun_table(
    parses: Iterable[Parse],
    vocabulary: Vocabulary,
    marked: Callable[[Parse], Sequence[bool]] = lambda parse: parse.nouns,
) -> list[bool]:
    """For each word of the vocabulary, whether it is a noun (or ``marked``) in most of its occurrences.

    A tagger is too slow for the sentences that are sampled in training. Most words are nouns nearly always or never.
    """
    seen: Counter[str] = Counter()
    nouns: Counter[str] = Counter()
    for parse in parses:
        seen.update(parse.tokens)
        nouns.update(word for word, noun in zip(parse.tokens, marked(parse), strict=True) if noun)
    return [2 * nouns[word] > seen[word] for word in vocabulary.words]
