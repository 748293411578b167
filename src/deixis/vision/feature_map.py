"""Features of images on a regular grid, as backbones in torch return them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Features of a batch of images on a regular grid.

    ``origin`` (x, y) is the centre of the first cell and ``stride`` the distance of neighbouring cells, in pixels of
    the network's input. The origin depends on the padding.
    """

    values: Tensor  # [B, D, h, w]
    stride: float
    origin: tuple[float, float]
