"""A scene becomes pixels, and tells exactly which of them belong to whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from deixis.data.scenes.canvas import SUPERSAMPLING, Canvas, Points, Shape, around
from deixis.data.scenes.layout import Scene, Unit
from deixis.data.scenes.look import LOOSE
from deixis.data.scenes.things import Thing, shapes
from deixis.types import Box

Owners = npt.NDArray[np.integer | np.floating]  # as OpenCV's stubs have it; the numbers are bytes
Window = tuple[int, int, int, int]  # x1, y1, x2, y2 in painted pixels


@dataclass(frozen=True, eq=False)
class Drawing:
    """A painted scene. Boxes are tight on visible pixels, in pixels of the picture (halves of a pixel occur)."""

    pixels: npt.NDArray[np.uint8]  # [H, W, 3]
    owners: Owners  # [2H, 2W] index into `keys`; 0 is the backdrop
    keys: tuple[tuple[int, str], ...]  # (thing, part) of each owner; the part is "wheels/0", or "" for the rest
    key_boxes: tuple[Box | None, ...]  # of each owner; None where nothing of it is to be seen
    boxes: tuple[Box | None, ...]  # of each thing, without its loose parts
    visible: tuple[float, ...]  # how much of each thing is to be seen, 0..1
    areas: tuple[int, ...]  # painted pixels of each thing before other units hid some
    hides: Mapping[tuple[int, int], int]  # (front thing, back thing): painted pixels of the back one hidden

    @property
    def size(self) -> int:
        """Width and height of the picture."""
        return len(self.pixels)


def plain(key: str) -> str:
    """The name of a part without the number of its instance: "wheels" of "wheels/1"."""
    return key.partition("/")[0]


def draw(scene: Scene, canvas: Canvas) -> Drawing:
    """Paint the things of a scene, the far ones first, upon a canvas that has its backdrop."""
    everything = range(len(scene.things))
    keys: list[tuple[int, str]] = [(-1, "")]
    reach: list[Window] = [(0, 0, canvas.scale, canvas.scale)]  # of each owner, in painted pixels
    whole: Counter[int] = Counter()
    hides: Counter[tuple[int, int]] = Counter()
    for first, unit in sorted(zip(scene.offsets(), scene.units, strict=True), key=lambda pair: _nearness(pair[1])):
        known = len(keys)
        strokes = _strokes(canvas, first, unit, keys, reach)
        x1, y1, x2, y2 = window = around(reach[known:])
        if x1 >= x2 or y1 >= y2:  # it has left the picture
            continue
        _shadows(canvas, unit)
        before = cv2.extractChannel(canvas.paint[y1:y2, x1:x2], 3)
        for owner, thing, shape, points in strokes:
            canvas.draw(shape, points, (thing.x, thing.y), thing.scale, owner)
        after = cv2.extractChannel(canvas.paint[y1:y2, x1:x2], 3)
        for owner in range(known, len(keys)):
            whole[keys[owner][0]] += _measure(after, window, owner, reach[owner])[1]
        hides += _hidden(before, after, keys)
    owners = cv2.extractChannel(canvas.paint, 3)
    found = [_measure(owners, reach[0], owner, reach[owner]) for owner in range(len(keys))]
    tight: dict[int, list[Box]] = {k: [] for k in everything}
    seen: Counter[int] = Counter()
    for (index, part), (box, area) in zip(keys[1:], found[1:], strict=True):
        seen[index] += area
        if box is not None and part not in LOOSE:
            tight[index].append(box)
    return Drawing(
        pixels=canvas.picture(),
        owners=owners,
        keys=tuple(keys),
        key_boxes=tuple(box for box, _ in found),
        boxes=tuple(around(tight[k]) if tight[k] else None for k in everything),
        visible=tuple(seen[k] / max(whole[k], 1) for k in everything),
        areas=tuple(whole[k] for k in everything),
        hides=hides,
    )


def _strokes(
    canvas: Canvas, first: int, unit: Unit, keys: list[tuple[int, str]], reach: list[Window]
) -> list[tuple[int, Thing, Shape, Points]]:
    """The unit's shapes in order of painting, with owner and place; notes each owner and how far its paint may go."""
    stack = [
        (thing.layer + shape.layer, first + k, thing, shape)
        for k, thing in sorted(enumerate(unit.things), key=lambda pair: pair[1].y)
        for shape in shapes(thing.look)
    ]
    owner_of: dict[tuple[int, str], int] = {}
    strokes = []
    for _, index, thing, shape in sorted(stack, key=lambda entry: entry[0]):
        key = (index, shape.part)
        if key not in owner_of:
            owner_of[key] = len(keys)
            keys.append(key)
            reach.append((canvas.scale, canvas.scale, 0, 0))
        owner = owner_of[key]
        points = shape.points * thing.scale + (thing.x, thing.y)
        reach[owner] = around((reach[owner], canvas.reach(points, shape.line)))
        strokes.append((owner, thing, shape, points))
    if len(keys) > 256:
        raise OverflowError(f"a scene of {len(keys)} parts is more than a byte can count")
    return strokes


def _nearness(unit: Unit) -> float:
    return {"wall": -2.0, "sea": -1.0, "sky": 0.5}.get(unit.zone, unit.depth)


def _shadows(canvas: Canvas, unit: Unit) -> None:
    if unit.zone in ("sky", "wall", "sea"):
        return
    ground = max(thing.y for thing in unit.things)
    for thing in unit.things:
        if ground - thing.y < 0.07:
            x1, _, x2, _ = thing.bounds
            half = (x2 - x1) * (0.2 if thing.kind in ("tree", "palm", "lamp", "umbrella") else 0.44)
            canvas.shadow((x1 + x2) / 2, thing.y, half, 0.012 + 0.08 * half)


def _measure(owners: Owners, window: Window, owner: int, reach: Window) -> tuple[Box | None, int]:
    """The tight box (in picture pixels) and the number of painted pixels of an owner; ``owners`` shows the window."""
    x1, y1, x2, y2 = reach
    if x1 >= x2 or y1 >= y2:
        return None, 0
    mine = cv2.inRange(owners[y1 - window[1] : y2 - window[1], x1 - window[0] : x2 - window[0]], owner, owner)
    area = cv2.countNonZero(mine)
    if area == 0:
        return None, 0
    x, y, w, h = cv2.boundingRect(mine)
    k = SUPERSAMPLING
    return ((x1 + x) / k, (y1 + y) / k, (x1 + x + w) / k, (y1 + y + h) / k), area


def _hidden(before: Owners, after: Owners, keys: list[tuple[int, str]]) -> Counter[tuple[int, int]]:
    """How many painted pixels of earlier things (the second of a pair) the new ones have taken."""
    out: Counter[tuple[int, int]] = Counter()
    places = np.flatnonzero((before != after) & (before > 0))
    if len(places):
        pairs = np.bincount(after.ravel()[places].astype(np.int64) * 256 + before.ravel()[places])
        for pair in np.flatnonzero(pairs).tolist():
            out[keys[pair // 256][0], keys[pair % 256][0]] += int(pairs[pair])
    return out
