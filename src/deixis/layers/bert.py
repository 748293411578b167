"""The text encoder and the layers of the fusion encoder: BERT, whose upper layers also look at the image."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.methods.albef.config import AlbefConfig

EPS = 1e-12  # of BERT's layer norms


class Attention(nn.Module):
    """Multi-head attention with its residual and norm.

    Its two halves are apart because a map is the derivative with respect to what lies between them: :meth:`weigh`
    gives the attention, :meth:`take` goes on from it. Both are plain matrix products, whose second derivatives exist.
    """

    def __init__(self, config: AlbefConfig, looks_at: int) -> None:
        super().__init__()
        width = config.hidden
        self.heads = config.heads
        self.query, self.key, self.value = (nn.Linear(size, width) for size in (width, looks_at, looks_at))
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width, eps=EPS)
        self.drop = nn.Dropout(config.dropout)

    def project(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values ``[I, heads, N, width / heads]`` of what is looked at ``[I, N, looks_at]``."""
        return self._split(self.key(tokens)), self._split(self.value(tokens))

    def weigh(self, hidden: Tensor, keys: Tensor, bias: Tensor | None = None) -> Tensor:
        """Attention ``[I, heads, P * T, N]`` of ``hidden [I * P, T, width]``: P texts of each image look together."""
        query = self._split(self.query(hidden).reshape(len(keys), -1, hidden.shape[-1]))
        scores = query @ keys.transpose(-1, -2) / query.shape[-1] ** 0.5
        return (scores if bias is None else scores + bias).softmax(-1)

    def take(self, hidden: Tensor, weights: Tensor, values: Tensor) -> Tensor:
        """What the weights took from the values, added to ``hidden [I * P, T, width]``."""
        taken = (self.drop(weights) @ values).transpose(1, 2).reshape(hidden.shape)
        return self.norm(hidden + self.drop(self.out(taken)))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class Layer(nn.Module):
    """Self-attention, attention to the image where the layer belongs to the fusion encoder, and two linear layers."""

    def __init__(self, config: AlbefConfig, fuses: bool) -> None:
        super().__init__()
        self.attention = Attention(config, config.hidden)
        if fuses:
            self.look = Attention(config, config.image_hidden)
        self.up, self.down = nn.Linear(config.hidden, config.feed), nn.Linear(config.feed, config.hidden)
        self.norm, self.drop = nn.LayerNorm(config.hidden, eps=EPS), nn.Dropout(config.dropout)

    def read(self, hidden: Tensor, bias: Tensor) -> Tensor:
        """Self-attention of ``hidden [B, T, width]``; ``bias [B, 1, 1, T]`` is -inf at padding."""
        keys, values = self.attention.project(hidden)
        return self.attention.take(hidden, self.attention.weigh(hidden, keys, bias), values)

    def think(self, hidden: Tensor) -> Tensor:
        """The two linear layers."""
        return self.norm(hidden + self.drop(self.down(F.gelu(self.up(hidden)))))


class TextEncoder(nn.Module):
    """BERT's embeddings and its lower layers."""

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden)
        self.positions = nn.Embedding(config.positions, config.hidden)
        self.kinds = nn.Embedding(2, config.hidden)  # BERT's first and second sentence; here all is the first
        self.norm, self.drop = nn.LayerNorm(config.hidden, eps=EPS), nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, fuses=False) for _ in range(config.text_layers))

    def forward(self, ids: Tensor, bias: Tensor) -> Tensor:
        """States ``[B, T, hidden]`` of word pieces ``[B, T]``."""
        place = self.positions.weight[: ids.shape[1]] + self.kinds.weight[0]
        hidden = self.drop(self.norm(self.words(ids) + place))
        for layer in cast(Iterable[Layer], self.layers):
            hidden = layer.think(layer.read(hidden, bias))
        return hidden


class WordHead(nn.Module):
    """Which word piece stands behind a state; the output layer is the embedding itself."""

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(config.hidden, config.hidden), nn.LayerNorm(config.hidden, eps=EPS)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        """Logits ``[..., vocabulary]`` for the embedding ``words [vocabulary, hidden]``."""
        return F.linear(self.norm(F.gelu(self.dense(hidden))), words, self.bias)
