"""The renderer: paints a scene on a canvas of twice its size that keeps the owner of every pixel.

Versions of OpenCV differ in how they fill the rim of a polygon; that moves a box by at most half a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import cv2
import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.scenes.colours import PALETTE, Paint, Rgb, blend, tint
from deixis.data.scenes.figures import Frame, Look, Shape, build
from deixis.data.scenes.kinds import SETTINGS
from deixis.data.scenes.layout import Scene
from deixis.data.scenes.outlines import Points, disc
from deixis.data.scenes.rng import Rng
from deixis.types import Box

Bytes = npt.NDArray[np.uint8]  # of paint: [S, S, 4], S = 2 * size of the picture; red, green, blue and owner
Fixed = npt.NDArray[np.int32]  # [N, 2] coordinates in sixteenths of a painted pixel

SUPERSAMPLING = 2  # painted pixels per pixel of the picture along each side
_BITS = 4  # after the point of fixed-point coordinates
_SHADOW = (np.arange(256)[:, None] * (0.8, 0.8, 0.8, 1.0)).astype(np.uint8)[None]  # [1, 256, 4]
_SEA: tuple[Rgb, Rgb] = ((126, 178, 206), (164, 212, 222))


def wash(paint: Bytes, top: float, bottom: float, colours: tuple[Rgb, Rgb], rng: Rng) -> None:
    """Fill the rows from top to bottom (in picture widths) with a gradient and soft blotches."""
    rows = paint[round(top * len(paint)) : round(bottom * len(paint))]
    noise = [[[rng.uniform(-7, 7)] for _ in range(10)] for _ in range(8)]
    coarse = np.zeros((8, 10, 4), np.uint8)
    coarse[..., :3] = np.clip(np.linspace(*colours, 8)[:, None] + noise, 0, 255)
    cv2.resize(coarse, rows.shape[1::-1], dst=rows)


def draw_shape(paint: Bytes, shape: Shape, place: Frame, owner: int = 0) -> None:
    """Paint a shape; ``place`` is its origin and its units along x and y, in picture widths."""
    outline = _fixed(paint, shape.outline, place)
    if shape.edge and owner:
        width = 2 * max(round(len(paint) / 224), 1)
        cv2.polylines(paint, [outline], True, (*tint(shape.fill, -0.38), owner), width, cv2.LINE_8, _BITS)
    cv2.fillPoly(paint, [outline], (*shape.fill, owner), cv2.LINE_8, _BITS)
    if shape.overlay:
        window, mask, corner = _clip(paint, outline)
        layer = window.copy()
        for patch, rgb in shape.overlay:
            cv2.fillPoly(layer, [_fixed(paint, patch, place) - corner], (*rgb, owner), cv2.LINE_8, _BITS)
        cv2.copyTo(layer, mask, window)


def draw_shadow(paint: Bytes, x: float, y: float, rx: float, ry: float) -> None:
    """Darken an ellipse; the owners of its pixels stay."""
    window, mask, _ = _clip(paint, _fixed(paint, disc(np.zeros((1, 2)), (rx, ry)), (x, y, 1.0, 1.0)))
    cv2.copyTo(cv2.LUT(window, _SHADOW), mask, window)


def _fixed(paint: Bytes, points: Points, place: Frame) -> Fixed:
    unit = len(paint) << _BITS
    x, y, across, down = place
    # The centre of painted pixel k is at k + 0.5.
    return np.rint(points * (across * unit, down * unit) + (x * unit - 8, y * unit - 8)).astype(np.int32)


def _clip(paint: Bytes, outline: Fixed) -> tuple[Bytes, Bytes, Fixed]:
    """Return the paint around an outline (a view), the outline as a mask, and the corner of the view."""
    x, y, w, h = cv2.boundingRect(outline)
    x1, x2, y1, y2 = (min(max(v >> _BITS, 0), len(paint) - 1) for v in (x, x + w, y, y + h))
    window, corner = paint[y1 : y2 + 2, x1 : x2 + 2], np.array([x1 << _BITS, y1 << _BITS], np.int32)
    mask: Bytes = np.zeros(window.shape[:2], np.uint8)
    cv2.fillPoly(mask, [outline - corner], 255, cv2.LINE_8, _BITS)
    return window, mask, corner


def paint_backdrop(scene: Scene, size: int, rng: Rng) -> Bytes:
    """Return paint with the backdrop; its stamps are as wide as the picture, or at random places."""
    paint: Bytes = np.zeros((size * SUPERSAMPLING, size * SUPERSAMPLING, 4), np.uint8)
    setting, horizon = SETTINGS[scene.setting], scene.horizon
    upper, ground = rng.pick(setting.upper), setting.ground
    wash(paint, 0.0, horizon, upper, rng)
    wash(paint, horizon, 1.0, ground, rng)
    if scene.shore > horizon:
        wash(paint, horizon, scene.shore, _SEA, rng)
    colours = {"cloud": tint(upper[1], 0.6), "far": blend(ground[0], (196, 214, 232), 0.5), "ground": ground[1]}
    for stamp, most, low, high, width in setting.stamps:
        colours["ink"] = blend(PALETTE[rng.pick(tuple(PALETTE))], ground[1], 0.4)
        shapes = build(Look(stamp, {name: Paint(name, rgb) for name, rgb in colours.items()}, {}))
        for _ in range(rng.pick(range((most + 1) // 2, most + 1))):
            x, y, unit = rng.uniform(0, 1), rng.uniform(low, high), width * rng.uniform(0.7, 1.3)
            # y is -1 at the top of the picture, 0 at the horizon and 1 at the bottom.
            y = horizon * (1 + y) if y < 0 else scene.shore + y * (1 - scene.shore)
            for shape in shapes:
                draw_shape(paint, shape, (0.0, y, 1.0, 1.0) if width == 1 else (x, y, unit, unit))
    return paint


@dataclass(frozen=True, eq=False)
class Drawing:
    """A painted scene. Boxes are tight on visible pixels, in pixels of the picture (halves of a pixel occur)."""

    pixels: Bytes  # [H, W, 3]
    owners: Bytes  # [2H, 2W] index into `keys`; 0 is the backdrop
    keys: tuple[tuple[int, str], ...]  # (thing, part) of each owner; the part is "wheels/0", or "" for the rest
    boxes: tuple[Box, ...]  # of each thing; 0, 0, 0, 0 if it is not visible
    parts: tuple[dict[str, list[Box]], ...]  # of each thing: name of a part, boxes of its visible instances
    covers: list[list[float]]  # [T][T] pixels where thing i is visible in the place of thing j
    visible: tuple[float, ...]  # share of each thing, 0..1; what its own unit hides does not count


def draw(scene: Scene, backdrop: Bytes) -> Drawing:
    """Paint the things of a scene, the far ones first, upon a copy of the paint of its backdrop."""
    paint, bounds = backdrop.copy(), [thing.bounds for thing in scene.things]
    numbers: dict[tuple[int, str], int] = {(-1, ""): 0}  # owner of each (thing, part)
    planes = []  # of each unit: its first and last owner, and the owners of all pixels at half size when it is painted
    nearness = [{"sea": -1.0, "sky": 0.5}.get(unit.zone, unit.depth) for unit in scene.units]
    for number in sorted(range(len(scene.units)), key=nearness.__getitem__):
        start = len(numbers)
        _paint_unit(paint, scene, number, numbers)
        planes.append((start, len(numbers), np.ascontiguousarray(paint[::2, ::2, 3])))
    keys, count = tuple(numbers), len(bounds)
    covers = [[0.0] * count for _ in range(count + 1)]  # the last row is the backdrop
    for start, end, plane in planes:
        pairs = cv2.calcHist([planes[-1][2], plane], [0, 1], None, [256, 256], [0, 256, 0, 256])[: len(keys), start:end]
        for now, before in np.argwhere(pairs).tolist():
            covers[keys[now][0]][keys[start + before][0]] += float(pairs[now, before])
    plane = np.ascontiguousarray(paint[..., 3])
    parts: tuple[dict[str, list[Box]], ...] = tuple({} for _ in bounds)
    for owner, (thing, part) in enumerate(keys[1:], start=1):
        box = _visible_box(plane, owner, bounds[thing])
        if box is not None:
            parts[thing].setdefault(part.partition("/")[0], []).append(box)
    found = [list(chain(*boxes.values())) for boxes in parts]
    boxes = tuple(geometry.as_box(geometry.union(each) if each else np.zeros(4)) for each in found)
    visible = tuple(covers[k][k] / max(sum(row[k] for row in covers), 1) for k in range(count))
    size = len(paint) // SUPERSAMPLING
    small = cv2.resize(paint, (size, size), interpolation=cv2.INTER_AREA)  # anti-aliased
    pixels = np.asarray(cv2.cvtColor(small, cv2.COLOR_RGBA2RGB), np.uint8)
    return Drawing(pixels, plane, keys, boxes, parts, covers, visible)


def _paint_unit(paint: Bytes, scene: Scene, number: int, numbers: dict[tuple[int, str], int]) -> None:
    """Paint the things of a unit by layer, and number their parts."""
    unit, first = scene.units[number], scene.members(number)[0]
    ground = max(thing.y for thing in unit.things)
    for thing in unit.things:
        if unit.zone not in ("sky", "sea") and ground - thing.y < 0.07:
            x1, _, x2, _ = thing.bounds
            half = (x2 - x1) * (0.2 if thing.look.kind in ("tree", "umbrella") else 0.44)
            draw_shadow(paint, (x1 + x2) / 2, thing.y, half, 0.012 + 0.08 * half)
    order = sorted(range(len(unit.things)), key=lambda k: unit.things[k].y)
    stack = [(unit.things[k].layer + shape.layer, k, shape) for k in order for shape in build(unit.things[k].look)]
    for _, k, shape in sorted(stack, key=lambda entry: entry[0]):
        owner = numbers.setdefault((first + k, shape.part), len(numbers))
        draw_shape(paint, shape, unit.things[k].frame, owner)
    if len(numbers) > 256:
        raise OverflowError(f"A scene has at most 255 parts; this one has {len(numbers) - 1}.")


def _visible_box(owners: Bytes, owner: int, bounds: Box) -> Box | None:
    """Return the tight box of an owner, in pixels of the picture; ``bounds`` are those of its thing."""
    margin = len(owners) // 100 + 2
    x1, y1, x2, y2 = (round(value * len(owners)) for value in bounds)
    left, top = max(x1 - margin, 0), max(y1 - margin, 0)
    window = owners[top : max(y2 + margin, 0), left : max(x2 + margin, 0)]
    x, y, w, h = cv2.boundingRect(cv2.inRange(window, owner, owner)) if window.size else (0, 0, 0, 0)
    box = (left + x, top + y, left + x + w, top + y + h)
    return geometry.as_box(value / SUPERSAMPLING for value in box) if w else None
