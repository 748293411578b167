"""What two systems both have a box for: the same word of the same photograph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deixis.exports.picture import Picture, head_nouns
from deixis.metrics.formats import phrase_key
from deixis.types import Box, GroundedCaption, Grounding

Key = tuple[object, ...]


@dataclass(frozen=True)
class Pair:
    """A word, or a phrase, and the box that each of two systems gives it."""

    image: str  # the photograph's path in its folder
    word: str
    width: int
    height: int
    a: Box
    b: Box


def match_pairs(a: Sequence[Picture], b: Sequence[Picture], quiet: bool = False) -> list[Pair]:
    """The pairs of two systems, by photograph, then in the order in which ``a`` speaks of them.

    Captions of the same words are matched place by place. Others are matched by the lemmas of the head nouns, the
    first "dog" of one caption with the first of the other. Answers to phrases are matched by the phrase, and by the
    mention where they tell it. Pictures need ``file`` and ``size`` (see :func:`deixis.exports.add_files`); those without
    are passed over.
    """
    nouns = head_nouns([*a, *b], quiet)
    others = {picture.file: picture for picture in b if picture.file}
    return [
        pair
        for picture in a
        if picture.file in others and picture.size is not None
        for pair in _pairs(picture, others[picture.file], picture.size, nouns)
    ]


def _pairs(a: Picture, b: Picture, size: tuple[int, int], nouns: Mapping[str, str]) -> Iterator[Pair]:
    said_a, said_b = _captions(a, b)
    same = [one.words == other.words for one, other in zip(said_a, said_b, strict=True)]
    ours = _places(a, said_a, same, nouns)
    theirs = _places(b, said_b, same, nouns)
    for key, one in ours.items():
        if key in theirs:
            other = theirs[key]
            word = one.text if phrase_key(one.text) == phrase_key(other.text) else nouns[one.text]
            yield Pair(a.file, word, *size, one.box, other.box)


def _captions(a: Picture, b: Picture) -> tuple[Sequence[GroundedCaption], Sequence[GroundedCaption]]:
    """The captions that belong together: the first of both, the second of both, and so on."""
    count = min(len(a.captions), len(b.captions))
    return a.captions[:count], b.captions[:count]


def _places(
    picture: Picture, captions: Sequence[GroundedCaption], same: Sequence[bool], nouns: Mapping[str, str]
) -> dict[Key, Grounding]:
    """What has a box, by what it is matched on; the last part of a key counts those that are otherwise the same."""
    found: dict[Key, Grounding] = {}
    often: defaultdict[Key, int] = defaultdict(int)

    def add(key: Key, grounding: Grounding) -> None:
        often[key] += 1
        found[*key, often[key]] = grounding

    for number, (caption, by_place) in enumerate(zip(captions, same, strict=True)):
        for grounding in sorted(caption.all_words(), key=lambda g: (g.start, g.end)):
            place: Key = (grounding.start, grounding.end) if by_place else (nouns[grounding.text],)
            add(("caption", number, *place), grounding)
    for answer in picture.answers:
        add(("phrase", answer.caption, answer.start, phrase_key(answer.grounding.text)), answer.grounding)
    return found
