"""Attention distillation from a frozen matcher at nouns (POS-SCAN Eq. 15).

The teacher is no part of the captioner and is not needed at test time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import total
from deixis.methods.updown.losses.supervised import attention_nll


@dataclass(frozen=True)
class DistilConfig:
    """Teacher, weight and variants."""

    teacher: str = ""  # recipe of the matcher that is the teacher; empty: none
    weight: float = 0.1  # lambda_1 (Sec. 4.3); .2 with the features of GVD (Sec. 4.3, Q5)
    branches: Literal["mean", "each"] = "mean"  # target for the mean attention of the branches, or for each branch
    # Eq. 15 reads KL(captioner || teacher), which is 'reverse-kl'; the published code, and so the paper's figures, have
    # KL(teacher || captioner). 'nll' uses the teacher's best region as the only positive region.
    measure: Literal["kl", "reverse-kl", "nll"] = "kl"
    # Ours: the inverse temperature of the teacher's attention as a target (0: the matcher's own, 9 for SCAN; 20 to 30
    # sharpen it), and the votes of its regions (deixis.localize.votes) in place of its attention.
    temperature: float = 0.0
    target: Literal["attention", "vote"] = "attention"


def distil(
    attention: Tensor, teacher: Tensor, nouns: Tensor, config: DistilConfig, frames: Tensor | None = None
) -> Tensor:
    """Weighted divergence of attention ``[I, C, T, K, N]`` from the teacher's ``[I, C, T, N]`` at nouns (Eq. 15).

    The mean is over the words marked in ``nouns [I, C, T]``, as in the published code; 0 without nouns. The teacher's
    attention must have no gradient. With the ``frames [I, N]`` of the regions of clips, both are shares of the
    attention within each frame, and the divergence is the mean over the frames: the teacher shows where a noun is in a
    frame, and not in which frame.
    """
    if config.branches == "mean":
        attention = attention.mean(3, keepdim=True)
    # regions of earlier branches are excluded (DA Eq. 7): the target is the teacher's attention over the others
    target = teacher.unsqueeze(3) * (attention > 0)  # [I, C, T, K, N]
    count = 1
    if frames is not None:
        count = int(frames.max()) + 1
        attention, target = frame_shares(attention, frames, count), frame_shares(target, frames, count)
    if config.measure == "nll":
        choice = _best_region(teacher, frames, count)
        return config.weight * attention_nll(attention, choice & nouns.unsqueeze(-1))
    if frames is None:
        target = target / target.sum(-1, keepdim=True).clamp_min(1e-8)
    where = nouns.unsqueeze(3).expand(attention.shape[:4])
    pair = (target, attention) if config.measure == "kl" else (attention, target)
    return config.weight * attention_kl(*pair, where) / count


def frame_shares(attention: Tensor, frames: Tensor, count: int) -> Tensor:
    """Attention ``[I, C, T, K, N]`` as shares of its sum in each of ``count`` frames; ``frames [I, N]``."""
    index = frames[:, None, None, None].expand(attention.shape)
    sums = attention.new_zeros((*attention.shape[:-1], count)).scatter_add(-1, index, attention)
    return attention / sums.gather(-1, index).clamp_min(1e-8)


def _best_region(teacher: Tensor, frames: Tensor | None, count: int) -> Tensor:
    """Mark the region ``[I, C, T, N]`` with the most attention of the teacher: of all, or of every frame."""
    if frames is None:
        return F.one_hot(teacher.argmax(-1), teacher.shape[-1]).bool()
    index = frames[:, None, None].expand(teacher.shape)
    best = teacher.new_zeros((*teacher.shape[:-1], count)).scatter_reduce(-1, index, teacher, "amax")
    return (teacher == best.gather(-1, index)) & (teacher > 0)


def attention_kl(first: Tensor, second: Tensor, where: Tensor) -> Tensor:
    """Mean KL(first || second) of attention ``[..., N]`` over the positions marked in ``where [...]``; 0 if none is."""
    first, second = first[where], second[where]
    # an excluded region adds nothing: 0 log 0 = 0
    ratio = first.clamp_min(1e-8).log() - second.clamp_min(1e-8).log()
    return (first * ratio).sum() / total(where.sum()).clamp_min(1)
