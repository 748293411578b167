"""Triplet loss: image and caption match better, by a margin, than all others of the batch (POS-SCAN Eq. 7)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import first_row, gather, world
from deixis.methods.scan.network import EncodedRegions, EncodedWords, ScanNet


def triplet_loss(scores: Tensor, owner: Tensor, margin: float = 0.2, hardest: bool = True) -> Tensor:
    """Sum over captions of the margin violations by negatives, both ways (Eq. 7).

    ``scores [I, C]``; ``owner [C]`` is the row of each caption's image. Captions of one image are not negatives of each
    other. ``hardest``: only the hardest caption and the hardest image count (Eq. 7), else all of them.
    """
    captions = torch.arange(len(owner), device=scores.device)
    own = torch.zeros_like(scores, dtype=torch.bool)
    own[owner, captions] = True
    needed = margin - scores[owner, captions]  # [C]
    others = scores.masked_fill(own, -torch.inf)
    if hardest:
        return F.relu(needed + others.amax(1)[owner]).sum() + F.relu(needed + others.amax(0)).sum()
    return F.relu(needed[:, None] + others[owner]).sum() + F.relu(needed + others).sum()


def matching_loss(
    matcher: ScanNet,
    regions: EncodedRegions,
    words: EncodedWords,
    owner: Tensor,
    margin: float = 0.2,
    hardest: bool = True,
) -> Tensor:
    """:func:`triplet_loss` of all images with all captions ``[C, T]`` of a batch.

    With several processes, ``regions`` are those of all of them and ``words`` those of this one; the result is a share
    of the loss of the whole batch.

    With the hardest negatives only a few pairs for each caption have a gradient. All pairs are scored without gradient
    to find them, and only these are scored again. Value and gradient are those of the whole matrix.
    """
    if not hardest:
        return triplet_loss(gather(matcher.scores(regions, words).T).T, gather(owner), margin, hardest) / world()
    with torch.no_grad():
        scores = gather(matcher.scores(regions, words).T).T
    with torch.enable_grad():
        loss = triplet_loss(scores.requires_grad_(), gather(owner), margin)
        (weights,) = torch.autograd.grad(loss, scores)
    first = first_row(len(owner))
    weights = weights[:, first : first + len(owner)]
    images, captions = weights.nonzero(as_tuple=True)  # [P]
    pairs = matcher.paired_scores(
        EncodedRegions(regions.vectors[images], regions.mask[images]),
        EncodedWords(words.vectors[captions, None], words.mask[captions, None], words.counts[captions, None]),
    )
    # the loss is linear in the scores of these pairs: this sum has its gradient, and the value is added without one
    linear = (weights[images, captions] * pairs[:, 0]).sum()
    return loss.detach() / world() + linear - linear.detach()
