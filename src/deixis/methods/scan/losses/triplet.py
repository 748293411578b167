"""Matching: a sentence fits its own photograph better, by a margin, than any other of the batch (POS-SCAN Eq. 7)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.scan.network import Heard, ScanNet, Seen


def hinge(scores: Tensor, owner: Tensor, margin: float = 0.2, hardest: bool = True) -> Tensor:
    """Sum over captions of how far negatives come within the margin, both ways.

    ``scores [I, C]``; ``owner [C]`` is the row of each caption's image. Captions of one image are no negatives of each
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


def matching(
    matcher: ScanNet, seen: Seen, heard: Heard, owner: Tensor, margin: float = 0.2, hardest: bool = True
) -> Tensor:
    """:func:`hinge` of all images with all captions ``[C, T]`` of a batch.

    With the hardest negatives only a few pairs for each caption have a gradient. All pairs are scored without one to
    find these, and only they are scored again: the value and the gradient are those of the whole matrix, at a fraction
    of its backward pass and without keeping it.
    """
    if not hardest:
        return hinge(matcher.scores(seen, heard), owner, margin, hardest)
    with torch.no_grad():
        scores = matcher.scores(seen, heard)
    with torch.enable_grad():
        loss = hinge(scores.requires_grad_(), owner, margin)
        (weights,) = torch.autograd.grad(loss, scores)
    images, captions = weights.nonzero(as_tuple=True)  # [P]
    pairs = matcher.pairs(
        Seen(seen.vectors[images], seen.mask[images]),
        Heard(heard.vectors[captions, None], heard.mask[captions, None], heard.counts[captions, None]),
    )
    # the loss is linear in the scores of these pairs: their weights carry its whole gradient
    carrier = (weights[images, captions] * pairs[:, 0]).sum()
    return loss.detach() + carrier - carrier.detach()
