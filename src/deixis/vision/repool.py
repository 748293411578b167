"""Features of boxes that no extractor proposed, pooled from what regions carry of their image."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from deixis import boxes as geometry
from deixis.types import Json, Regions
from deixis.vision.grid_extractor import CLASS_WEIGHT, repool
from deixis.vision.grid_extractor import VERSION as GRID_VERSION
from deixis.vision.roi import roi_mean

Pool = Callable[[Tensor, Tensor], Tensor]
"""Features ``[I, P, K, D]`` of boxes ``[I, P, K, 4]`` (fractions of the image) that were the regions ``[I, P, K]``."""


def can_repool(regions: Regions, description: Json) -> bool:
    """Return whether features of other boxes can be pooled: version 2 needs its maps, other extractors a feature grid.

    ``description`` is that of the extractor. A feature grid of version 2 has the position and the surroundings of its
    tiles, so that a mean over tiles is not the feature of a box. The grid of imported features is of another network.
    """
    if "layout" in description:
        return False
    if description.get("version") == GRID_VERSION:
        return bool(regions.maps)
    return regions.grid is not None and regions.grid.ndim == 3 and regions.grid.shape[2] == regions.features.shape[1]


def repooler(regions: Sequence[Regions], description: Json) -> Pool | None:
    """Return the function from moved boxes to features; None if an image cannot be pooled again.

    With maps (version 2), a box gets exactly the feature of a proposal at its place; the detector's class probabilities
    are those of the proposal that was moved. With a feature grid, a feature is the mean of the grid inside the box.
    Boxes get no gradient.
    """
    if not all(can_repool(each, description) for each in regions):
        return None
    if description.get("version") == GRID_VERSION:
        return _map_pool(regions, int(description["pooling"]["classes"]))
    return _grid_pool(regions)


def _map_pool(regions: Sequence[Regions], classes: int) -> Pool:
    @torch.no_grad()
    def pool(boxes: Tensor, index: Tensor) -> Tensor:
        parts = []
        for one, places, rows in zip(regions, boxes.cpu(), index.cpu(), strict=True):
            corners = geometry.from_normalised(places.reshape(-1, 4).double().numpy(), *one.size)
            # rows beyond an image's own regions are padding, whose values have no meaning
            kept = one.features[np.minimum(rows.reshape(-1).numpy(), len(one) - 1)]
            probs = kept[:, kept.shape[1] - classes :].astype(np.float32) / CLASS_WEIGHT
            found = repool(one.maps, corners, one.size, classes, probs if classes else None)
            parts.append(torch.from_numpy(found.astype(np.float32)).view(*places.shape[:-1], -1))
        return torch.stack(parts).to(boxes)

    return pool


def _grid_pool(regions: Sequence[Regions]) -> Pool:
    grids = [np.asarray(each.grid, dtype=np.float32) for each in regions]

    @torch.no_grad()
    def pool(boxes: Tensor, index: Tensor) -> Tensor:
        parts = []
        for grid, places in zip(grids, boxes, strict=True):
            rows, columns, depth = grid.shape
            cells = places.reshape(-1, 4) * places.new_tensor([columns, rows, columns, rows])
            values = torch.from_numpy(grid).to(places).permute(2, 0, 1)
            parts.append(roi_mean(values, cells).view(*places.shape[:-1], depth))
        return torch.stack(parts)

    return pool
