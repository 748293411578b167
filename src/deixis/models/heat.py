"""Attention over regions as a heat map over the image, and where it is hottest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis.types import HeatMap, Point, Regions

Floats = npt.NDArray[np.floating]


def heat_map(weights: Floats, regions: Regions, cells: int = 32) -> HeatMap:
    """The weights ``[N]`` of the regions summed where they lie: a cell has a region's weight times what it covers."""
    width, height = regions.size
    x1, y1, x2, y2 = np.asarray(regions.boxes, dtype=np.float64).T[:, :, None]
    across = _covered(x1, x2, width, cells)  # [N, cells]
    down = _covered(y1, y2, height, cells)
    return HeatMap((weights[:, None] * down).T @ across, regions.size)


def _covered(low: Floats, high: Floats, length: int, cells: int) -> Floats:
    edges = np.arange(cells + 1) * (length / cells)
    shared = np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1])
    return np.clip(shared * (cells / length), 0, 1)


def hottest(heat: HeatMap) -> Point:
    """The middle of the hottest place: regions cover many cells alike, and the first of them would be a corner."""
    grid = heat.grid
    rows, columns = np.nonzero(grid >= grid.max() * (1 - 1e-6))
    middle = np.array([rows.mean(), columns.mean()])
    nearest = np.argmin(((np.stack([rows, columns], 1) - middle) ** 2).sum(1))
    width, height = heat.size
    return (columns[nearest] + 0.5) * width / grid.shape[1], (rows[nearest] + 0.5) * height / grid.shape[0]
