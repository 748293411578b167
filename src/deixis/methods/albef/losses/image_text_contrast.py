"""Image-text contrast (AMC Eq. 3): an image is nearer to its text than to any other, and a text to its image."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def image_text_contrast(
    fast: tuple[Tensor, Tensor],
    slow: tuple[Tensor, Tensor],
    queue: tuple[Tensor, Tensor],
    temperature: Tensor,
    same: Tensor,
    soft: float = 0.0,
) -> Tensor:
    """Mean cross-entropy of both directions, over the batch and what the queue remembers.

    ``fast`` and ``slow`` are unit vectors ``[B, E]`` of images and texts by the model and by its momentum copy,
    ``queue`` those ``[Q, E]`` of earlier batches by the copy. ``same [B, B]`` marks pairs of rows that are as good as
    each other (on the diagonal at least). Momentum distillation: ``soft`` is the share of the target that the copy's
    own similarities give.
    """
    loss = fast[0].new_zeros(())
    for looks, at in ((0, 1), (1, 0)):
        others = torch.cat([slow[at], queue[at]])  # [B + Q, E]
        scores = fast[looks] @ others.T / temperature
        with torch.no_grad():
            right = F.pad(same.to(scores.dtype), (0, len(queue[at])))
            target = right / right.sum(1, keepdim=True)
            if soft:
                believed = (slow[looks] @ others.T / temperature).softmax(1)
                target = soft * believed + (1 - soft) * target
        loss = loss - (target * scores.log_softmax(1)).sum(1).mean()
    return loss / 2


def similarities(image: Tensor, text: Tensor, temperature: Tensor) -> Tensor:
    """``[B, B]`` of images (rows) and texts of one batch; hard negatives are drawn by it."""
    return image @ text.T / temperature
