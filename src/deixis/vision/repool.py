"""Features of boxes that no extractor proposed, on tensors of several images: see :mod:`deixis.vision.moved`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from deixis.types import Json, Regions
from deixis.vision.grid_extractor import VERSION as GRID_VERSION
from deixis.vision.moved import can_repool, pool_boxes
from deixis.vision.roi import roi_mean

Pool = Callable[[Tensor, Tensor], Tensor]
"""Features ``[I, P, K, D]`` of boxes ``[I, P, K, 4]`` (fractions of the image) that were the regions ``[I, P, K]``."""


def repooler(regions: Sequence[Regions], description: Json) -> Pool | None:
    """Return the function from moved boxes to features; None if an image cannot be pooled again.

    With maps (version 2), a box gets exactly the feature of a proposal at its place; the detector's class probabilities
    are those of the proposal that was moved. With a feature grid, a feature is the mean of the grid inside the box.
    Boxes get no gradient.
    """
    if not all(can_repool(each, description) for each in regions):
        return None
    if description.get("version") == GRID_VERSION:
        return _map_pool(regions, description)
    return _grid_pool(regions)


def _map_pool(regions: Sequence[Regions], description: Json) -> Pool:
    @torch.no_grad()
    def pool(boxes: Tensor, index: Tensor) -> Tensor:
        parts = []
        for one, places, rows in zip(regions, boxes.cpu(), index.cpu(), strict=True):
            found = pool_boxes(one, places.reshape(-1, 4).numpy(), rows.reshape(-1).numpy(), description)
            parts.append(torch.from_numpy(found).view(*places.shape[:-1], -1))
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
