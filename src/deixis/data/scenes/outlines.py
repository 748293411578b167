"""Outlines: functions from a few points and sizes to the polygon ``[N, 2]`` that is filled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]  # [N, 2], x to the right, y down
Pair = tuple[float, float]
Sizes = Sequence[float]
_T = (np.arange(5) / 5)[None, :, None]  # places of the points of a curve between two given points


def turn(phase: float) -> Pair:
    """Return cosine and sine of a part of a full turn; rounded, because libraries differ in the last bit."""
    return round(math.cos(2 * math.pi * phase), 9), round(math.sin(2 * math.pi * phase), 9)


@lru_cache(maxsize=64)
def arc(start: int, end: int, corners: int) -> Points:
    """Points ``[corners, 2]`` on the unit circle; angles are in degrees, clockwise from the right."""
    angles = np.deg2rad(np.linspace(start, end, corners))
    return np.round(np.stack([np.cos(angles), np.sin(angles)], axis=1), 9)


def blob(points: Points, sizes: Sizes) -> Points:
    """A smooth closed curve through the points."""
    return _spline(np.concatenate([points[-1:], points, points[:2]]))


def line(points: Points, sizes: Sizes) -> Points:
    """A smooth line through the points with round ends; sizes: half its width at the start and at the end."""
    ends = 2 * points[:1] - points[1:2], 2 * points[-1:] - points[-2:-1]
    middle = np.concatenate([_spline(np.concatenate([ends[0], points, ends[1]])), points[-1:]])
    steps = middle[1:] - middle[:-1]
    along = np.concatenate([steps[:1], steps[:-1] + steps[1:], steps[-1:]])
    along /= np.maximum(np.sqrt((along * along).sum(1, keepdims=True)), 1e-9)
    across = along[:, ::-1] * (-1.0, 1.0)
    side = across * (sizes[0] + (sizes[-1] - sizes[0]) * (np.arange(len(middle)) / (len(middle) - 1))[:, None])
    cap = arc(30, 150, 5)
    end = middle[-1] + sizes[-1] * (cap[:, :1] * across[-1] + cap[:, 1:] * along[-1])
    start = middle[0] - sizes[0] * (cap[:, :1] * across[0] + cap[:, 1:] * along[0])
    return np.concatenate([middle + side, end, (middle - side)[::-1], start])


def rect(points: Points, sizes: Sizes) -> Points:
    """A rectangle from its upper left and lower right corner; size: radius of its corners, if they are round."""
    (x1, y1), (x2, y2) = points.tolist()
    r = sizes[0] if sizes else 0.0
    corners = ((x2 - r, y1 + r, 270), (x2 - r, y2 - r, 0), (x1 + r, y2 - r, 90), (x1 + r, y1 + r, 180))
    return np.concatenate([arc(angle, angle + 90, 5 if r else 1) * r + (x, y) for x, y, angle in corners])


def disc(points: Points, sizes: Sizes) -> Points:
    """An ellipse; sizes: its radii."""
    return arc(0, 345, 24) * (sizes[0], sizes[-1]) + points[0]


def cloud(points: Points, sizes: Sizes) -> Points:
    """An ellipse with eleven round bumps on its rim; sizes: its radii."""
    swell = 0.88 + 0.24 * np.resize(arc(0, 158, 8)[:, 1:], (88, 1))
    return arc(0, 356, 88) * swell * (sizes[0], sizes[-1]) + points[0]


OUTLINES: dict[str, Callable[[Points, Sizes], Points]] = {
    "poly": lambda points, sizes: points, "blob": blob, "line": line, "rect": rect, "disc": disc, "cloud": cloud,
}  # fmt: skip


def _spline(points: Points) -> Points:
    """Catmull-Rom curve through all points but the first and the last two."""
    a, b, c, d = (p[:, None, :] for p in (points[:-3], points[1:-2], points[2:-1], points[3:]))
    curve = b + 0.5 * _T * (c - a + _T * (2 * a - 5 * b + 4 * c - d + _T * (3 * (b - c) + d - a)))
    return curve.reshape(-1, 2)
