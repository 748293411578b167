"""Grammatical number of phrases."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deixis.language.parse import Parse

COLLECTIVE = frozenset(
    ("audience", "band", "bunch", "choir", "class", "couple", "crew", "crowd", "duo", "family", "flock", "gang",
     "group", "herd", "orchestra", "pack", "pair", "team", "trio")
)  # fmt: skip
"""Singular nouns for several objects (lemmas)."""

PAIRED = frozenset(
    ("binoculars", "clothes", "eyeglasses", "glasses", "goggles", "headphones", "jeans", "khakis", "leggings",
     "overalls", "pajamas", "pants", "scissors", "shorts", "slacks", "stairs", "sunglasses", "swimtrunks", "tights",
     "trousers", "trunks")
)  # fmt: skip
"""Plural nouns for one object."""


def is_plural(parse: Parse, start: int = 0, end: int | None = None) -> bool:
    """Return whether tokens [start, end) name several objects: "dogs", "a crowd", "a man and a woman"."""
    stop = len(parse) if end is None else end
    head = parse.head(start, stop)
    if head is None:
        return False
    if parse.tags[head] == "CD":
        return parse.tokens[head] not in ("one", "1")
    joined = any(parse.labels[i] == "conj" and parse.heads[i] == head and parse.nouns[i] for i in range(head + 1, stop))
    plural = parse.tags[head] in ("NNS", "NNPS") and parse.tokens[head] not in PAIRED
    return joined or plural or parse.lemmas[head] in COLLECTIVE
