"""Self-taught regression: the box that a phrase is surest of teaches its neighbours to move there (ReIR Eq. 15)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.localize.box_regression import offsets, overlap


@dataclass(frozen=True)
class SelfTaughtConfig:
    """What is taught to whom; the published code differs from the paper in ``gap`` and ``identical``."""

    weight: float = 0.1  # lambda_1
    threshold: float = 0.6  # tau: neighbours overlap so much with the surest box
    gap: float = 0.0  # how much surer it must be than the neighbour; .1 in the published code
    identical: bool = True  # whether boxes that lie just there, itself among them, are taught to stay; False: published
    warmup: float = 0.09375  # share of the training before any of this: 7.5k of 80k iterations (Sec. 4.2)


@dataclass(frozen=True)
class Lesson:
    """Who is taught what."""

    pupils: Tensor  # [B, P, R] True for the neighbours of the surest box
    counted: Tensor  # [B, P, R] of these, the ones that the box is surer than by the gap
    targets: Tensor  # [B, P, R, 4] offsets to the surest box


@torch.no_grad()
def lesson(boxes: Tensor, confidence: Tensor, where: Tensor, config: SelfTaughtConfig) -> Lesson:
    """The targets of ``boxes [B, P or 1, R, 4]`` for phrases that are so sure of them, ``[B, P, R]``.

    ``where [B, P, R]`` is True for real boxes of real phrases.
    """
    boxes = boxes.expand(*confidence.shape, 4)
    best = confidence.masked_fill(~where, -1).argmax(-1)  # [B, P]
    target = boxes.gather(2, best[..., None, None].expand(-1, -1, 1, 4))  # [B, P, 1, 4]
    shared = overlap(boxes, target)
    pupils = where & (shared >= config.threshold)
    if not config.identical:
        pupils &= (boxes != target).any(-1)
    surest = confidence.gather(2, best.unsqueeze(-1))
    return Lesson(pupils, pupils & (surest - confidence >= config.gap), offsets(boxes, target))


def self_taught(moves: Tensor, boxes: Tensor, confidence: Tensor, where: Tensor, config: SelfTaughtConfig) -> Tensor:
    """Smooth L1 between predicted offsets ``[B, P, R, 4]`` and those of the :func:`lesson`, a mean over its pupils."""
    taught = lesson(boxes, confidence, where, config)
    losses = F.smooth_l1_loss(moves[taught.counted], taught.targets[taught.counted], reduction="sum")
    # the published code divides by all pupils, counted or not
    return losses / (4 * taught.pupils.sum()).clamp_min(1)
