"""Box regression on tensors: the same formulas as :mod:`deixis.boxes`, with gradients and for whole batches.

Boxes are ``x1, y1, x2, y2`` on the last axis, in any unit: offsets and overlaps do not depend on it.
"""

from __future__ import annotations

import torch
from torch import Tensor

SCALES = (10.0, 10.0, 5.0, 5.0)
"""Offsets are told in tenths and fifths, as detectors do, so that a regressor's usual offset is about 1."""

LARGEST = 4.0
"""Log of the most that a side may grow or shrink by; a regressor that errs must not make infinite boxes."""


def offsets(sources: Tensor, targets: Tensor) -> Tensor:
    """What moves sources ``[..., 4]`` onto targets, in the units of a regressor."""
    size = (sources[..., 2:] - sources[..., :2]).clamp_min(1e-6)
    wanted = (targets[..., 2:] - targets[..., :2]).clamp_min(1e-6)
    shift = (targets[..., 2:] + targets[..., :2] - sources[..., 2:] - sources[..., :2]) / 2 / size
    return torch.cat([shift, (wanted / size).log()], -1) * sources.new_tensor(SCALES)


def move(boxes: Tensor, moves: Tensor) -> Tensor:
    """Boxes ``[..., 4]`` after regression: the inverse of :func:`offsets`."""
    step = moves / moves.new_tensor(SCALES)
    size = boxes[..., 2:] - boxes[..., :2]
    middle = (boxes[..., 2:] + boxes[..., :2]) / 2 + step[..., :2] * size
    half = size * step[..., 2:].clamp(-LARGEST, LARGEST).exp() / 2
    return torch.cat([middle - half, middle + half], -1)


def overlap(a: Tensor, b: Tensor) -> Tensor:
    """IoU ``[...]`` of boxes ``[..., 4]`` pair by pair, leading axes broadcast; empty boxes overlap nothing."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp_min(0).prod(-1)
    total = _area(a) + _area(b) - shared
    return torch.where(total > 0, shared / total.clamp_min(torch.finfo(a.dtype).tiny), 0)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp_min(0).prod(-1)
