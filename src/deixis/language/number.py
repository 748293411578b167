"""Does a phrase mean one thing or several? A box around several is not the box of any of them."""

from __future__ import annotations

from deixis.language.parse import Parse

COLLECTIVE = frozenset(
    ("audience", "band", "bunch", "choir", "class", "couple", "crew", "crowd", "duo", "family", "flock", "gang",
     "group", "herd", "orchestra", "pack", "pair", "team", "trio")
)  # fmt: skip
"""Nouns that mean several in the singular (lemmas)."""

PAIRED = frozenset(
    ("binoculars", "clothes", "eyeglasses", "glasses", "goggles", "headphones", "jeans", "khakis", "leggings",
     "overalls", "pajamas", "pants", "scissors", "shorts", "slacks", "stairs", "sunglasses", "swimtrunks", "tights",
     "trousers", "trunks")
)  # fmt: skip
"""Plurals that mean one thing."""


def several(grammar: Parse, start: int = 0, end: int | None = None) -> bool:
    """Whether tokens [start, end) name several things: dogs, two of them, a crowd, a man and a woman."""
    stop = len(grammar) if end is None else end
    head = grammar.head(start, stop)
    if head is None:
        return False
    if grammar.tags[head] == "CD":
        return grammar.tokens[head] not in ("one", "1")
    joined = any(
        grammar.labels[i] == "conj" and grammar.heads[i] == head and grammar.nouns[i] for i in range(head + 1, stop)
    )
    plural = grammar.tags[head] in ("NNS", "NNPS") and grammar.tokens[head] not in PAIRED
    return joined or plural or grammar.lemmas[head] in COLLECTIVE
