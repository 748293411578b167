"""Fusion network of ALBEF, as AMC describes it in Sec. 2 and 4.1: image encoder, fusion, pair scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from deixis.layers.bert import BertConfig, Layer, TextEncoder, WordHead
from deixis.layers.noise import fold
from deixis.methods.albef.config import OLD_NAMES, SHARPNESS, AlbefConfig

# Image encoder -------------------------------------------------------------------------------------------------------


class ImageEncoder(nn.Module):
    """Vision transformer with a [CLS] token (``whole``) and one token for each patch or cell.

    Position embeddings are learnt for a square of ``config.side`` tokens and interpolated for other sizes, so that a
    model for 256 pixels can read 384.
    """

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        width = config.image_hidden
        self.patches: nn.Conv2d | nn.Linear
        if config.patch:
            self.patches = nn.Conv2d(3, width, config.patch, stride=config.patch)
        else:
            self.patches = nn.Linear(config.features, width)
        self.pixels = bool(config.patch)
        self.checkpointing = False  # compute blocks again in the backward pass instead of keeping their activations
        self.whole = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 1 + config.side**2, width))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.image_layers))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        nn.init.trunc_normal_(self.whole, std=0.02)
        # cells are whitened to a deviation of 1, so positions need larger values
        nn.init.trunc_normal_(self.positions, std=0.02 if config.patch else 0.2)

    def forward(self, images: Tensor) -> Tensor:
        """Tokens ``[I, 1 + rows * columns, width]`` of pixels ``[I, 3, H, W]`` or grids ``[I, rows, columns, D]``."""
        tokens = self.patches(images)
        if self.pixels:
            tokens = tokens.permute(0, 2, 3, 1)  # [I, rows, columns, width]
        _, rows, columns, _ = tokens.shape
        x = torch.cat([self.whole.expand(len(tokens), -1, -1), tokens.flatten(1, 2)], 1)
        x = x + resize_positions(self.positions, rows, columns)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing and x.requires_grad else block(x)
        return self.norm(x)


class Block(nn.Module):
    """Pre-norm transformer block: attention and two linear layers, each with a residual."""

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        width = config.image_hidden
        self.heads = config.image_heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, config.image_feed), nn.Linear(config.image_feed, width)

    def forward(self, x: Tensor) -> Tensor:
        """``[I, N, width]`` to the same shape."""
        images, count, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(images, count, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each [I, heads, N, width / heads]
        attended = F.scaled_dot_product_attention(query, key, value)
        x = x + self.out(attended.transpose(1, 2).reshape(images, count, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def resize_positions(positions: Tensor, rows: int, columns: int) -> Tensor:
    """Interpolate position embeddings ``[1, 1 + side * side, width]`` to another grid, bicubic; [CLS] is unchanged."""
    whole, cells = positions[:, :1], positions[:, 1:]
    side = round(cells.shape[1] ** 0.5)
    if (rows, columns) == (side, side):
        return positions
    square = cells.view(1, side, side, -1).permute(0, 3, 1, 2)
    resized = F.interpolate(square, (rows, columns), mode="bicubic", align_corners=False)
    return torch.cat([whole, resized.permute(0, 2, 3, 1).flatten(1, 2)], 1)


# Fusion --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    """Word pieces of B texts: [CLS] first, [SEP] last where the model was trained with it, then padding."""

    ids: Tensor  # [B, T]
    mask: Tensor  # [B, T] True where there is a word piece
    sep: bool = True  # whether each text ends with [SEP]; published ALBEF and AMC have none
    random: Tensor | None = None  # [B] random keys of dropout, in training (deixis.layers.noise)

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, texts: Tensor) -> Texts:
        """Select texts by index, in that order."""
        random = None if self.random is None else self.random[texts]
        return replace(self, ids=self.ids[texts], mask=self.mask[texts], random=random)

    def inner(self) -> Tensor:
        """``[B, T]`` True at the word pieces of the text itself: after [CLS] and before [SEP]."""
        between = self.mask.clone()
        between[:, 0] = False
        return between.scatter(1, self.mask.sum(1, keepdim=True) - 1, False) if self.sep else between

    def attention_bias(self, dtype: torch.dtype) -> Tensor:
        """Term ``[B, 1, 1, T]`` of attention scores that excludes padding."""
        return torch.zeros(self.mask.shape, dtype=dtype, device=self.mask.device).masked_fill_(
            ~self.mask, torch.finfo(dtype).min
        )[:, None, None]


def pad_texts(ids: Sequence[Sequence[int]], pad: int, length: int = 0, sep: bool = True) -> Texts:
    """Word pieces of several texts, padded to the longest of them, or to ``length``; ``sep``: they end with [SEP]."""
    length = max(length, max(map(len, ids)))
    padded = torch.tensor([[*row, *[pad] * (length - len(row))] for row in ids])
    return Texts(padded, torch.arange(length) < torch.tensor([len(row) for row in ids])[:, None], sep)


@dataclass(frozen=True)
class Encoded:
    """I encoded images: computed once, used by any number of texts."""

    cls: Tensor  # [I, image_hidden] [CLS] token of the image
    keys: tuple[Tensor, ...]  # of each fusion layer [I, heads, 1 + cells, hidden / heads]
    values: tuple[Tensor, ...]
    rows: int  # of the grid of patches or cells
    columns: int

    def __len__(self) -> int:
        return len(self.cls)

    def select(self, images: Tensor) -> Encoded:
        """Select images by index, in that order."""
        return Encoded(
            self.cls[images],
            tuple(keys[images] for keys in self.keys),
            tuple(values[images] for values in self.values),
            self.rows,
            self.columns,
        )


class AlbefNet(nn.Module):
    """Image encoder, text encoder, fusion encoder, and the heads of their losses."""

    renamed_parts = OLD_NAMES

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        self.config = config
        bert = BertConfig(
            config.vocabulary,
            config.hidden,
            config.heads,
            config.feed,
            config.positions,
            config.text_layers,
            config.dropout,
        )
        self.image = ImageEncoder(config)
        self.text = TextEncoder(bert)
        self.fusion = nn.ModuleList(Layer(bert, config.image_hidden) for _ in range(config.fusion_layers))
        self.words = WordHead(bert) if config.word_head else None
        self.project_image = nn.Linear(config.image_hidden, config.shared)
        self.project_text = nn.Linear(config.hidden, config.shared)
        self.match = nn.Linear(config.hidden, 2)  # no match, match
        self.temperature = nn.Parameter(torch.tensor(0.07))
        # BERT's deviation, scaled for the width: .02 would be too small for a narrow network
        deviation = 0.02 * (768 / config.hidden) ** 0.5
        self.apply(partial(_initialise, deviation=deviation))

    @property
    def layers(self) -> Sequence[Layer]:
        """Layers of the fusion encoder."""
        return cast(Sequence[Layer], self.fusion)

    def encode(self, images: Tensor) -> Encoded:
        """Encode images ``[I, 3, height, width]``, or grids ``[I, rows, columns, features]``."""
        if self.config.patch:
            rows, columns = (length // self.config.patch for length in images.shape[2:])
        else:
            rows, columns = images.shape[1:3]
        tokens = self.image(images)
        pairs = [layer.cross_attention.keys_and_values(tokens) for layer in self.layers]
        return Encoded(tokens[:, 0], tuple(k for k, _ in pairs), tuple(v for _, v in pairs), rows, columns)

    def encode_text(self, texts: Texts) -> Tensor:
        """States ``[B, T, hidden]`` of texts before fusion."""
        return self.text(texts.ids, texts.attention_bias(self.text.words.weight.dtype), fold(texts.random, 0))

    def fuse(self, text_states: Tensor, texts: Texts, encoded: Encoded) -> Tensor:
        """States ``[I * P, T, hidden]`` of P texts for each image, ordered by image, after the fusion encoder."""
        hidden, weights = self.fuse_to(text_states, texts, encoded, 0)
        return self.fuse_from(hidden, weights, texts, encoded, 0)

    def fuse_to(self, text_states: Tensor, texts: Texts, encoded: Encoded, layer: int) -> tuple[Tensor, Tensor]:
        """Run the fusion encoder up to the cross-attention weights of one layer (AMC Eq. 4).

        Returns the states before cross-attention ``[I * P, T, hidden]`` and the weights
        ``[I, heads, P * T, 1 + cells]``.
        """
        hidden, bias = text_states, texts.attention_bias(text_states.dtype)
        for number in range(layer):
            hidden = self._layer(number, hidden, bias, texts, encoded)
        hidden = self.layers[layer].self_attention(hidden, bias, fold(texts.random, 1 + layer))
        return hidden, self.layers[layer].cross_attention.weights(hidden, encoded.keys[layer])

    def fuse_from(self, hidden: Tensor, weights: Tensor, texts: Texts, encoded: Encoded, layer: int) -> Tensor:
        """Run the fusion encoder from the cross-attention weights of one layer to the end."""
        bias, first, random = texts.attention_bias(hidden.dtype), self.layers[layer], fold(texts.random, 1 + layer)
        hidden = first.cross_attention.output(hidden, weights, encoded.values[layer], random)
        hidden = first.feed_forward(hidden, random)
        for number in range(layer + 1, len(self.layers)):
            hidden = self._layer(number, hidden, bias, texts, encoded)
        return hidden

    def _layer(self, number: int, hidden: Tensor, bias: Tensor, texts: Texts, encoded: Encoded) -> Tensor:
        """A layer of the fusion encoder."""
        layer, random = self.layers[number], fold(texts.random, 1 + number)
        hidden = layer.self_attention(hidden, bias, random)
        weights = layer.cross_attention.weights(hidden, encoded.keys[number])
        hidden = layer.cross_attention.output(hidden, weights, encoded.values[number], random)
        return layer.feed_forward(hidden, random)

    def match_logits(self, fused: Tensor) -> Tensor:
        """Logits ``[B, 2]`` of no match and match, from the state of [CLS] (AMC Eq. 2)."""
        return self.match(fused[:, 0])

    def project(self, encoded: Encoded, text_states: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors ``[I, shared]`` of whole images and ``[B, shared]`` of whole texts (AMC Eq. 3)."""
        image, text = self.project_image(encoded.cls), self.project_text(text_states[:, 0])
        return F.normalize(image, dim=-1), F.normalize(text, dim=-1)

    def word_logits(self, states: Tensor) -> Tensor:
        """Logits ``[..., vocabulary]`` of the word piece at each state (AMC Eq. 1)."""
        if self.words is None:
            raise ValueError("this model has no head for masked words")
        return self.words(states, self.text.words.weight)


def _initialise(module: nn.Module, deviation: float) -> None:
    """Initialise as BERT: normal weights of a small deviation, no bias."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=deviation)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


# Pair scores ---------------------------------------------------------------------------------------------------------


def pair_scores(model: AlbefNet, encoded: Encoded, texts: Texts, text_states: Tensor) -> Tensor:
    """Scores ``[I, B]`` of each image and text: mean over words of the soft maximum over cells.

    The score of a word and a cell is the attention score of the first fusion layer before its softmax, averaged over
    heads. The image's [CLS] token and the text's [CLS] and [SEP] are excluded. ``text_states [B, T, hidden]`` are those
    before fusion.
    """
    layer = model.layers[0]
    hidden = layer.self_attention(text_states, texts.attention_bias(text_states.dtype), fold(texts.random, 1))
    query = layer.cross_attention.query(hidden)  # [B, T, hidden]
    keys = encoded.keys[0][:, :, 1:].transpose(1, 2).flatten(2)  # [I, cells, hidden]
    heads = layer.cross_attention.heads
    scale = heads * (query.shape[-1] / heads) ** 0.5
    scores = torch.einsum("btd,icd->ibtc", query, keys) / scale
    maximum = (SHARPNESS * scores).logsumexp(-1) / SHARPNESS  # [I, B, T]
    words = texts.inner().to(maximum.dtype)
    return (maximum * words).sum(-1) / words.sum(-1).clamp(min=1)
