"""Proposals for made scenes that show the partial grounding problem: many boxes on a part of each thing, few on all."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.sample import Sample
from deixis.data.scenes.rng import Rng
from deixis.types import Box

BACKGROUND_SHARE = 0.15  # of the proposals that lie on nothing in particular
WHOLE_CHANCE = 0.8  # that a thing has one box that covers it well; without it, none has an IoU above 0.5
Offer = tuple[Box, str | None, str]  # box, entity, source
Boxes = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Proposals:
    """Boxes with their origin, in random order."""

    boxes: npt.NDArray[np.float64]  # [N, 4]
    entities: tuple[str | None, ...]  # [N] id of the thing or part that it was cut from; None for the background
    sources: tuple[str, ...]  # [N] whole, part, piece or background
    frames: npt.NDArray[np.int64] | None = None  # [N] frame of each box of a video

    def __len__(self) -> int:
        return len(self.boxes)


def proposals(sample: Sample, seed: int = 0, n: int = 50) -> Proposals:
    """Return ``n`` boxes (of a video: ``n`` per frame) for a made scene; the same for the same sample, seed and n."""
    if sample.pixels is None:
        raise ValueError(f"Sample {sample.image_id} is not a made scene: it has no pixels.")
    rng = Rng(seed, zlib.crc32(sample.image_id.encode()))
    count = len(sample.pixels) if sample.pixels.ndim == 4 else 1
    offers = [offer for frame in range(count) for offer in _of_frame(rng, sample, frame, n)]
    boxes, entities, sources = zip(*offers, strict=True)
    frames = np.repeat(np.arange(count), n) if sample.pixels.ndim == 4 else None
    return Proposals(np.array(boxes), entities, sources, frames)


def _of_frame(rng: Rng, sample: Sample, frame: int, n: int) -> list[Offer]:
    size = sample.image_size()
    boxes = {e.id: e.boxes if e.frames is None else e.boxes[e.frames == frame] for e in sample.entities}
    things = {name: found[0] for name, found in boxes.items() if len(found) and "." not in name}
    sources = [_of_thing(rng, name, boxes, size) for name in things]
    offers = [next(sources[k % len(things)]) for k in range(n - round(BACKGROUND_SHARE * n) if things else 0)]
    while len(offers) < n:
        (x, w), (y, h) = ((rng.uniform(0, 0.9) * side, rng.uniform(0.08, 0.5) * side) for side in size)
        box = geometry.as_box(geometry.clip([x, y, x + w, y + h], *size))
        if geometry.iou([box], [*things.values()]).max(initial=0.0) < 0.3:
            offers.append((box, None, "background"))
    return rng.some(offers, n)


def _of_thing(rng: Rng, name: str, boxes: Mapping[str, Boxes], size: tuple[int, int]) -> Iterator[Offer]:
    """Yield boxes for one thing without end: perhaps one of all of it, its parts, then pieces."""
    whole, target = rng.chance(WHOLE_CHANCE), boxes[name][0].tolist()
    if whole:
        yield _move_edges(rng, target, 0.06, 0.06, size), name, "whole"
    parts = [(key, box) for key, found in boxes.items() if key.startswith(f"{name}.") for box in found.tolist()]
    for key, part in rng.some(parts, len(parts)):
        box = _move_edges(rng, part, 0.1, 0.1, size)
        # The leaves of a tree are nearly the tree: without a box of the whole, no part may replace it.
        if whole or geometry.iou([box], [target])[0, 0] < 0.5:
            yield box, key, "part"
    while True:
        box = _move_edges(rng, target, 0.3, 0.7, size)
        if geometry.iou([box], [target])[0, 0] < 0.5 and geometry.area(box) > 9:
            yield box, name, "piece"


def _move_edges(rng: Rng, box: Sequence[float], out: float, into: float, size: tuple[int, int]) -> Box:
    """Return the box with each edge moved out or in by a random share of its side."""
    x1, y1, x2, y2 = box
    left, top, right, bottom = (rng.uniform(-out, into) for _ in box)
    w, h = x2 - x1, y2 - y1
    return geometry.as_box(geometry.clip([x1 + left * w, y1 + top * h, x2 - right * w, y2 - bottom * h], *size))
