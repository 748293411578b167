"""Box regression on tensors: the formulas of :mod:`deixis.boxes` with gradients, for whole batches.

Boxes are ``x1, y1, x2, y2`` on the last axis, in any unit: offsets and overlaps do not depend on it.
"""

from __future__ import annotations

import torch
from torch import Tensor

SCALES = (10.0, 10.0, 5.0, 5.0)
"""Factors of (dx, dy, log dw, log dh), as in detectors, so that typical offsets are about 1."""

MAX_LOG_SCALE = 4.0
"""Largest absolute log of the change of a side, so that boxes stay finite."""


def box_offsets(sources: Tensor, targets: Tensor) -> Tensor:
    """Scaled offsets ``[..., 4]`` that move the boxes ``sources [..., 4]`` onto ``targets``."""
    size = (sources[..., 2:] - sources[..., :2]).clamp_min(1e-6)
    wanted = (targets[..., 2:] - targets[..., :2]).clamp_min(1e-6)
    shift = (targets[..., 2:] + targets[..., :2] - sources[..., 2:] - sources[..., :2]) / 2 / size
    return torch.cat([shift, (wanted / size).log()], -1) * sources.new_tensor(SCALES)


def apply_offsets(boxes: Tensor, offsets: Tensor) -> Tensor:
    """Boxes ``[..., 4]`` moved by scaled offsets: the inverse of :func:`box_offsets`."""
    step = offsets / offsets.new_tensor(SCALES)
    size = boxes[..., 2:] - boxes[..., :2]
    middle = (boxes[..., 2:] + boxes[..., :2]) / 2 + step[..., :2] * size
    half = size * step[..., 2:].clamp(-MAX_LOG_SCALE, MAX_LOG_SCALE).exp() / 2
    return torch.cat([middle - half, middle + half], -1)


def paired_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU ``[...]`` of boxes ``[..., 4]`` pair by pair, leading axes broadcast; 0 for empty boxes."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp_min(0).prod(-1)
    total = _area(a) + _area(b) - shared
    return torch.where(total > 0, shared / total.clamp_min(torch.finfo(a.dtype).tiny), 0)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp_min(0).prod(-1)
