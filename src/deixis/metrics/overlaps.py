"""Overlap of boxes, pair by pair, for the grounding metrics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry

Array = npt.NDArray[np.float64]


def paired_intersection(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Overlap areas ``[n]`` of the boxes ``a[i]`` and ``b[i]``, both ``[n, 4]``."""
    a, b = geometry.as_boxes(a), geometry.as_boxes(b)
    low, high = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:])
    return np.prod(np.maximum(high - low, 0.0), axis=1)


def paired_iou(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Intersection over union ``[n]`` of the boxes ``a[i]`` and ``b[i]``, both ``[n, 4]``; two empty boxes give 0."""
    shared = paired_intersection(a, b)
    total = geometry.area(a) + geometry.area(b) - shared
    return np.divide(shared, total, out=np.zeros(len(shared)), where=total > 0)


def inside(a: npt.ArrayLike, b: npt.ArrayLike, share: float = 1.0) -> npt.NDArray[np.bool_]:
    """Whether at least ``share`` of the area of ``a[i]`` lies in ``b[i]``; False for an empty box."""
    size = geometry.area(a)
    # tolerance for rounding errors
    return (size > 0) & (paired_intersection(a, b) >= share * size * (1 - 1e-9))


def largest(values: npt.ArrayLike, owners: npt.ArrayLike, count: int) -> Array:
    """Maximum of the ``values [n]`` of each owner, ``[count]``; 0 for an owner without values."""
    best = np.zeros(count)
    np.maximum.at(best, np.asarray(owners, dtype=np.intp), np.asarray(values, dtype=np.float64))
    return best


def without_extra_pixel(boxes: npt.ArrayLike) -> Array:
    """Subtract one pixel from x2 and y2 of boxes ``[..., 4]``.

    Our boxes are end-exclusive: x2 - x1 equals ``x2 - x1 + 1`` of inclusive corners. An evaluator that uses
    ``x2 - x1`` of inclusive corners works with these smaller boxes.
    """
    return geometry.to_zero_based_inclusive(np.asarray(boxes, dtype=np.float64)).astype(np.float64, copy=False)
