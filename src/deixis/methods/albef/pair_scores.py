"""Scores of all pairs of many texts and images, by the first cross-attention of the words."""

from __future__ import annotations

import torch
from torch import Tensor

from deixis.methods.albef.network import AlbefNet, Encoded, Texts

SHARPNESS = 8.0
"""Of the soft maximum over cells: log(sum(exp(SHARPNESS * score))) / SHARPNESS.

With 1, the softmax of the attention itself, all cells have similar weight at first, and attention stays uniform.
"""


def pair_scores(model: AlbefNet, encoded: Encoded, texts: Texts, text_states: Tensor) -> Tensor:
    """Scores ``[I, B]`` of each image and text: mean over words of the soft maximum over cells.

    The score of a word and a cell is the attention score of the first fusion layer before its softmax, averaged over
    heads. The image's [CLS] token and the text's [CLS] and [SEP] are excluded. ``text_states [B, T, hidden]`` are those
    before fusion.
    """
    layer = model.layers[0]
    hidden = layer.self_attention(text_states, texts.attention_bias(text_states.dtype))
    query = layer.cross_attention.query(hidden)  # [B, T, hidden]
    keys = encoded.keys[0][:, :, 1:].transpose(1, 2).flatten(2)  # [I, cells, hidden]
    heads = layer.cross_attention.heads
    scale = heads * (query.shape[-1] / heads) ** 0.5
    scores = torch.einsum("btd,icd->ibtc", query, keys) / scale
    maximum = (SHARPNESS * scores).logsumexp(-1) / SHARPNESS  # [I, B, T]
    words = texts.inner().to(maximum.dtype)
    return (maximum * words).sum(-1) / words.sum(-1).clamp(min=1)
