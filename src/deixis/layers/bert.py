"""BERT layers with optional cross-attention."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.noise import drop, fold

EPS = 1e-12  # of BERT's layer norms


@dataclass(frozen=True)
class BertConfig:
    """Sizes of a BERT encoder."""

    vocabulary: int  # word pieces
    hidden: int
    heads: int
    feed_forward: int  # width between the two linear layers of a block
    positions: int  # word pieces of the longest text
    layers: int
    dropout: float = 0.1


class Attention(nn.Module):
    """Multi-head attention with residual and layer norm.

    Attention weights (:meth:`weights`) and output (:meth:`output`) are separate methods, because Grad-CAM needs the
    derivative with respect to the weights. Both are plain matrix products, so second derivatives exist.
    """

    def __init__(self, config: BertConfig, key_width: int) -> None:
        super().__init__()
        width = config.hidden
        self.heads = config.heads
        self.query, self.key, self.value = (nn.Linear(size, width) for size in (width, key_width, key_width))
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width, eps=EPS)
        self.dropout = config.dropout

    def keys_and_values(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values ``[I, heads, N, width / heads]`` of tokens ``[I, N, key_width]``."""
        return self._split_heads(self.key(tokens)), self._split_heads(self.value(tokens))

    def weights(self, hidden: Tensor, keys: Tensor, bias: Tensor | None = None) -> Tensor:
        """Attention weights ``[I, heads, P * T, N]`` of ``hidden [I * P, T, width]``: P texts for each image."""
        query = self._split_heads(self.query(hidden).reshape(len(keys), -1, hidden.shape[-1]))
        scores = query @ keys.transpose(-1, -2) / query.shape[-1] ** 0.5
        return (scores if bias is None else scores + bias).softmax(-1)

    def output(self, hidden: Tensor, weights: Tensor, values: Tensor, random: Tensor | None = None) -> Tensor:
        """``hidden [I * P, T, width]`` plus the weighted sum of the values, normalised.

        ``random [I]`` are random keys of dropout, for one text of each image.
        """
        weights = drop(weights, self.dropout, self.training, fold(random, 0))
        attended = (weights @ values).transpose(1, 2).reshape(hidden.shape)
        return self.norm(hidden + drop(self.out(attended), self.dropout, self.training, fold(random, 1)))

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, x.shape[-1] // self.heads).transpose(1, 2)


class Layer(nn.Module):
    """Self-attention, cross-attention where ``cross_width`` > 0, and a feed-forward block."""

    def __init__(self, config: BertConfig, cross_width: int = 0) -> None:
        super().__init__()
        self.attention = Attention(config, config.hidden)
        if cross_width:
            self.cross_attention = Attention(config, cross_width)
        self.up = nn.Linear(config.hidden, config.feed_forward)
        self.down = nn.Linear(config.feed_forward, config.hidden)
        self.norm, self.dropout = nn.LayerNorm(config.hidden, eps=EPS), config.dropout

    def self_attention(self, hidden: Tensor, bias: Tensor, random: Tensor | None = None) -> Tensor:
        """Self-attention of ``hidden [B, T, width]``; ``bias [B, 1, 1, T]`` is -inf at padding.

        ``random [B]`` are random keys of dropout.
        """
        keys, values = self.attention.keys_and_values(hidden)
        return self.attention.output(hidden, self.attention.weights(hidden, keys, bias), values, fold(random, 2))

    def feed_forward(self, hidden: Tensor, random: Tensor | None = None) -> Tensor:
        """Two linear layers with GELU between them, residual and layer norm; ``random [B]`` as above."""
        down = self.down(F.gelu(self.up(hidden)))
        return self.norm(hidden + drop(down, self.dropout, self.training, fold(random, 3)))


class TextEncoder(nn.Module):
    """BERT's embeddings and layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden)
        self.positions = nn.Embedding(config.positions, config.hidden)
        self.kinds = nn.Embedding(2, config.hidden)  # token types: first and second sentence; here always the first
        self.norm, self.dropout = nn.LayerNorm(config.hidden, eps=EPS), config.dropout
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))

    def forward(self, ids: Tensor, bias: Tensor, random: Tensor | None = None) -> Tensor:
        """States ``[B, T, hidden]`` of word pieces ``[B, T]``; ``random [B]`` are random keys of dropout."""
        position = self.positions.weight[: ids.shape[1]] + self.kinds.weight[0]
        hidden = drop(self.norm(self.words(ids) + position), self.dropout, self.training, fold(random, 4))
        for number, layer in enumerate(cast(Iterable[Layer], self.layers)):
            here = fold(random, 10 + number)
            hidden = layer.feed_forward(layer.self_attention(hidden, bias, here), here)
        return hidden


class WordHead(nn.Module):
    """Masked-language-model head; its output layer is the word embedding itself."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(config.hidden, config.hidden), nn.LayerNorm(config.hidden, eps=EPS)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        """Logits ``[..., vocabulary]`` for the embedding ``words [vocabulary, hidden]``."""
        return F.linear(self.norm(F.gelu(self.dense(hidden))), words, self.bias)
