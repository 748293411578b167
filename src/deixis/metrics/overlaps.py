"""How two boxes lie to each other, pair by pair: what every grounding metric asks."""

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
    """Whether at least ``share`` of the area of ``a[i]`` lies in ``b[i]``; an empty box is inside of nothing."""
    size = geometry.area(a)
    # the slack is for rounding only: a box that lies in another to the last digit must not fail by one
    return (size > 0) & (paired_intersection(a, b) >= share * size * (1 - 1e-9))


def largest(values: npt.ArrayLike, owners: npt.ArrayLike, count: int) -> Array:
    """The largest of the ``values [n]`` of each owner ``[count]``; 0 for an owner that has none."""
    best = np.zeros(count)
    np.maximum.at(best, np.asarray(owners, dtype=np.intp), np.asarray(values, dtype=np.float64))
    return best


def without_extra_pixel(boxes: npt.ArrayLike) -> Array:
    """Boxes ``[..., 4]`` whose far corners are one pixel further in.

    The project's boxes are end-exclusive, so their sides count whole pixels: ``x2 - x1 + 1`` of inclusive corners.
    An evaluator that takes ``x2 - x1`` of inclusive corners sees these smaller boxes instead.
    """
    return geometry.to_zero_based_inclusive(np.asarray(boxes, dtype=np.float64)).astype(np.float64, copy=False)
