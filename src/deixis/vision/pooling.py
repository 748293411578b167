"""Region features from feature grids: means in boxes, contrast with the surroundings, position and size.

:func:`pool` is the only function from grids and boxes to features. A store with grids therefore gives the features of
moved boxes too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.types import ByteGrid

Floats = npt.NDArray[np.float32]

SURROUNDINGS = 2.0
"""Sides of the surroundings of a box, as a multiple of its own sides."""
GRID_WEIGHT = 1 / 3
"""Factor of grid values; the features then have the range of version 1, for which learning rates were chosen."""
POSITION_WEIGHT = 2.0
"""Factor of position and size, which lie between 0 and 1."""


def pool(grids: Sequence[ByteGrid], boxes: npt.ArrayLike, size: tuple[int, int]) -> Floats:
    """Features ``[N, D]`` of boxes ``[N, 4]`` in pixels of an image with this size (width, height).

    D is the sum of 2 D_g over all grids, plus 8. Each grid gives the mean m in the box, and m minus the mean in the
    surroundings. The last 8 values are x1, y1, x2, y2, width, height, area and the root of the area, as shares of the
    image.
    """
    inside = geometry.clip(boxes, *size)
    outside = geometry.clip(surroundings(inside), *size)
    parts: list[npt.NDArray[np.floating]] = []
    for grid in grids:
        mean = box_means(grid, inside, size)
        parts += [mean, mean - box_means(grid, outside, size)]
    return np.concatenate([part * GRID_WEIGHT for part in parts] + [position(inside, size)], axis=1, dtype=np.float32)


def box_means(grid: ByteGrid, boxes: npt.NDArray[np.floating], size: tuple[int, int]) -> Floats:
    """Mean ``[N, D]`` of a grid in each box ``[N, 4]``; cells count by the share that the box covers.

    The weights of a box are an outer product of row and column weights, so that all means are one matrix product.
    """
    height, width, depth = grid.values.shape
    x1, y1, x2, y2 = geometry.to_normalised(boxes, *size).T
    weights = _axis_weights(y1, y2, height)[:, :, None] * _axis_weights(x1, x2, width)[:, None, :]
    cells = grid.values.reshape(-1, depth).astype(np.float32)
    means = weights.reshape(len(weights), -1) @ cells
    return (grid.scale * (means - grid.zero)).astype(np.float32)


def surroundings(boxes: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Boxes ``[N, 4]`` with the same centres and ``SURROUNDINGS`` times the sides."""
    margin = (boxes[:, 2:] - boxes[:, :2]) * ((SURROUNDINGS - 1) / 2)
    return np.concatenate([boxes[:, :2] - margin, boxes[:, 2:] + margin], axis=1)


def position(boxes: npt.NDArray[np.floating], size: tuple[int, int]) -> Floats:
    """Position and size ``[N, 8]`` of boxes, times ``POSITION_WEIGHT``."""
    shares = geometry.to_normalised(boxes, *size)
    width, height = shares[:, 2] - shares[:, 0], shares[:, 3] - shares[:, 1]
    sizes = np.stack([width, height, width * height, np.sqrt(width * height)], axis=1)
    return (np.concatenate([shares, sizes], axis=1) * POSITION_WEIGHT).astype(np.float32)


def _axis_weights(low: npt.NDArray[np.floating], high: npt.NDArray[np.floating], cells: int) -> Floats:
    """Weight ``[N, cells]`` of each cell in the mean between two shares of an axis; an interval has at least one cell.

    Cell i covers i to i + 1. The outer cells are centred on the ends of the axis, so the axis is 0.5 to cells - 0.5.
    """
    start, end = low * (cells - 1) + 0.5, high * (cells - 1) + 0.5
    middle, half = (start + end) / 2, np.maximum((end - start) / 2, 0.5)
    start = np.clip(middle - half, 0, cells - 1)
    end = np.clip(middle + half, start + 1, cells)
    edges = np.arange(cells)
    covered = np.clip(np.minimum(end[:, None], edges + 1) - np.maximum(start[:, None], edges), 0, 1)
    return (covered / covered.sum(1, keepdims=True)).astype(np.float32)
