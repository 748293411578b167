"""Ranking: a photograph fits its own captions better than those of others, and the other way round (ReIR Eq. 12)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class RankingConfig:
    """The hinge; the paper leaves its details to the supplement, so these are the published code's."""

    weight: float = 1.0  # lambda_3
    margin: float = 0.2
    normalise: bool = True  # similarities become probabilities, over captions and over images, before they are compared


def caption_fit(scores: Tensor, mask: Tensor, caption: Tensor, captions: int) -> tuple[Tensor, Tensor]:
    """The fit of images and captions ``[I, S]``, the mean over a caption's phrases, and whose each caption is ``[S]``.

    ``scores [I, phrases]`` of the phrases in ``mask [I, P]``; ``caption [I, P]`` tells which of an image's
    ``captions`` a phrase stands in. Captions without a phrase are left out.
    """
    image = torch.arange(len(mask), device=mask.device).unsqueeze(1)
    number = (image * captions + caption)[mask]  # [phrases]
    counts = torch.bincount(number, minlength=len(mask) * captions)
    sums = scores.new_zeros(len(mask), len(counts)).index_add(1, number, scores)
    kept = counts.nonzero().squeeze(1)
    return sums[:, kept] / counts[kept], kept // captions


def ranking(similarity: Tensor, owner: Tensor, margin: float = 0.2, normalise: bool = True) -> Tensor:
    """Hinge with the hardest negative both ways, a sum over captions, of ``similarity [I, S]``; ``owner [S]``.

    Captions of one image are never each other's negatives, and do not share one probability either.
    """
    nothing = torch.finfo(similarity.dtype).min
    own = similarity[owner, torch.arange(len(owner), device=owner.device)]  # [S]
    captions = similarity[owner].masked_fill(owner.unsqueeze(1) == owner, nothing)  # [S, S]
    mine = owner.unsqueeze(1) == torch.arange(len(similarity), device=owner.device)
    images = similarity.T.masked_fill(mine, nothing)  # [S, I]
    return sum_of_hinges(own, captions, margin, normalise) + sum_of_hinges(own, images, margin, normalise)


def sum_of_hinges(own: Tensor, others: Tensor, margin: float, normalise: bool) -> Tensor:
    """Of each similarity ``own [S]`` against the hardest of ``others [S, M]``."""
    hardest = others.amax(1)
    if normalise:
        total = torch.logaddexp(own, others.logsumexp(1))
        own, hardest = (own - total).exp(), (hardest - total).exp()
    return F.relu(margin + hardest - own).sum()
