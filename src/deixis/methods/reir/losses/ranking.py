"""Ranking: a photograph fits its own captions better than those of others, and the other way round (ReIR Eq. 12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.scan.losses.triplet import hinge

Form = Literal["normalised", "plain", "log"]


@dataclass(frozen=True)
class RankingConfig:
    """How captions are told apart; the paper leaves that to the supplement, so the defaults are the published code's.

    A hinge with the hardest negative, of similarities that were made probabilities ("normalised") or not ("plain"); or
    the negative log of those probabilities ("log"), which learns from all negatives and where a hinge stands still.
    """

    weight: float = 1.0  # lambda_3
    form: Form = "normalised"
    margin: float = 0.2  # of the hinge


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


def ranking(similarity: Tensor, owner: Tensor, form: Form = "normalised", margin: float = 0.2) -> Tensor:
    """The sum over captions, both ways, of a :class:`RankingConfig`'s loss; ``similarity [I, S]``, ``owner [S]``.

    Captions of one image are never each other's negatives, and do not share one probability either.
    """
    if form == "plain":
        return hinge(similarity, owner, margin)
    nothing = torch.finfo(similarity.dtype).min
    own = similarity[owner, torch.arange(len(owner), device=owner.device)]  # [S]
    captions = similarity[owner].masked_fill(owner.unsqueeze(1) == owner, nothing)  # [S, S]
    mine = owner.unsqueeze(1) == torch.arange(len(similarity), device=owner.device)
    images = similarity.T.masked_fill(mine, nothing)  # [S, I]
    return _one_way(own, captions, form, margin) + _one_way(own, images, form, margin)


def _one_way(own: Tensor, others: Tensor, form: Form, margin: float) -> Tensor:
    """Each similarity ``own [S]`` against ``others [S, M]``."""
    total = torch.logaddexp(own, others.logsumexp(1))
    if form == "log":
        return (total - own).sum()
    return F.relu(margin + (others.amax(1) - total).exp() - (own - total).exp()).sum()
