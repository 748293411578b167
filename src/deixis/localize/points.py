"""Point of a heat map: its bicubic maximum (AMC), the centre of its hottest cells, or a point inside a box."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.types import Box, HeatMap, Point


def bicubic_maximum(heat: HeatMap) -> Point:
    """Column and row of the maximum of the map at image size, as AMC's evaluator points.

    The first in reading order where several pixels are equal.
    """
    image = enlarge_bicubic(heat)
    row, column = np.unravel_index(int(image.argmax()), image.shape)
    return float(column), float(row)


def centre_of_maximum(heat: HeatMap) -> Point:
    """Centre of the hottest cell that is nearest to the mean of all hottest cells.

    Regions cover many cells with the same value; the first of these cells would be a corner.
    """
    grid = heat.grid
    rows, columns = np.nonzero(grid >= grid.max() * (1 - 1e-6))
    middle = np.array([rows.mean(), columns.mean()])
    nearest = np.argmin(((np.stack([rows, columns], 1) - middle) ** 2).sum(1))
    width, height = heat.size
    x, y = (columns[nearest] + 0.5) * width / grid.shape[1], (rows[nearest] + 0.5) * height / grid.shape[0]
    return float(x), float(y)


def point_in_box(heat: HeatMap, box: Box, preferred: Point) -> Point:
    """Return ``preferred`` if it lies in the box; else the centre of the hottest cell in the box, else its centre."""
    if geometry.contains(box, preferred):
        return preferred
    rows, columns = heat.grid.shape
    x, y = (np.arange(columns) + 0.5) * heat.size[0] / columns, (np.arange(rows) + 0.5) * heat.size[1] / rows
    inside = ((box[1] <= y) & (y < box[3]))[:, None] & ((box[0] <= x) & (x < box[2]))
    if not inside.any():
        return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    row, column = np.unravel_index(int(np.where(inside, heat.grid, -np.inf).argmax()), inside.shape)
    return float(x[column]), float(y[row])


def enlarge_bicubic(heat: HeatMap) -> npt.NDArray[np.float32]:
    """Map ``[height, width]`` at image size by bicubic interpolation (kernel a = -.75, edges repeated)."""
    width, height = heat.size
    rows, columns = heat.grid.shape
    grid = heat.grid.astype(np.float32)
    return np.asarray(_bicubic(rows, height) @ grid @ _bicubic(columns, width).T, dtype=np.float32)


@lru_cache(maxsize=256)
def _bicubic(source: int, target: int) -> npt.NDArray[np.float32]:
    """Weights ``[target, source]`` that resample one axis, pixel centres at half-way points."""
    a = -0.75
    place = (np.arange(target) + 0.5) * source / target - 0.5
    base = np.floor(place)
    weights = np.zeros((target, source))
    for step in (-1, 0, 1, 2):
        distance = np.abs(place - (base + step))
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        column = np.clip(base + step, 0, source - 1).astype(np.intp)
        np.add.at(weights, (np.arange(target), column), np.where(distance <= 1, near, far))
    return weights.astype(np.float32)
