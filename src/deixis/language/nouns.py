"""Which words are nouns, without a sentence around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from deixis.language.parse import Parse
from deixis.language.vocabulary import Vocabulary


def noun_table(
    parses: Iterable[Parse],
    vocabulary: Vocabulary,
    marked: Callable[[Parse], Sequence[bool]] = lambda grammar: grammar.nouns,
) -> list[bool]:
    """For each word of the vocabulary, whether it is a noun (or ``marked``) in most of the places where it stands.

    Sentences that a captioner makes while it trains are too many for a tagger; the words they are made of are few, and
    most of them are nouns nearly always or hardly ever.
    """
    seen: Counter[str] = Counter()
    nouns: Counter[str] = Counter()
    for grammar in parses:
        seen.update(grammar.tokens)
        nouns.update(word for word, noun in zip(grammar.tokens, marked(grammar), strict=True) if noun)
    return [2 * nouns[word] > seen[word] for word in vocabulary.words]
