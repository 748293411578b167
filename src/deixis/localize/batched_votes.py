"""Votes between overlapping regions for a batch of tensors: the rule of :mod:`deixis.localize.votes`."""

from __future__ import annotations

import torch
from torch import Tensor

from deixis.localize.box_regression import paired_iou
from deixis.localize.votes import MIN_SCORE, SCORE_POWER


@torch.no_grad()
def votes(boxes: Tensor, attention: Tensor, scores: Tensor | None = None) -> Tensor:
    """Votes ``[..., P, N]`` for each region, from the attention of P words or phrases over ``boxes [..., N, 4]``.

    ``scores [..., N]`` are those of a detector, if one made the boxes.
    """
    overlap = paired_iou(boxes.unsqueeze(-2), boxes.unsqueeze(-3))  # [..., N, N]
    total = attention.sqrt() @ overlap.sqrt()
    return total if scores is None else total * (scores.clamp_min(MIN_SCORE) ** SCORE_POWER).unsqueeze(-2)
