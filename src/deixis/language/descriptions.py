"""Captions with their noun phrases and relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deixis.language.parse import Parse
from deixis.language.relations import Relation, relations
from deixis.types import Phrase


@dataclass(frozen=True)
class Description:
    """A sentence, spans of its noun phrases, and relations between them."""

    words: tuple[str, ...]
    phrases: tuple[tuple[int, int], ...]  # spans [start, end) of words, none empty
    relations: tuple[Relation, ...] = ()  # subject and object are indices into phrases

    def texts(self) -> list[str]:
        """Text of each phrase."""
        return [" ".join(self.words[start:end]) for start, end in self.phrases]


def describe(parse: Parse, phrases: Sequence[Phrase] | None = None) -> Description:
    """Describe a parsed caption by its noun phrases, or by the given ones."""
    found = [phrase for phrase in (parse.phrases if phrases is None else phrases) if phrase.start < phrase.end]
    spans = tuple((phrase.start, phrase.end) for phrase in found)
    return Description(parse.tokens, spans, relations(parse, found))


def truncate(description: Description, words: int) -> Description:
    """Cut a description to its first ``words`` words, with the phrases that end there and their relations."""
    kept = [number for number, (_, end) in enumerate(description.phrases) if end <= words]
    index = {number: at for at, number in enumerate(kept)}
    return Description(
        description.words[:words],
        tuple(description.phrases[number] for number in kept),
        tuple(
            Relation(index[r.subject], r.name, index[r.object])
            for r in description.relations
            if r.subject in index and r.object in index
        ),
    )
