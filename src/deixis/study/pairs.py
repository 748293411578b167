"""Match the boxes of two systems for the same word of the same image."""

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
    """A word or phrase with the boxes of two systems."""

    image: str  # path relative to the image folder
    word: str
    width: int
    height: int
    a: Box
    b: Box


def match_pairs(a: Sequence[Picture], b: Sequence[Picture]) -> list[Pair]:
    """Match the boxes of two systems, ordered by image, then by word as in ``a``.

    Captions with the same words are matched by word position. Others are matched by the lemmas of the head nouns: the
    first "dog" of one caption with the first of the other. Phrase predictions are matched by the phrase and, if given,
    by the mention. Pictures need ``file`` and ``size`` (see :func:`deixis.exports.add_files`); others are skipped.
    """
    nouns = head_nouns([*a, *b])
    others = {picture.file: picture for picture in b if picture.file}
    return [
        pair
        for picture in a
        if picture.file in others and picture.size is not None
        for pair in _pairs(picture, others[picture.file], picture.size, nouns)
    ]


def _pairs(a: Picture, b: Picture, size: tuple[int, int], nouns: Mapping[str, str]) -> Iterator[Pair]:
    captions_a, captions_b = _captions(a, b)
    same = [one.words == other.words for one, other in zip(captions_a, captions_b, strict=True)]
    boxes_a = _by_key(a, captions_a, same, nouns)
    boxes_b = _by_key(b, captions_b, same, nouns)
    for key, one in boxes_a.items():
        if key in boxes_b:
            other = boxes_b[key]
            word = one.text if phrase_key(one.text) == phrase_key(other.text) else nouns[one.text]
            yield Pair(a.file, word, *size, one.box, other.box)


def _captions(a: Picture, b: Picture) -> tuple[Sequence[GroundedCaption], Sequence[GroundedCaption]]:
    """Captions with the same number in both pictures."""
    count = min(len(a.captions), len(b.captions))
    return a.captions[:count], b.captions[:count]


def _by_key(
    picture: Picture, captions: Sequence[GroundedCaption], same: Sequence[bool], nouns: Mapping[str, str]
) -> dict[Key, Grounding]:
    """Match key -> grounding; the last part of a key numbers groundings with otherwise equal keys."""
    found: dict[Key, Grounding] = {}
    counts: defaultdict[Key, int] = defaultdict(int)

    def add(key: Key, grounding: Grounding) -> None:
        counts[key] += 1
        found[*key, counts[key]] = grounding

    for number, (caption, by_place) in enumerate(zip(captions, same, strict=True)):
        for grounding in sorted(caption.all_words(), key=lambda g: (g.start, g.end)):
            place: Key = (grounding.start, grounding.end) if by_place else (nouns[grounding.text],)
            add(("caption", number, *place), grounding)
    for answer in picture.answers:
        add(("phrase", answer.caption, answer.start, phrase_key(answer.grounding.text)), answer.grounding)
    return found
