"""Words as a model says them become a sentence as people write it."""

from __future__ import annotations

from collections.abc import Sequence

_NAMES = {
    word: word.capitalize()
    for word in (
        *("african", "american", "asian", "boston", "british", "chinese", "christmas", "dalmatian", "easter", "french"),
        *("german", "halloween", "hawaiian", "i", "indian", "irish", "japanese", "labrador", "mexican", "mr.", "mrs."),
        *("muslim", "oklahoma", "santa", "scottish"),
    )
} | {"african-american": "African-American", "atv": "ATV", "bmx": "BMX", "dj": "DJ", "suv": "SUV", "tv": "TV"}
"""Words that are written with capitals wherever they stand, in captions of everyday photographs."""

_BRACKETS = {"-lrb-": "(", "-rrb-": ")"}
_OPENING = ("(", "#")
_NO_SPACE_BEFORE = (")", "'s", "'re", "'ve", "'ll", "'d", "'m", "n't", "'", ",", ".", "!", "?", ":", ";")

_UNFINISHED = frozenset(
    ("a", "an", "and", "are", "as", "at", "by", "for", "from", "his", "her", "in", "is", "its", "of", "on", "or",
     "that", "the", "their", "to", "which", "while", "with")
)  # fmt: skip
"""A sentence that ends with one of these was cut off at the greatest length."""


_GRAMMAR = _UNFINISHED | frozenset(
    ("another", "down", "into", "it", "next", "off", "one", "out", "over", "some", "them", "through", "two", "up")
)
"""Words that may well stand in a sentence twice."""

_DIRECTIONS = ("back", "bottom", "edge", "front", "middle", "side", "top")


def pieces(words: Sequence[str]) -> list[str]:
    """Each word as it stands in the sentence, with the space before it where there is one.

    Joined they are the sentence but for its :func:`end`.
    """
    found: list[str] = []
    for at, word in enumerate(words):
        text = _BRACKETS.get(word, _NAMES.get(word, word))
        if at == 0:
            text = text[:1].upper() + text[1:]
        elif text not in _NO_SPACE_BEFORE and words[at - 1] not in ("-lrb-", *_OPENING):
            text = f" {text}"
        found.append(text)
    return found


def end(words: Sequence[str]) -> str:
    """What stands behind the last word: a full stop, or dots where the sentence was cut off."""
    if not words or words[-1][-1] in ".!?":
        return ""
    return "…" if words[-1] in _UNFINISHED else "."


def sentence(words: Sequence[str]) -> str:
    """The words as a sentence: capitals, no space before "'s", a full stop. The tokens of it are the words again."""
    return "".join(pieces(words)) + end(words)


def repeats_word(words: Sequence[str]) -> bool:
    """Return whether a content word occurs twice: "a white and white house", "a boy and a boy"."""
    content = [word for word in words if word not in _GRAMMAR]
    return len(set(content)) < len(content)


def is_direction(words: Sequence[str], at: int) -> bool:
    """Whether a noun only says where: "front" of "in front of a house", which is no thing with a place of its own."""
    before = [word for word in words[max(0, at - 2) : at] if word not in ("the", "a")]
    return (
        words[at] in _DIRECTIONS and before[-1:] in (["in"], ["on"], ["at"]) and list(words[at + 1 : at + 2]) == ["of"]
    )


def is_out_of_sight(words: Sequence[str], at: int) -> bool:
    """Whether a noun has no place in the picture: it :func:`is_direction`, or the camera that somebody looks into."""
    looked_at = words[at] == "camera" and tuple(words[max(0, at - 2) : at]) in (("at", "the"), ("for", "the"))
    return looked_at or is_direction(words, at)
