"""Ranking: an image matches its own captions better than those of others, and the reverse (ReIR Eq. 12, L_rank)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Form = Literal["normalised", "plain", "log"]


@dataclass(frozen=True)
class RankingConfig:
    """Form of the loss; the paper leaves it to its supplement, so the defaults are those of the published code.

    The similarity of an image and a caption: ``"embeddings"`` is the product of :class:`PairEmbedding`, at both stages
    (published code); ``"phrases"`` is the mean score of the caption's phrases at the coarse stage (ours).

    A hinge with the hardest negative, on similarities normalised to probabilities ("normalised") or not ("plain"); or
    the negative log of those probabilities ("log"), which has a gradient for all negatives.
    """

    weight: float = 1.0  # lambda_3
    similarity: Literal["embeddings", "phrases"] = "embeddings"
    embed: int = 512  # width of the embeddings
    form: Form = "normalised"
    margin: float = 0.2  # of the hinge


class PairEmbedding(nn.Module):
    """Similarity of images and captions in a common space, in training only; both stages share it."""

    def __init__(self, width: int, embed: int) -> None:
        super().__init__()
        self.visual = nn.Linear(width, embed)
        self.sentence = nn.Linear(width, embed)

    def forward(self, attended: Tensor, sentences: Tensor, mask: Tensor, caption: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities ``[S, S]`` of images and captions, and each caption's image ``[S]``.

        Row s is the image of caption s, as the mean of the attended features of that caption's phrases. ``attended
        [I, P, D]``, ``sentences [I, C, D]``, ``mask`` and ``caption [I, P]``. Captions without a phrase are left out.
        """
        images, captions = sentences.shape[:2]
        member = F.one_hot(caption, captions).to(attended.dtype) * mask.unsqueeze(-1)  # [I, P, C]
        counts = member.sum(1)  # [I, C]
        kept = counts > 0
        visual = (member.transpose(1, 2) @ attended / counts.clamp_min(1).unsqueeze(-1))[kept]  # [S, D]
        similarity = self.visual(visual) @ self.sentence(sentences[kept]).T / self.visual.out_features**0.5
        return similarity, torch.arange(images, device=mask.device).unsqueeze(1).expand_as(kept)[kept]


def pair_ranking(similarity: Tensor, owner: Tensor, form: Form = "normalised", margin: float = 0.2) -> Tensor:
    """Sum over pairs, both ways, of the loss of a :class:`RankingConfig`; ``similarity [S, S]``, ``owner [S]``.

    Pairs of one image are not negatives of each other.
    """
    same = owner.unsqueeze(1) == owner
    others = similarity.masked_fill(same, torch.finfo(similarity.dtype).min)
    own = similarity.diagonal()
    return _one_way(own, others, form, margin) + _one_way(own, others.T, form, margin)


def caption_scores(scores: Tensor, mask: Tensor, caption: Tensor, captions: int) -> tuple[Tensor, Tensor]:
    """Scores ``[I, S]`` of images and captions, means over the caption's phrases, and each caption's image ``[S]``.

    ``scores [I, phrases]`` are those of the phrases in ``mask [I, P]``; ``caption [I, P]`` is the number, below
    ``captions``, of a phrase's caption. Captions without a phrase are left out.
    """
    image = torch.arange(len(mask), device=mask.device).unsqueeze(1)
    number = (image * captions + caption)[mask]  # [phrases]
    counts = torch.bincount(number, minlength=len(mask) * captions)
    sums = scores.new_zeros(len(mask), len(counts)).index_add(1, number, scores)
    kept = counts.nonzero().squeeze(1)
    return sums[:, kept] / counts[kept], kept // captions


def ranking(similarity: Tensor, owner: Tensor, form: Form = "normalised", margin: float = 0.2) -> Tensor:
    """Sum over captions, both ways, of the loss of a :class:`RankingConfig`; ``similarity [I, S]``, ``owner [S]``.

    Captions of one image are not negatives of each other, and each has a probability of its own.
    """
    excluded = torch.finfo(similarity.dtype).min
    own = similarity[owner, torch.arange(len(owner), device=owner.device)]  # [S]
    captions = similarity[owner].masked_fill(owner.unsqueeze(1) == owner, excluded)  # [S, S]
    same = owner.unsqueeze(1) == torch.arange(len(similarity), device=owner.device)
    images = similarity.T.masked_fill(same, excluded)  # [S, I]
    return _one_way(own, captions, form, margin) + _one_way(own, images, form, margin)


def _one_way(own: Tensor, others: Tensor, form: Form, margin: float) -> Tensor:
    """Loss of each similarity ``own [S]`` against ``others [S, M]``."""
    if form == "plain":
        return F.relu(margin + others.amax(1) - own).sum()
    total = torch.logaddexp(own, others.logsumexp(1))
    if form == "log":
        return (total - own).sum()
    return F.relu(margin + (others.amax(1) - total).exp() - (own - total).exp()).sum()
