"""Attention over regions as a heat map over the image, where it is hottest, and which box a heat map means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.types import Box, HeatMap, Point, Regions

Floats = npt.NDArray[np.floating]


def heat_map(weights: Floats, boxes: Floats, size: tuple[int, int], cells: int = 32) -> HeatMap:
    """Sum the weights ``[N]`` of boxes ``[N, 4]`` over a grid: a cell gets a box's weight times the share it covers."""
    down, across = _covers(boxes, size, cells, cells)
    return HeatMap((weights[:, None] * down).T @ across, size)


def heat_inside(maps: Floats, regions: Regions) -> Floats:
    """The heat of each map ``[P, H, W]`` inside each region ``[P, N]``: a cell counts by what the region covers."""
    down, across = _covers(regions.boxes, regions.size, *maps.shape[1:])
    return np.einsum("phn,nh->pn", maps @ across.T, down)


def _covers(boxes: Floats, size: tuple[int, int], rows: int, columns: int) -> tuple[Floats, Floats]:
    """Return the share that each box covers of each row ``[N, rows]`` and each column ``[N, columns]`` of a grid."""
    x1, y1, x2, y2 = np.asarray(boxes, dtype=np.float64).T[:, :, None]
    return _covered(y1, y2, size[1], rows), _covered(x1, x2, size[0], columns)


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


@dataclass(frozen=True)
class BoxRule:
    """Which region a heat map means: the one with the most heat above a floor, for its area, by its score and name."""

    floor: float  # from 0, the map's least value, to 1, its greatest; what is colder counts as nought
    area: float  # the power of the area that heat is divided by: 0 likes the whole image, 1 the hottest cell
    trust: float  # the power of the region's own score; 0: it says nothing
    name: float = 0.0  # the power of the chance that the region is what the phrase names

    def choose(self, maps: Floats, regions: Regions, named: Floats | None = None) -> npt.NDArray[np.intp]:
        """For each map ``[P, H, W]`` the number of its region ``[P]``; there must be one."""
        return self.worth(maps, regions, named).argmax(1)

    def worth(self, maps: Floats, regions: Regions, named: Floats | None = None) -> Floats:
        """What each region is worth to each map ``[P, N]``; ``named [P, N]`` are chances (:func:`named_chances`)."""
        low, high = maps.min((1, 2), keepdims=True), maps.max((1, 2), keepdims=True)
        inside = heat_inside(np.maximum(maps - low - self.floor * (high - low), 0), regions)
        worth = inside / np.maximum(geometry.area(regions.boxes), 1) ** self.area  # a region has one pixel at least
        if self.trust and regions.scores is not None:
            worth = worth * np.maximum(regions.scores, LEAST) ** self.trust
        if self.name and named is not None:
            worth = worth * np.maximum(named, LEAST) ** self.name
        return worth


LEAST = 0.001
"""The least score or chance that counts, so that none takes a region out."""


@dataclass(frozen=True)
class BoxRules:
    """The rules for one kind of proposals, by what a phrase means."""

    named: BoxRule  # one thing, for which a detector has a name
    other: BoxRule  # one thing, of which it knows nothing
    several: BoxRule  # several things: a box around them is larger, and there is no name for it


DETECTED = BoxRules(BoxRule(0.2, 0.6, 0.3, 0.4), BoxRule(0.0, 0.3, 0.0), BoxRule(0.0, 0.3, 0.1))
"""For boxes of a detector, whose score tells how likely a box is a whole thing of a kind that it knows."""

PROPOSED = BoxRules(BoxRule(0.1, 0.3, 0.0), BoxRule(0.1, 0.3, 0.0), BoxRule(0.0, 0.2, 0.0))
"""For boxes of other proposers. All were chosen on validation photographs (experiments/flickr8k-entities/boxes.py)."""


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
