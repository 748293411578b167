"""Alignment of words and cells (ours): contrastive loss on the first cross-attention.

The matching loss learns from one bit for each pair, at the cost of a whole fusion pass. The first cross-attention can
score all pairs of a batch with one matrix product (:mod:`deixis.methods.albef.network`). Its gradient raises the
attention of words to the cells that distinguish the right image.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

LOGIT_SCALE = 90.0
"""Factor of pair scores, which are small, to logits."""


def alignment(scores: Tensor, same: Tensor) -> Tensor:
    """Mean cross-entropy of both directions, from the pair scores of a batch ``[B, B]``.

    ``same [B, B]`` marks pairs of rows with equal texts, at least the diagonal; they share the target.
    """
    logits, right = LOGIT_SCALE * scores, same.to(scores.dtype)
    target = right / right.sum(1, keepdim=True)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
