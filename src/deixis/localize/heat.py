"""Heat maps: from attention over regions, and the heat inside boxes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis.types import HeatMap, Regions

Floats = npt.NDArray[np.floating]


def heat_map(weights: Floats, boxes: Floats, size: tuple[int, int], cells: int = 32) -> HeatMap:
    """Sum the weights ``[N]`` of boxes ``[N, 4]`` over a grid: a cell gets a box's weight times the share it covers."""
    down, across = _coverage(boxes, size, cells, cells)
    return HeatMap((weights[:, None] * down).T @ across, size)


def heat_inside(maps: Floats, regions: Regions) -> Floats:
    """Heat ``[P, N]`` of each map ``[P, H, W]`` inside each region; cells count by the share that is covered."""
    down, across = _coverage(regions.boxes, regions.size, *maps.shape[1:])
    return np.einsum("phn,nh->pn", maps @ across.T, down)


def _coverage(boxes: Floats, size: tuple[int, int], rows: int, columns: int) -> tuple[Floats, Floats]:
    """Shares of each grid row ``[N, rows]`` and column ``[N, columns]`` that each box covers."""
    x1, y1, x2, y2 = np.asarray(boxes, dtype=np.float64).T[:, :, None]
    return _covered(y1, y2, size[1], rows), _covered(x1, x2, size[0], columns)


def _covered(low: Floats, high: Floats, length: int, cells: int) -> Floats:
    edges = np.arange(cells + 1) * (length / cells)
    shared = np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1])
    return np.clip(shared * (cells / length), 0, 1)
