"""Proposals for made scenes that show the partial grounding problem: many boxes on a part of each thing, few on all.

A detector gives redundant boxes, most of which cover a thing only in part, so that the box that attention likes best
is often a head where a person is meant. Here the mixture is made on purpose, and known.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.sample import Sample
from deixis.data.scenes.dice import Dice
from deixis.types import Box

BACKGROUND_SHARE = 0.15
"""Share of the proposals that lie on nothing in particular."""

WHOLE_CHANCE = 0.8
"""How often a thing has one box that covers it well; the others have none above IoU 0.5."""

_SMALLEST = 9.0  # square pixels


@dataclass(frozen=True, eq=False)
class Proposals:
    """Boxes with their origin, in random order."""

    boxes: npt.NDArray[np.float64]  # [N, 4]
    entities: tuple[str | None, ...]  # [N] id of the thing or part it was cut from; None for the background
    sources: tuple[str, ...]  # [N] whole, part, side, piece, shifted, enlarged or background
    frames: npt.NDArray[np.int64] | None = None  # [N] frame of each box of a video

    def __len__(self) -> int:
        return len(self.boxes)


class _Offer(NamedTuple):
    box: Box
    entity: str | None
    source: str


class _Target(NamedTuple):
    """A thing in one frame, with its parts."""

    id: str
    box: Box
    parts: tuple[tuple[str, Box], ...]


def proposals(sample: Sample, seed: int = 0, n: int = 50) -> Proposals:
    """``n`` boxes (a video: ``n`` per frame) for a made scene; the same for the same sample, seed and n."""
    if sample.pixels is None:
        raise ValueError(f"sample {sample.image_id} is not a made scene: it has no pixels")
    dice = Dice(seed, zlib.crc32(sample.image_id.encode()))
    if sample.pixels.ndim == 3:
        offers = _frame(dice, sample, None, n)
        frames = None
    else:
        offers = [offer for frame in range(len(sample.pixels)) for offer in _frame(dice, sample, frame, n)]
        frames = np.repeat(np.arange(len(sample.pixels)), n)
    boxes = np.array([offer.box for offer in offers])
    return Proposals(boxes, tuple(o.entity for o in offers), tuple(o.source for o in offers), frames)


def _frame(dice: Dice, sample: Sample, frame: int | None, n: int) -> list[_Offer]:
    width, height = sample.image_size()
    targets = _targets(sample, frame)
    offers: list[_Offer] = []
    if targets:
        wanted = n - round(BACKGROUND_SHARE * n)
        sources = [_offers(dice, target, width, height) for target in targets]
        while len(offers) < wanted:
            offers += [next(source) for source in sources]
        offers = offers[:wanted]
    taken = np.array([target.box for target in targets]).reshape(-1, 4)
    while len(offers) < n:
        offers.append(_Offer(_background(dice, taken, width, height), None, "background"))
    return dice.some(offers, n)


def _targets(sample: Sample, frame: int | None) -> list[_Target]:
    """The things (not the groups, not the scene) that are to be seen in a frame."""
    boxes: dict[str, list[Box]] = {}
    for entity in sample.entities:
        here = entity.boxes if frame is None or entity.frames is None else entity.boxes[entity.frames == frame]
        boxes[entity.id] = [(float(x1), float(y1), float(x2), float(y2)) for x1, y1, x2, y2 in here]
    return [
        _Target(
            name,
            found[0],
            tuple((part, box) for part, pieces in boxes.items() if part.startswith(f"{name}.") for box in pieces),
        )
        for name, found in boxes.items()
        if found and "." not in name
    ]


def _offers(dice: Dice, target: _Target, width: int, height: int) -> Iterator[_Offer]:
    """Boxes for one thing without end: perhaps one of all of it, its parts, then pieces of many kinds."""
    whole = dice.chance(WHOLE_CHANCE)
    if whole:
        yield _Offer(_cut(_jitter(dice, target.box, 0.06), width, height), target.id, "whole")
    for part, box in dice.some(target.parts, len(target.parts)):
        rough = _cut(_jitter(dice, box, 0.1), width, height)
        # A tree's leaves are nearly the tree: without a box for the whole, no part may stand in for it.
        if whole or geometry.iou([rough], [target.box])[0, 0] < 0.5:
            yield _Offer(rough, part, "part")
    while True:
        kind = dice.pick(("side", "side", "piece", "piece", "piece", "shifted", "enlarged"))
        box = _cut(_spoil(dice, target.box, kind), width, height)
        # At the border of the picture an enlarged box may be cut back to a good one, and a shifted one to nothing.
        if geometry.iou([box], [target.box])[0, 0] < 0.5 and geometry.area(box) >= _SMALLEST:
            yield _Offer(box, target.id, kind)


def _spoil(dice: Dice, box: Box, kind: str) -> Box:
    """A box that covers the given one badly."""
    x1, y1, x2, y2 = box
    w, h = x2 - x1, y2 - y1
    if kind == "side":  # the upper, lower, left or right part
        share = dice.between(0.25, 0.48)
        return dice.pick(
            (
                (x1, y1, x2, y1 + share * h),
                (x1, y2 - share * h, x2, y2),
                (x1, y1, x1 + share * w, y2),
                (x2 - share * w, y1, x2, y2),
            )
        )
    if kind == "piece":
        across, down = dice.between(0.25, 0.66), dice.between(0.25, 0.66)
        left, top = x1 + dice.between(0, 1 - across) * w, y1 + dice.between(0, 1 - down) * h
        return left, top, left + across * w, top + down * h
    if kind == "shifted":  # half on it, half beside it
        dx = dice.pick((-1.0, 1.0)) * dice.between(0.35, 0.6) * w
        dy = dice.between(-0.2, 0.2) * h
        return x1 + dx, y1 + dy, x2 + dx, y2 + dy
    grow = dice.between(0.5, 0.9)  # enlarged
    a, b = dice.between(0.2, 0.8), dice.between(0.2, 0.8)
    return x1 - grow * a * w, y1 - grow * b * h, x2 + grow * (1 - a) * w, y2 + grow * (1 - b) * h


def _jitter(dice: Dice, box: Box, amount: float) -> Box:
    x1, y1, x2, y2 = box
    w, h = amount * (x2 - x1), amount * (y2 - y1)
    return (x1 + dice.between(-w, w), y1 + dice.between(-h, h), x2 + dice.between(-w, w), y2 + dice.between(-h, h))


def _background(dice: Dice, taken: npt.NDArray[np.float64], width: int, height: int) -> Box:
    """A random box that is no thing's; of twenty, the one that fits things least."""
    best: tuple[float, Box] | None = None
    for _ in range(20):
        w, h = dice.between(0.08, 0.5) * width, dice.between(0.08, 0.5) * height
        x, y = dice.between(0, width - w), dice.between(0, height - h)
        box = (x, y, x + w, y + h)
        worst = float(geometry.iou([box], taken).max(initial=0.0))
        if best is None or worst < best[0]:
            best = (worst, box)
        if worst < 0.1:
            break
    assert best is not None
    return best[1]


def _cut(box: Box, width: int, height: int) -> Box:
    x1, y1, x2, y2 = box
    return max(x1, 0.0), max(y1, 0.0), min(x2, float(width)), min(y2, float(height))
