"""Paint: polygons on a supersampled canvas that remembers which part of which thing owns every pixel.

A picture is the same on every machine that has the same OpenCV: circles come from a rounded table, random numbers
from :class:`Dice`, shapes from sums, products and square roots, and there are no fonts. Versions of OpenCV differ in
how they fill the rim of a polygon; that moves a box by no more than half a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from deixis.data.scenes.dice import Dice

Rgb = tuple[int, int, int]
Points = npt.NDArray[np.float64]  # [N, 2], x to the right, y down
Pair = tuple[float, float]
N = TypeVar("N", int, float)

SUPERSAMPLING = 2
"""Painted pixels per picture pixel along each side; their average is the anti-aliasing."""

_SUBPIXEL_BITS = 4
_STEPS = 360
# cos and sin may differ in the last bit between maths libraries; nine decimals are the same everywhere.
_COS = np.round(np.cos(np.arange(_STEPS) * (2 * math.pi / _STEPS)), 9)
_SIN = np.round(np.sin(np.arange(_STEPS) * (2 * math.pi / _STEPS)), 9)


# Colours ------------------------------------------------------------------------------------------------------------

PALETTE: dict[str, Rgb] = {
    "red": (208, 62, 60),
    "orange": (238, 140, 54),
    "yellow": (245, 205, 78),
    "green": (78, 152, 84),
    "blue": (62, 112, 190),
    "purple": (136, 92, 170),
    "pink": (242, 150, 182),
    "brown": (138, 92, 58),
    "black": (54, 54, 62),
    "white": (247, 245, 240),
    "grey": (150, 153, 160),
}


@dataclass(frozen=True)
class Paint:
    """A colour with its name, and how it is laid on."""

    name: str
    rgb: Rgb
    pattern: str = ""  # "striped", "spotted" or plain

    @property
    def accent(self) -> Rgb:
        """The colour of the stripes or spots: white, or grey on white."""
        return PALETTE["white"] if self.name != "white" else tint(self.rgb, -0.42)


HAIR: dict[str, Rgb] = {
    "black": (56, 48, 50),
    "brown": (122, 80, 52),
    "blond": (232, 196, 112),
    "red": (196, 94, 50),
    "grey": (176, 174, 176),
}


def mix_paint(dice: Dice, name: str, pattern: str = "", palette: Mapping[str, Rgb] = PALETTE) -> Paint:
    """A shade of the named colour, near enough to keep its name."""
    level = dice.between(-0.07, 0.07)
    r, g, b = (int(min(max(c + dice.between(-7, 7), 0), 255)) for c in tint(palette[name], level))
    return Paint(name, (r, g, b), pattern)


def tint(rgb: Rgb, amount: float) -> Rgb:
    """Lighter (towards white, amount > 0) or darker (towards black, amount < 0)."""
    goal = 255 if amount > 0 else 0
    r, g, b = (int(c + (goal - c) * abs(amount) + 0.5) for c in rgb)
    return r, g, b


def blend(a: Rgb, b: Rgb, share: float) -> Rgb:
    """``a`` with a share (0..1) of ``b``."""
    r, g, b_ = (int(p + (q - p) * share + 0.5) for p, q in zip(a, b, strict=True))
    return r, g, b_


# Outlines of shapes -------------------------------------------------------------------------------------------------


def ellipse(x: float, y: float, rx: float, ry: float | None = None, turn: float = 0, corners: int = 36) -> Points:
    """An ellipse around (x, y), turned clockwise by some degrees."""
    return arc(x, y, rx, rx if ry is None else ry, 0, 360 - 360 / corners, turn, corners)


def arc(
    x: float, y: float, rx: float, ry: float, start: float, end: float, turn: float = 0, corners: int = 18
) -> Points:
    """Points along an ellipse from one angle to another (degrees, clockwise from the right)."""
    points = _circle(start, end, corners) * (rx, ry)
    if turn:
        c, s = direction(turn)
        across, down = points[:, 0], points[:, 1]
        points = np.stack([across * c - down * s, across * s + down * c], axis=1)
    return points + np.array((x, y))


def direction(degrees: float) -> Pair:
    """Cosine and sine, of the nearest whole degree."""
    k = round(degrees) % _STEPS
    return float(_COS[k]), float(_SIN[k])


@lru_cache(maxsize=4096)
def _circle(start: float, end: float, corners: int) -> Points:
    steps = np.rint(np.linspace(start, end, corners) * (_STEPS / 360)).astype(int) % _STEPS
    points = np.stack([_COS[steps], _SIN[steps]], axis=1)
    points.setflags(write=False)
    return points


def rectangle(x1: float, y1: float, x2: float, y2: float, radius: float = 0) -> Points:
    """A rectangle, with rounded corners if a radius is given."""
    if radius <= 0:
        return polygon((x1, y1), (x2, y1), (x2, y2), (x1, y2))
    left, right, top, bottom = x1 + radius, x2 - radius, y1 + radius, y2 - radius
    corners = ((right, top, 270), (right, bottom, 0), (left, bottom, 90), (left, top, 180))
    return np.concatenate([arc(x, y, radius, radius, at, at + 90, corners=5) for x, y, at in corners])


def path(text: str, at: Pair = (0.0, 0.0), scale: float = 1.0) -> list[Pair]:
    """Points from a text of hundredths, "x y, x y, ..."; scaled and moved if asked."""
    (left, top), size = at, scale / 100
    return [(left + size * x, top + size * y) for x, y in _hundredths(text)]


@lru_cache(maxsize=1024)
def _hundredths(text: str) -> list[Pair]:
    return [(float(x), float(y)) for x, y in (pair.split() for pair in text.split(","))]


def polygon(*points: Pair) -> Points:
    """A polygon with straight sides."""
    return np.array(points, dtype=np.float64)


def limb(start: Pair, end: Pair, width: float, end_width: float | None = None) -> Points:
    """A straight limb with round ends; the widths are radii."""
    along, across = _frame(start, end)
    last = width if end_width is None else end_width
    angles = np.arange(0, 181, 30)
    bow, side = _SIN[angles][:, None], _COS[angles][:, None]
    tip = np.array(end) + last * (bow * along + side * across)
    root = np.array(start) - width * (bow * along + side * across)
    return np.concatenate([tip, root])


def bent(start: Pair, joint: Pair, end: Pair, width: float, end_width: float) -> Points:
    """A limb with one joint, as one smooth outline with round ends; the widths are radii."""
    line = curve(start, joint, end, steps=5)
    sides = ribbon(line, width, end_width)
    half = len(line)
    angles = np.arange(30, 151, 30)
    caps = []
    for first, second, radius, middle in ((half - 1, half, end_width, line[-1]), (-1, 0, width, line[0])):
        across = (sides[first] - sides[second]) / (2 * radius)
        along = np.array([across[1], -across[0]])
        caps.append(middle + radius * (_COS[angles][:, None] * across + _SIN[angles][:, None] * along))
    return np.concatenate([sides[:half], caps[0], sides[half:], caps[1]])


def blob(*points: Pair, steps: int = 5) -> Points:
    """A smooth closed curve through the points (Catmull-Rom)."""
    p = np.array(points, dtype=np.float64)
    ring = np.concatenate([p[-1:], p, p[:2]])
    return _spline(ring[:-3], p, ring[2:-1], ring[3:], steps)


def curve(*points: Pair, steps: int = 6) -> Points:
    """A smooth open line through the points (Catmull-Rom); see :func:`ribbon`."""
    p = np.array(points, dtype=np.float64)
    padded = np.concatenate([2 * p[:1] - p[1:2], p, 2 * p[-1:] - p[-2:-1]])
    line = _spline(padded[:-3], padded[1:-2], padded[2:-1], padded[3:], steps)
    return np.concatenate([line, p[-1:]])


def ribbon(line: Points, width: float, end_width: float | None = None) -> Points:
    """An open line made broad; the widths are radii, at its start and at its end."""
    last = width if end_width is None else end_width
    steps = line[1:] - line[:-1]
    along = np.concatenate([steps[:1], steps[:-1] + steps[1:], steps[-1:]])
    x, y = along[:, 0], along[:, 1]
    breadth = (width + (last - width) * _fractions(len(line))) / np.maximum(np.sqrt(x * x + y * y), 1e-9)
    across = np.stack([-y * breadth, x * breadth], axis=1)
    return np.concatenate([line + across, (line - across)[::-1]])


@lru_cache(maxsize=256)
def _fractions(count: int) -> npt.NDArray[np.float64]:
    """From 0 to 1 in equal steps."""
    return np.arange(count) / max(count - 1, 1)


def cloud(x: float, y: float, rx: float, ry: float, bumps: int, depth: float = 0.12) -> Points:
    """An ellipse with a rim of round bumps: leaves, wool, clouds."""
    step = np.arange(0, _STEPS, 4)
    swell = 1 - depth + 2 * depth * np.abs(_SIN[(step * bumps // 2) % _STEPS])
    return np.stack([x + rx * swell * _COS[step], y + ry * swell * _SIN[step]], axis=1)


def stripes(x1: float, y1: float, x2: float, y2: float, count: int, upright: bool = False) -> list[Points]:
    """Bands across a rectangle, to be clipped to a shape."""
    edges = np.linspace(x1 if upright else y1, x2 if upright else y2, 2 * count + 2)
    if upright:
        return [rectangle(float(a), y1, float(b), y2) for a, b in zip(edges[1::2], edges[2::2], strict=False)]
    return [rectangle(x1, float(a), x2, float(b)) for a, b in zip(edges[1::2], edges[2::2], strict=False)]


def _spline(a: Points, b: Points, c: Points, d: Points, steps: int) -> Points:
    t = (np.arange(steps) / steps)[None, :, None]
    a, b, c, d = (p[:, None, :] for p in (a, b, c, d))
    line = b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
    return line.reshape(-1, 2)


def _frame(start: Pair, end: Pair) -> tuple[Points, Points]:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = max(math.sqrt(dx * dx + dy * dy), 1e-9)
    return np.array([dx, dy]) / length, np.array([-dy, dx]) / length


def around(boxes: Iterable[tuple[N, N, N, N]]) -> tuple[N, N, N, N]:
    """The smallest box x1, y1, x2, y2 that holds all boxes, of which there is at least one."""
    x1, y1, x2, y2 = zip(*boxes, strict=True)
    return min(x1), min(y1), max(x2), max(y2)


# Painting -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shape:
    """A filled outline in a thing's own units: x to the right, y down, the ground at y = 0."""

    points: Points
    fill: Rgb
    part: str  # what it belongs to: "roof", "wheels/1", or "" for a part without a name
    line: float = 1.0  # breadth of the outline, in 1/224 of the picture; 0 is none
    overlay: tuple[tuple[Points, Rgb], ...] = ()  # painted upon it, clipped to it
    hole: Points | None = None
    layer: int = 0  # among things that stand together, higher layers are painted later


class Canvas:
    """A square picture of ``size`` pixels: ``paint [S, S, 4]``, S = 2 * size; red, green, blue and owner."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.scale = size * SUPERSAMPLING
        self.paint = np.zeros((self.scale, self.scale, 4), np.uint8)

    def copy(self) -> Canvas:
        """Another canvas with the same paint on it."""
        other = Canvas(self.size)
        np.copyto(other.paint, self.paint)
        return other

    def fill(self, points: Points, rgb: Rgb) -> None:
        """Fill an outline (in picture widths) of the backdrop."""
        cv2.fillPoly(self.paint, [self._fixed(points)], (*rgb, 0), cv2.LINE_8, _SUBPIXEL_BITS)

    def draw(self, shape: Shape, points: Points, move: Pair, scale: Pair, owner: int) -> None:
        """Paint a shape whose ``points`` are already in picture widths; ``move`` and ``scale`` place the rest of it."""
        outlines = [self._fixed(points)]
        if shape.hole is not None:
            outlines.append(self._fixed(shape.hole * scale + move))
        if shape.line > 0:
            breadth = max(round(shape.line * self.scale / 224), 1)
            edge = (*tint(shape.fill, -0.38), owner)
            cv2.polylines(self.paint, outlines, True, edge, 2 * breadth, cv2.LINE_8, _SUBPIXEL_BITS)
        cv2.fillPoly(self.paint, outlines, (*shape.fill, owner), cv2.LINE_8, _SUBPIXEL_BITS)
        if not shape.overlay:
            return
        window, origin = self._window(points)
        if window.size == 0:
            return
        mask = np.zeros(window.shape[:2], np.uint8)
        cv2.fillPoly(mask, [outlines[0] - origin], 255, cv2.LINE_8, _SUBPIXEL_BITS)
        layer = window.copy()
        for part, rgb in shape.overlay:
            outline = self._fixed(part * scale + move) - origin
            cv2.fillPoly(layer, [outline], (*rgb, owner), cv2.LINE_8, _SUBPIXEL_BITS)
        cv2.copyTo(layer, mask, window)

    def shadow(self, x: float, y: float, rx: float, ry: float, strength: float = 0.2) -> None:
        """Darken an ellipse of what is painted so far; it changes nobody's ownership."""
        outline = ellipse(x, y, rx, ry)
        window, origin = self._window(outline)
        if window.size == 0:
            return
        mask = np.zeros(window.shape[:2], np.uint8)
        cv2.fillPoly(mask, [self._fixed(outline) - origin], 255, cv2.LINE_8, _SUBPIXEL_BITS)
        keep = round((1 - strength) * 256)
        dark = window.copy()
        dark[..., :3] = (dark[..., :3].astype(np.uint16) * keep) >> 8
        cv2.copyTo(dark, mask, window)

    def picture(self) -> npt.NDArray[np.uint8]:
        """The picture ``[size, size, 3]``, anti-aliased."""
        small = cv2.resize(self.paint, (self.size, self.size), interpolation=cv2.INTER_AREA)
        return np.ascontiguousarray(small[..., :3])

    def reach(self, points: Points, line: float) -> tuple[int, int, int, int]:
        """The window x1, y1, x2, y2 of painted pixels that a shape with this outline may touch."""
        margin = round(line * self.scale / 224) + 3
        (x1, y1), (x2, y2) = points.min(0).tolist(), points.max(0).tolist()
        return (
            max(math.floor(x1 * self.scale) - margin, 0),
            max(math.floor(y1 * self.scale) - margin, 0),
            min(math.ceil(x2 * self.scale) + margin, self.scale),
            min(math.ceil(y2 * self.scale) + margin, self.scale),
        )

    def _window(self, points: Points) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """The paint around an outline, a view, and its corner in fixed point."""
        x1, y1, x2, y2 = self.reach(points, 0)
        return self.paint[y1 : max(y2, y1), x1 : max(x2, x1)], np.array([x1, y1], np.int32) << _SUBPIXEL_BITS

    def _fixed(self, points: Points) -> npt.NDArray[np.int32]:
        # The centre of painted pixel k is at k + 0.5.
        one = 1 << _SUBPIXEL_BITS
        return np.rint(points * (self.scale * one) - one / 2).astype(np.int32)
