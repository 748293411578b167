"""Supervision by boxes: the upper bound for weakly supervised captioners (POS-SCAN Eq. 16, GVD).

Only recipes with the objective ``supervised`` use this file.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import total
from deixis.methods.updown.network import Decoder


def attention_nll(attention: Tensor, positive: Tensor, within: Tensor | None = None) -> Tensor:
    """Mean negative log of the attention at positive regions, for every branch (POS-SCAN Eq. 16).

    ``attention [I, C, T, K, N]``; ``positive [I, C, T, N]`` is True where a region has IoU > .5 with the word's true
    box. As in the published code the mean is over all positive regions; 0 if there is none. ``within [I, C, T, N]``
    marks the regions of the annotated frames of a clip: attention to other frames does not count (GVD).
    """
    index = positive.nonzero(as_tuple=True)
    image, caption, step, region = index
    logs = attention[image, caption, step, :, region].clamp_min(1e-20).log()
    if within is not None:
        mass = (attention * within.unsqueeze(3)).sum(-1)[image, caption, step].clamp_min(1e-20)
        logs = logs - mass.log()
    return -logs.sum() / (total(positive.sum()) * attention.shape[3]).clamp_min(1)


def region_classification(decoder: Decoder, features: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy of the region classifier (GVD): ``features [I, N, D]``, ``classes [I, N]``, -1 where unknown."""
    known = classes >= 0
    logits: Tensor = decoder.classify(features[known])
    return F.cross_entropy(logits, classes[known], reduction="sum") / total(known.sum()).clamp_min(1)
