"""Written form of a generated caption: capitals, spaces and punctuation."""

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
"""Words that are always capitalised."""

_BRACKETS = {"-lrb-": "(", "-rrb-": ")"}
_OPENING = ("(", "#")
_NO_SPACE_BEFORE = (")", "'s", "'re", "'ve", "'ll", "'d", "'m", "n't", "'", ",", ".", "!", "?", ":", ";")

_UNFINISHED = frozenset(
    ("a", "an", "and", "are", "as", "at", "by", "for", "from", "his", "her", "in", "is", "its", "of", "on", "or",
     "that", "the", "their", "to", "which", "while", "with")
)  # fmt: skip
"""Words that do not end a complete sentence; such a sentence was cut at the maximum length."""


_FUNCTION_WORDS = _UNFINISHED | frozenset(
    ("another", "down", "into", "it", "next", "off", "one", "out", "over", "some", "them", "through", "two", "up")
)
"""Words that may occur more than once in a sentence."""

_DIRECTIONS = ("back", "bottom", "edge", "front", "middle", "side", "top")


def pieces(words: Sequence[str]) -> list[str]:
    """Return the written form of each word, with the space before it.

    Joined and followed by :func:`end`, they are the sentence.
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
    """Return the final punctuation: a full stop, or an ellipsis if the sentence was cut."""
    if not words or words[-1][-1] in ".!?":
        return ""
    return "…" if words[-1] in _UNFINISHED else "."


def sentence(words: Sequence[str]) -> str:
    """Join words to a sentence with capitals and punctuation; its tokens are the same words."""
    return "".join(pieces(words)) + end(words)


def repeats_word(words: Sequence[str]) -> bool:
    """Return whether a content word occurs twice: "a white and white house", "a boy and a boy"."""
    content = [word for word in words if word not in _FUNCTION_WORDS]
    return len(set(content)) < len(content)


_PICTURES = ("photo", "picture", "image", "photograph", "view")
_INDEFINITE = ("something", "anything", "nothing", "everything")


def is_direction(words: Sequence[str], at: int) -> bool:
    """Return whether a noun only states a location, such as "front" in "in front of a house"."""
    before = [word for word in words[max(0, at - 2) : at] if word not in ("the", "a")]
    return (
        words[at] in _DIRECTIONS and before[-1:] in (["in"], ["on"], ["at"]) and list(words[at + 1 : at + 2]) == ["of"]
    )


def is_not_visible(words: Sequence[str], at: int) -> bool:
    """Return whether a noun has no region of its own.

    A location (:func:`is_direction`), "camera" in "looks at the camera", "photo" in "a photo of a house", "something".
    """
    is_camera = words[at] == "camera" and tuple(words[max(0, at - 2) : at]) in (("at", "the"), ("for", "the"))
    is_photo = words[at] in _PICTURES and list(words[at + 1 : at + 2]) == ["of"]
    return is_camera or is_photo or words[at] in _INDEFINITE or is_direction(words, at)
