"""Alignment of words and cells (ours): a text belongs to the image in whose cells its words find the most.

A fusion encoder whose attention to the image begins with random weights learns from 'match or no match' alone, and that
says little: one bit for a pair that costs a whole pass. The first attention itself can be asked about all pairs of a
batch at once, for the price of a matrix product. How much a word finds in an image is a soft maximum of its attention
scores over the cells; the cells that make the right image stand out are looked at more.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from deixis.methods.albef.pair_scores import pair_scores

__all__ = ["alignment", "pair_scores"]

SHARPNESS = 90.0
"""What these small numbers are multiplied with to be logits of 'this is the image of that text'."""


def alignment(scores: Tensor, same: Tensor) -> Tensor:
    """Mean cross-entropy of both directions, by the pair scores of a batch ``[B, B]``.

    ``same [B, B]`` marks pairs of rows that are as good as each other, on the diagonal at least.
    """
    logits, right = SHARPNESS * scores, same.to(scores.dtype)
    target = right / right.sum(1, keepdim=True)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
