"""What a thing looks like, and the brushes that all kinds of things share.

Shapes are in units of the thing's own height, feet at the origin, facing right; the light comes from the upper left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deixis.data.scenes.canvas import PALETTE, Paint, Pair, Points, Rgb, Shape, direction, ellipse, stripes, tint

DARK: Rgb = (62, 58, 66)
STEEL: Rgb = (168, 174, 184)
WOOD: Rgb = (176, 124, 80)

LOOSE = ("leash", "string")
"""Parts that lead away from a thing: they are drawn with it, but its box does not hold them."""


@dataclass(frozen=True, eq=False)
class Look:
    """What a thing is and how it is painted, wherever it stands."""

    kind: str
    paints: Mapping[str, Paint]  # "main" is the colour a caption names
    traits: Mapping[str, str]  # "pose", "hair", "top", "size", ...
    phase: float = 0.0  # of its gait; whole numbers are the same
    held: Pair | None = None  # where the string or leash it hangs on ends, in own units


def rgb_of(thing: Look, slot: str = "main") -> Rgb:
    return thing.paints[slot].rgb


def solid(points: Points, rgb: Rgb, part: str, depth: float = 0.035, layer: int = 0, line: float = 1.0) -> Shape:
    """A shape lit from the upper left: a crescent at its lower right is darker."""
    lit = points - np.array([depth, depth])
    return Shape(points, tint(rgb, -0.14), part, line, ((lit, rgb),), layer=layer)


def cloth(points: Points, paint: Paint, part: str, bands: int, layer: int = 0) -> Shape:
    """A piece of cloth: plain and shaded, or striped."""
    if paint.pattern != "striped":
        return solid(points, paint.rgb, part, 0.02, layer)
    (x1, y1), (x2, y2) = points.min(0), points.max(0)
    bars = tuple((bar, paint.accent) for bar in stripes(float(x1), float(y1), float(x2), float(y2), bands))
    return Shape(points, paint.rgb, part, overlay=bars, layer=layer)


def coat(points: Points, paint: Paint, part: str) -> Shape:
    """An animal's body: plain and shaded, or spotted."""
    if paint.pattern != "spotted":
        return solid(points, paint.rgb, part, 0.04)
    low, high = points.min(0), points.max(0)
    size = high - low
    dark = tint(paint.rgb, -0.62) if paint.name != "black" else PALETTE["white"]
    places = ((0.18, 0.3, 0.13), (0.45, 0.18, 0.1), (0.4, 0.68, 0.12), (0.72, 0.42, 0.14), (0.9, 0.8, 0.08))
    x1, y1, wide, tall = float(low[0]), float(low[1]), float(size[0]), float(size[1])
    dots = tuple((ellipse(x1 + wide * x, y1 + tall * y, r * wide, r * wide * 0.8), dark) for x, y, r in places)
    return Shape(points, paint.rgb, part, overlay=dots)


def eye(x: float, y: float, r: float, part: str, layer: int = 0) -> Shape:
    return Shape(ellipse(x, y, r, corners=12), (44, 38, 42), part, 0, layer=layer)


def bend(root: Pair, target: Pair, length: float, wish: Pair) -> tuple[Pair, Pair]:
    """The joint between two bones of equal length, on the wished side, and where the second bone ends."""
    dx, dy = target[0] - root[0], target[1] - root[1]
    distance = max(math.sqrt(dx * dx + dy * dy), 1e-6)
    reach = min(distance, 1.99 * length)
    end = (root[0] + dx * reach / distance, root[1] + dy * reach / distance)
    out = math.sqrt(length * length - reach * reach / 4)
    across = (-dy / distance, dx / distance)
    if across[0] * wish[0] + across[1] * wish[1] < 0:
        out = -out
    return ((root[0] + end[0]) / 2 + across[0] * out, (root[1] + end[1]) / 2 + across[1] * out), end


def swing(phase: float) -> tuple[float, float]:
    """Cosine and sine of the phase of a gait."""
    return direction(360 * phase)
