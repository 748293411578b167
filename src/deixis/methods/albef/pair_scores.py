"""How much a text finds in an image, by the first look of its words, for all pairs of many texts and images."""

from __future__ import annotations

import torch
from torch import Tensor

from deixis.methods.albef.network import AlbefNet, Encoded, Texts

PEAK = 8.0
"""How near the soft maximum is to the greatest score: log(sum(exp(PEAK * score))) / PEAK.

With 1, the attention's own softmax, all cells would have their say at first, and words learn to look everywhere.
"""


def pair_scores(model: AlbefNet, encoded: Encoded, texts: Texts, read: Tensor) -> Tensor:
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
