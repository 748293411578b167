"""Image-text contrastive loss with momentum distillation (AMC Eq. 3)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import count_rows, gather


def image_text_contrast(
    fast: tuple[Tensor, Tensor],
    slow: tuple[Tensor, Tensor],
    queue: tuple[Tensor, Tensor],
    temperature: Tensor,
    same: Tensor,
    soft: float = 0.0,
    allowed: Tensor | None = None,
) -> Tensor:
    """Mean cross-entropy of both directions, over the batch and the queue (Eq. 3).

    ``fast`` and ``slow`` are unit vectors ``[B, E]`` of images and texts by the model and by its momentum copy,
    ``queue`` those ``[Q, E]`` of earlier batches by the copy. ``same [B, B]`` marks pairs of rows with equal texts, at
    least the diagonal; with several processes ``[b, B]``, the pairs of a process's own rows with all. ``soft`` is the
    share of the target from the similarities of the copy (momentum distillation). ``allowed``, of the shape of
    ``same``, marks pairs that are compared (all by default).
    """
    loss = fast[0].new_zeros(())
    for query, key in ((0, 1), (1, 0)):
        others = torch.cat([gather(slow[key]), queue[key]])  # [B + Q, E]
        excluded = None if allowed is None else F.pad(~allowed, (0, len(queue[key])))
        scores = _without(fast[query] @ others.T / temperature, excluded)
        with torch.no_grad():
            known = same if allowed is None else same & allowed
            right = F.pad(known.to(scores.dtype), (0, len(queue[key])))
            target = right / right.sum(1, keepdim=True)
            if soft:
                momentum = _without(slow[query] @ others.T / temperature, excluded).softmax(1)
                target = soft * momentum + (1 - soft) * target
        loss = loss - (target * scores.log_softmax(1)).sum() / count_rows(scores)
    return loss / 2


def _without(scores: Tensor, excluded: Tensor | None) -> Tensor:
    """Scores whose softmax is 0 where they are excluded; finite, because a target of 0 times -inf is not a number."""
    return scores if excluded is None else scores.masked_fill(excluded, torch.finfo(scores.dtype).min / 2)


def similarities(image: Tensor, text: Tensor, temperature: Tensor) -> Tensor:
    """Similarities ``[B, B]`` of images (rows) and texts of one batch, by which hard negatives are drawn."""
    return image @ text.T / temperature
