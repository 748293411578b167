"""Distillation: a frozen matcher shows the captioner where to look when it says a noun.

More Grounded Image Captioning (POS-SCAN), Eq. 15. The teacher is no part of the captioner and is gone at test time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from deixis.methods.updown.losses.supervised import attention_nll


@dataclass(frozen=True)
class DistilConfig:
    """Teacher, weight and variants."""

    teacher: str = ""  # recipe of the matcher that teaches; empty: nobody does
    weight: float = 0.1  # lambda_1 (Sec. 4.3); .2 with the features of GVD (Sec. 4.3, Q5)
    branches: Literal["mean", "each"] = "mean"  # whether the branches together or each of them look as the teacher does
    # Eq. 15 reads KL(captioner || teacher), which is 'reverse-kl'; the published code, and so the paper's figures, have
    # KL(teacher || captioner). 'nll' takes the teacher's first choice for the truth.
    measure: Literal["kl", "reverse-kl", "nll"] = "kl"


def distil(attention: Tensor, teacher: Tensor, nouns: Tensor, config: DistilConfig) -> Tensor:
    """How far the captioner's attention ``[I, C, T, K, N]`` is from the teacher's ``[I, C, T, N]``, weighted.

    The mean is over the words marked in ``nouns [I, C, T]``, as in the published code; where there is none it is 0.
    Give the teacher's attention without gradient.
    """
    if config.branches == "mean":
        attention = attention.mean(3, keepdim=True)
    if config.measure == "nll":
        choice = F.one_hot(teacher.argmax(-1), teacher.shape[-1]).bool()
        return config.weight * attention_nll(attention, choice & nouns.unsqueeze(-1))
    # regions that earlier branches took (DA Eq. 7) are out of reach: a branch learns the teacher's view of the rest
    shown = teacher.unsqueeze(3) * (attention > 0)  # [I, C, T, K, N]
    shown = shown / shown.sum(-1, keepdim=True).clamp_min(1e-8)
    where = nouns.unsqueeze(3).expand(attention.shape[:4])
    pair = (shown, attention) if config.measure == "kl" else (attention, shown)
    return config.weight * attention_kl(*pair, where)


def attention_kl(first: Tensor, second: Tensor, where: Tensor) -> Tensor:
    """Mean KL(first || second) of attention ``[..., N]`` over the places marked in ``where [...]``; 0 where none is."""
    first, second = first[where], second[where]
    # a region that neither may look at adds nothing: 0 log 0 = 0
    ratio = first.clamp_min(1e-8).log() - second.clamp_min(1e-8).log()
    return (first * ratio).sum() / max(1, len(first))
