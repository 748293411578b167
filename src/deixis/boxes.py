"""Box geometry and the box convention of the package.

A box is ``x1, y1, x2, y2``: 0-based, end-exclusive floats in pixels of the original image. The pixel in the top
left corner is the box ``0, 0, 1, 1``; the whole image is ``0, 0, width, height``; width is ``x2 - x1`` with no
``+ 1``. Readers and writers of other formats convert with the functions at the end of this file.

Functions take and return float arrays whose last axis has length 4; leading axes are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
ArrayLike = npt.ArrayLike


def as_boxes(boxes: ArrayLike) -> Array:
    """Convert an array or nested list to floats ``[..., 4]``; an empty list becomes ``[0, 4]``."""
    array = np.asarray(boxes)
    if not np.issubdtype(array.dtype, np.floating):
        array = array.astype(np.float64)
    if array.size == 0:
        return array.reshape(0, 4)
    if array.shape[-1] != 4:
        raise ValueError(f"boxes must have shape [..., 4], not {array.shape}")
    return array


def as_box(values: Iterable[float]) -> tuple[float, float, float, float]:
    """Convert one box to a tuple of Python floats, as in :mod:`deixis.types`."""
    x1, y1, x2, y2 = (float(value) for value in values)
    return x1, y1, x2, y2


def area(boxes: ArrayLike) -> Array:
    """Areas ``[...]`` of boxes ``[..., 4]``; a box with ``x2 <= x1`` or ``y2 <= y1`` has area 0."""
    b = as_boxes(boxes)
    return np.maximum(b[..., 2] - b[..., 0], 0) * np.maximum(b[..., 3] - b[..., 1], 0)


def centre(boxes: ArrayLike) -> Array:
    """Centre points ``[..., 2]`` (x, y) of boxes ``[..., 4]``."""
    b = as_boxes(boxes)
    return b[..., :2] / 2 + b[..., 2:] / 2  # halved first: the sum could overflow


def intersection(a: ArrayLike, b: ArrayLike) -> Array:
    """Overlap areas ``[N, M]`` of boxes ``[N, 4]`` and ``[M, 4]``."""
    a, b = as_boxes(a), as_boxes(b)
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    return np.prod(np.maximum(high - low, 0), axis=-1)


def iou(a: ArrayLike, b: ArrayLike) -> Array:
    """Intersection over union ``[N, M]`` of boxes ``[N, 4]`` and ``[M, 4]``; two empty boxes give 0."""
    shared = intersection(a, b)
    total = area(a)[:, None] + area(b)[None, :] - shared
    return np.divide(shared, total, out=np.zeros_like(shared), where=total > 0)


def union(boxes: ArrayLike) -> Array:
    """Smallest box ``[4]`` around all boxes ``[N, 4]``, N > 0."""
    b = as_boxes(boxes)
    if len(b) == 0:
        raise ValueError("the union needs at least one box")
    return np.concatenate([b[:, :2].min(0), b[:, 2:].max(0)])


def clip(boxes: ArrayLike, width: float, height: float) -> Array:
    """Clip boxes ``[..., 4]`` to the image ``0, 0, width, height``."""
    return np.clip(as_boxes(boxes), 0, np.array([width, height, width, height], dtype=np.float64))


def contains(boxes: ArrayLike, point: Sequence[float]) -> npt.NDArray[np.bool_]:
    """Whether each box ``[..., 4]`` contains the point (x, y); the edges x2 and y2 are outside."""
    b, (x, y) = as_boxes(boxes), point
    return (b[..., 0] <= x) & (x < b[..., 2]) & (b[..., 1] <= y) & (y < b[..., 3])


def nms(boxes: ArrayLike, scores: ArrayLike, threshold: float) -> npt.NDArray[np.intp]:
    """Indices of the boxes kept by greedy non-maximum suppression, best score first (ties: the earlier box)."""
    b = as_boxes(boxes)
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    overlap = iou(b[order], b[order]) > threshold
    kept: list[int] = []
    remaining = np.ones(len(order), dtype=bool)
    for i in range(len(order)):
        if remaining[i]:
            kept.append(i)
            remaining &= ~overlap[i]
    return order[kept]


def deltas(sources: ArrayLike, targets: ArrayLike) -> Array:
    """Regression targets ``[..., 4]`` (dx, dy, log dw, log dh) from sources to targets; both have area > 0."""
    s, t = as_boxes(sources), as_boxes(targets)
    size_s, size_t = s[..., 2:] - s[..., :2], t[..., 2:] - t[..., :2]
    shift = (centre(t) - centre(s)) / size_s
    return np.concatenate([shift, np.log(size_t / size_s)], axis=-1)


def apply_deltas(sources: ArrayLike, offsets: ArrayLike) -> Array:
    """Boxes ``[..., 4]`` after regression: the inverse of :func:`deltas`."""
    s, d = as_boxes(sources), as_boxes(offsets)
    size = s[..., 2:] - s[..., :2]
    middle = centre(s) + d[..., :2] * size
    half = size * np.exp(d[..., 2:]) / 2
    return np.concatenate([middle - half, middle + half], axis=-1)


# Conventions of data sets ----------------------------------------------------------------------------------------


def from_inclusive(boxes: ArrayLike) -> Array:
    """From 1-based inclusive corners (Pascal VOC XML, Flickr30k Entities): pixel 1..w becomes 0..w."""
    return as_boxes(boxes) - np.array([1.0, 1.0, 0.0, 0.0])


def to_inclusive(boxes: ArrayLike) -> Array:
    """To 1-based inclusive corners: the inverse of :func:`from_inclusive`."""
    return as_boxes(boxes) + np.array([1.0, 1.0, 0.0, 0.0])


def from_zero_based_inclusive(boxes: ArrayLike) -> Array:
    """From 0-based inclusive corners (GVD and its evaluators, whose widths are ``x2 - x1 + 1``)."""
    return as_boxes(boxes) + np.array([0.0, 0.0, 1.0, 1.0])


def to_zero_based_inclusive(boxes: ArrayLike) -> Array:
    """To 0-based inclusive corners: the inverse of :func:`from_zero_based_inclusive`."""
    return as_boxes(boxes) - np.array([0.0, 0.0, 1.0, 1.0])


def from_xywh(boxes: ArrayLike) -> Array:
    """From x, y, width, height (COCO, Visual Genome, refer)."""
    b = as_boxes(boxes)
    return np.concatenate([b[..., :2], b[..., :2] + b[..., 2:]], axis=-1)


def to_xywh(boxes: ArrayLike) -> Array:
    """To x, y, width, height: the inverse of :func:`from_xywh`."""
    b = as_boxes(boxes)
    return np.concatenate([b[..., :2], b[..., 2:] - b[..., :2]], axis=-1)


def from_normalised(boxes: ArrayLike, width: float, height: float) -> Array:
    """From corners as fractions of the image (Kosmos-2, many detectors)."""
    return as_boxes(boxes) * np.array([width, height, width, height], dtype=np.float64)


def to_normalised(boxes: ArrayLike, width: float, height: float) -> Array:
    """To corners as fractions of the image: the inverse of :func:`from_normalised`."""
    return as_boxes(boxes) / np.array([width, height, width, height], dtype=np.float64)


def to_whole_pixels(boxes: ArrayLike, width: float = np.inf, height: float = np.inf) -> Array:
    """Round boxes ``[..., 4]`` to whole pixels, inside the image and at least one pixel wide and high."""
    b = clip(np.round(as_boxes(boxes)), width, height)
    low = np.minimum(b[..., :2], np.array([width, height]) - 1)
    return np.concatenate([low, np.maximum(b[..., 2:], low + 1)], axis=-1)
