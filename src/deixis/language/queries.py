"""Grounding queries: a parsed sentence and the phrases to ground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from deixis.errors import DeixisError
from deixis.language.parse import Parse, parse
from deixis.language.sentence import is_not_visible
from deixis.types import Phrase


@dataclass(frozen=True)
class Query:
    """A parsed sentence and phrases in it (token spans); a single phrase is its own sentence."""

    parse: Parse
    phrases: tuple[Phrase, ...]


def caption_query(parsed: Parse, spans: Sequence[Phrase] | None = None) -> Query:
    """Return the query for given spans of a caption, or for its visible noun phrases."""
    if spans is None:
        return Query(parsed, visible_phrases(parsed))
    found = [replace(parsed.phrase(span.start, span.end), text=span.text) for span in spans]
    return Query(parsed, tuple(found))


def phrase_queries(texts: Sequence[str]) -> list[Query]:
    """Return one query for each phrase; an empty phrase is an error."""
    parses = parse(texts)
    for text, parsed in zip(texts, parses, strict=True):
        if not len(parsed):
            raise DeixisError(f"the phrase '{text}' has no words. Write what to find, for example \"a dog\".")
    return [
        Query(parsed, (replace(parsed.phrase(0, len(parsed)), text=text),))
        for text, parsed in zip(texts, parses, strict=True)
    ]


def visible_phrases(parsed: Parse) -> tuple[Phrase, ...]:
    """Return the visible noun phrases of a caption in order; a noun outside all chunks is a phrase too.

    "front" in "in front of" and "camera" in "looks at the camera" are left out.
    """
    found = list(parsed.phrases)
    inside = {at for phrase in found for at in range(phrase.start, phrase.end)}
    found += [parsed.phrase(at, at + 1) for at, noun in enumerate(parsed.nouns) if noun and at not in inside]
    kept = [phrase for phrase in found if not is_not_visible(parsed.tokens, head_of(parsed, phrase))]
    return tuple(sorted(kept, key=attrgetter("start")))


def head_of(parsed: Parse, phrase: Phrase) -> int:
    """Return the index of a phrase's head word, or of its last word if it has no head."""
    head = parsed.head(phrase.start, phrase.end)
    return phrase.end - 1 if head is None else head


def shown_span(parsed: Parse, phrase: Phrase) -> tuple[int, int]:
    """Return the span of a phrase without its determiner: "red shirt" of "a red shirt"."""
    start = phrase.start
    while start < phrase.end - 1 and parsed.tags[start] in ("DT", "PRP$"):
        start += 1
    return start, phrase.end
