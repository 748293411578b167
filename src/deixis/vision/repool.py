"""Features of boxes that no extractor proposed, pooled from the feature grids that regions carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from deixis.types import Regions
from deixis.vision.roi import roi_mean


def can_repool(regions: Regions) -> bool:
    """Return whether regions carry a grid of the same features as their boxes."""
    return regions.grid is not None and regions.grid.ndim == 3 and regions.grid.shape[2] == regions.features.shape[1]


def repooler(regions: Sequence[Regions]) -> Callable[[Tensor], Tensor] | None:
    """Return a function from boxes ``[I, P, K, 4]`` (fractions of the image) to features ``[I, P, K, D]``.

    Each feature is the mean of the image's grid inside the box. None if an image has no such grid. Boxes get no
    gradient.
    """
    if not all(can_repool(each) for each in regions):
        return None
    grids = [np.asarray(each.grid, dtype=np.float32) for each in regions]

    @torch.no_grad()
    def pool(boxes: Tensor) -> Tensor:
        parts = []
        for grid, places in zip(grids, boxes, strict=True):
            rows, columns, depth = grid.shape
            cells = places.reshape(-1, 4) * places.new_tensor([columns, rows, columns, rows])
            values = torch.from_numpy(grid).to(places).permute(2, 0, 1)
            parts.append(roi_mean(values, cells).view(*places.shape[:-1], depth))
        return torch.stack(parts)

    return pool
