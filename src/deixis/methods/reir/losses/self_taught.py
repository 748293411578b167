"""Self-taught regression: boxes learn the offsets to the most confident box nearby (ReIR Eq. 15)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import total
from deixis.localize.box_regression import box_offsets, paired_iou


@dataclass(frozen=True)
class SelfTaughtConfig:
    """Which boxes get targets; the published code differs from the paper in ``gap`` and ``identical``."""

    weight: float = 0.1  # lambda_1
    threshold: float = 0.6  # tau: smallest IoU with the most confident box
    gap: float = 0.0  # smallest difference of confidence; .1 in the published code
    identical: bool = True  # whether boxes equal to the target, itself among them, get a target; False: published code
    warmup: float = 0.09375  # share of the training without this loss: 7.5k of 80k iterations (Sec. 4.2)


@dataclass(frozen=True)
class RegressionTargets:
    """Boxes that get targets, and the targets."""

    neighbours: Tensor  # [B, P, R] True for boxes near the most confident one
    counted: Tensor  # [B, P, R] of these, boxes whose confidence is lower by the gap
    offsets: Tensor  # [B, P, R, 4] offsets to the most confident box


@torch.no_grad()
def regression_targets(boxes: Tensor, confidence: Tensor, where: Tensor, config: SelfTaughtConfig) -> RegressionTargets:
    """Targets of ``boxes [B, P or 1, R, 4]`` for phrases with ``confidence [B, P, R]``.

    ``where [B, P, R]`` is True for real boxes of real phrases.
    """
    boxes = boxes.expand(*confidence.shape, 4)
    best = confidence.masked_fill(~where, -1).argmax(-1)  # [B, P]
    target = boxes.gather(2, best[..., None, None].expand(-1, -1, 1, 4))  # [B, P, 1, 4]
    neighbours = where & (paired_iou(boxes, target) >= config.threshold)
    if not config.identical:
        neighbours &= (boxes != target).any(-1)
    difference = confidence.gather(2, best.unsqueeze(-1)) - confidence
    return RegressionTargets(neighbours, neighbours & (difference >= config.gap), box_offsets(boxes, target))


def self_taught(offsets: Tensor, boxes: Tensor, confidence: Tensor, where: Tensor, config: SelfTaughtConfig) -> Tensor:
    """Mean smooth L1 of predicted offsets ``[B, P, R, 4]`` and :func:`regression_targets` (Eq. 15, one stage)."""
    targets = regression_targets(boxes, confidence, where, config)
    losses = F.smooth_l1_loss(offsets[targets.counted], targets.offsets[targets.counted], reduction="sum")
    # the published code divides by all neighbours, counted or not
    return losses / (4 * total(targets.neighbours.sum())).clamp_min(1)
