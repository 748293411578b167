"""Supervision by boxes: the upper bound for weakly supervised captioners (POS-SCAN Eq. 16, GVD).

Only recipes with the loss ``supervised`` use this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import total

POSITIVE = 0.5  # a region with a larger IoU with the true box is positive


@dataclass(frozen=True)
class SupervisedConfig:
    """Weights of the terms, and the form of the attention's."""

    attention: float = 0.1  # w_att2 of GVD on Flickr30k; lambda_1 of POS-SCAN
    classes: float = 0.1  # w_cls of GVD; needs a network with region classes
    grounding: float = 0.0  # w_grd of GVD (.1 on Flickr30k); needs a network with region classes
    # nll: all positive regions (Eq. 16, the published 'ExtendNLL'); best-nll: the region with the highest IoU ('NLL');
    # kl: KL(softmax(IoU / .5) || attention) ('KL')
    form: Literal["nll", "best-nll", "kl"] = "nll"


def supervised_attention(attention: Tensor, overlap: Tensor, form: str, within: Tensor | None = None) -> Tensor:
    """Loss of attention ``[I, C, T, K, N]`` from the IoU ``overlap [I, C, T, N]`` of regions with each word's boxes.

    ``within [I, C, T, N]`` marks the regions of the annotated frames of a clip.
    """
    positive = overlap > POSITIVE
    if form == "nll":
        return attention_nll(attention, positive, within)
    if form == "best-nll":
        best = F.one_hot(overlap.argmax(-1), overlap.shape[-1]).bool()
        return attention_nll(attention, best & positive, within)
    if within is not None:  # attention to other frames does not count
        inside = attention * within.unsqueeze(3)
        attention = inside / inside.sum(-1, keepdim=True).clamp_min(1e-20)
    return overlap_kl(attention, overlap)


def attention_nll(attention: Tensor, positive: Tensor, within: Tensor | None = None) -> Tensor:
    """Mean negative log of the attention at positive regions, for every branch (POS-SCAN Eq. 16).

    ``attention [I, C, T, K, N]``; ``positive [I, C, T, N]`` is True where a region has IoU > .5 with the word's true
    box. As in the published code the mean is over all positive regions; 0 if there is none. ``within [I, C, T, N]``
    marks the regions of the annotated frames of a clip: attention to other frames does not count (GVD).
    """
    image, caption, step, region = positive.nonzero(as_tuple=True)
    logs = attention[image, caption, step, :, region].clamp_min(1e-20).log()
    if within is not None:
        mass = (attention * within.unsqueeze(3)).sum(-1)[image, caption, step].clamp_min(1e-20)
        logs = logs - mass.log()
    return -logs.sum() / (total(positive.sum()) * attention.shape[3]).clamp_min(1)


def overlap_kl(attention: Tensor, overlap: Tensor) -> Tensor:
    """Mean KL(softmax(IoU / .5) || attention) over words with a positive region, for every branch (POS-SCAN's 'KL').

    As in the published code the softmax is over all regions, and the attention is at least 1e-8.
    """
    words = (overlap > POSITIVE).any(-1)  # [I, C, T]
    target = (overlap[words] / 0.5).softmax(-1).unsqueeze(1)  # [W, 1, N]
    found = attention[words].clamp_min(1e-8)  # [W, K, N]
    summed = (target * (target.clamp_min(1e-20).log() - found.log())).sum()
    return summed / (total(words.sum()) * attention.shape[3]).clamp_min(1)


def region_classification(logits: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy of class logits ``[I, N, classes]`` (GVD): ``classes [I, N]``, -1 where unknown; 0 if all are."""
    known = classes >= 0
    return F.cross_entropy(logits[known], classes[known], reduction="sum") / total(known.sum()).clamp_min(1)


def grounding_nll(attention: Tensor, logits: Tensor, labels: Tensor, overlap: Tensor) -> Tensor:
    """Grounding loss of GVD: mean of -log softmax_n(logits_{n, class of the word} + log attention_n) at positives.

    ``attention [I, C, T, K, N]``, class ``logits [I, N, classes]``, ``labels [I, C, T]`` (-1: no class), ``overlap
    [I, C, T, N]``. The published code adds the energies of the attention; their log-softmax differs by a constant.
    """
    positive = (overlap > POSITIVE) & (labels >= 0).unsqueeze(-1)
    image, caption, step = positive.any(-1).nonzero(as_tuple=True)
    of_class = logits[image, :, labels[image, caption, step]]  # [W, N]
    energy = of_class.unsqueeze(1) + attention[image, caption, step].clamp_min(1e-20).log()  # [W, K, N]
    logs = energy.log_softmax(-1).transpose(1, 2)[positive[image, caption, step]]  # [P, K]
    return -logs.sum() / (total(positive.sum()) * attention.shape[3]).clamp_min(1)
