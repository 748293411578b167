"""Alignment of words and cells (ours): a text belongs to the image in whose cells its words find the most.

A fusion encoder whose attention to the image begins with random weights learns from 'match or no match' alone, and that
says little: one bit for a pair that costs a whole pass. The first attention itself can be asked about all pairs of a
batch at once, for the price of a matrix product. How much a word finds in an image is a soft maximum of its attention
scores over the cells; the cells that make the right image stand out are looked at more.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.models.fusion import Encoded, Fusion, Texts

PEAK = 8.0
"""How near the soft maximum is to the greatest score: log(sum(exp(PEAK * score))) / PEAK.

With 1, the attention's own softmax, all cells would have their say at first, and words learn to look everywhere.
"""

SHARPNESS = 90.0
"""What these small numbers are multiplied with to be logits of 'this is the image of that text'."""


def pair_scores(model: Fusion, encoded: Encoded, texts: Texts, read: Tensor) -> Tensor:
    """How much each text finds in each image ``[I, B]``, by the first fusion layer's attention before its softmax.

    The scores of a word are the means over heads; the whole image's token, [CLS] and [SEP] stay out. ``read`` are the
    texts' states ``[B, T, hidden]`` before fusion.
    """
    layer = model.layers[0]
    query = layer.look.query(layer.read(read, texts.bias(read.dtype)))  # [B, T, hidden]
    keys = encoded.keys[0][:, :, 1:].transpose(1, 2).flatten(2)  # [I, cells, hidden]
    heads = layer.look.heads
    scale = heads * (query.shape[-1] / heads) ** 0.5
    scores = torch.einsum("btd,icd->ibtc", query, keys) / scale
    most = (PEAK * scores).logsumexp(-1) / PEAK  # [I, B, T]
    words = texts.inner().to(most.dtype)
    return (most * words).sum(-1) / words.sum(-1).clamp(min=1)


def alignment(scores: Tensor, same: Tensor) -> Tensor:
    """Mean cross-entropy of both directions, by the pair scores of a batch ``[B, B]``.

    ``same [B, B]`` marks pairs of rows that are as good as each other, on the diagonal at least.
    """
    logits, right = SHARPNESS * scores, same.to(scores.dtype)
    target = right / right.sum(1, keepdim=True)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
