"""RoI pooling without a compiled operator.

Coordinates follow RoIAlign with half-pixel centres: the box edge ``x`` lies at ``x - 0.5`` on the axis of cell
centres. Values between cells are interpolated bilinearly, constant up to one cell beyond the outer centres, then zero.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def roi_align(features: Tensor, boxes: Tensor, size: int, samples: int = 2) -> Tensor:
    """RoIAlign: ``[N, D, size, size]`` of one map ``[D, h, w]`` and boxes ``[N, 4]`` in cells.

    Each of the ``size x size`` bins is the mean of ``samples x samples`` points.
    """
    depth, height, width = features.shape
    x, y = _points(boxes, size * samples)  # [N, P] each
    inside = (_within(y, height)[:, :, None] & _within(x, width)[:, None, :]).to(features.dtype)
    # grid_sample without aligned corners: cell i is centred on (2 i + 1) / length - 1.
    grid = torch.stack(
        [
            ((2 * x + 1) / width - 1)[:, None, :].expand(-1, y.shape[1], -1),
            ((2 * y + 1) / height - 1)[:, :, None].expand(-1, -1, x.shape[1]),
        ],
        dim=-1,
    )  # [N, P, P, 2]
    flat = grid.reshape(1, -1, x.shape[1], 2)
    values = F.grid_sample(features[None], flat, mode="bilinear", padding_mode="border", align_corners=False)
    values = values.view(depth, len(boxes), *inside.shape[1:]) * inside
    return values.view(depth, len(boxes), size, samples, size, samples).mean((3, 5)).transpose(0, 1)


def roi_mean(features: Tensor, boxes: Tensor, samples: int = 14) -> Tensor:
    """Mean feature of each box, ``[N, D]``: ``roi_align(features, boxes, 1, samples)`` as one matrix product.

    A mean of bilinear samples on a grid is linear in the map and separable: the weights of a box are an outer product
    of row and column weights.
    """
    depth, height, width = features.shape
    x, y = _points(boxes, samples)
    weights = _axis_weights(y, height)[:, :, None] * _axis_weights(x, width)[:, None, :]  # [N, h, w]
    return weights.flatten(1) @ features.reshape(depth, -1).T


def _points(boxes: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Sample positions (x, y) ``[N, count]`` each, on the axes of cell centres."""
    steps = (torch.arange(count, dtype=boxes.dtype, device=boxes.device) + 0.5) / count
    x = boxes[:, 0:1] + (boxes[:, 2:3] - boxes[:, 0:1]) * steps - 0.5
    y = boxes[:, 1:2] + (boxes[:, 3:4] - boxes[:, 1:2]) * steps - 0.5
    return x, y


def _within(positions: Tensor, length: int) -> Tensor:
    return (positions >= -1) & (positions <= length)


def _axis_weights(positions: Tensor, length: int) -> Tensor:
    """Weight of each cell in the mean of the sampled positions: ``[N, length]``."""
    cells = torch.arange(length, dtype=positions.dtype, device=positions.device)
    hats = (1 - (positions.clamp(0, length - 1)[:, :, None] - cells).abs()).clamp_(min=0)  # [N, P, length]
    return (hats * _within(positions, length)[:, :, None]).mean(1)
