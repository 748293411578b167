"""Fusion network of ALBEF, as AMC describes it in Sec. 2 and 4.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.bert import Layer, TextEncoder, WordHead
from deixis.layers.old_names import accept_old_names
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.vit import ImageEncoder

OLD_NAMES = {"look": "cross_attention", "share_image": "project_image", "share_text": "project_text"}
"""Names of layers in weights of version 0.1 -> names now."""


@dataclass(frozen=True)
class Texts:
    """Word pieces of B texts: [CLS] first, [SEP] last, then padding."""

    ids: Tensor  # [B, T]
    mask: Tensor  # [B, T] True where there is a word piece

    def __len__(self) -> int:
        return len(self.ids)

    def inner(self) -> Tensor:
        """``[B, T]`` True at the word pieces between [CLS] and [SEP]."""
        between = self.mask.clone()
        between[:, 0] = False
        return between.scatter(1, self.mask.sum(1, keepdim=True) - 1, False)

    def attention_bias(self, dtype: torch.dtype) -> Tensor:
        """Term ``[B, 1, 1, T]`` of attention scores that excludes padding."""
        return torch.zeros(self.mask.shape, dtype=dtype, device=self.mask.device).masked_fill_(
            ~self.mask, torch.finfo(dtype).min
        )[:, None, None]


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

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        self.config = config
        bert = config.bert()
        self.image = ImageEncoder(config)
        self.text = TextEncoder(bert)
        self.fusion = nn.ModuleList(Layer(bert, config.image_hidden) for _ in range(config.fusion_layers))
        self.words = WordHead(bert)
        self.project_image = nn.Linear(config.image_hidden, config.shared)
        self.project_text = nn.Linear(config.hidden, config.shared)
        self.match = nn.Linear(config.hidden, 2)  # no match, match
        self.temperature = nn.Parameter(torch.tensor(0.07))
        # BERT's deviation, scaled for the width: .02 would be too small for a narrow network
        deviation = 0.02 * (768 / config.hidden) ** 0.5
        self.apply(lambda module: _initialise(module, deviation))
        accept_old_names(self, OLD_NAMES)

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
        return self.text(texts.ids, texts.attention_bias(self.text.words.weight.dtype))

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
            hidden = self._cross(number, self.layers[number].self_attention(hidden, bias), encoded)
        hidden = self.layers[layer].self_attention(hidden, bias)
        return hidden, self.layers[layer].cross_attention.weights(hidden, encoded.keys[layer])

    def fuse_from(self, hidden: Tensor, weights: Tensor, texts: Texts, encoded: Encoded, layer: int) -> Tensor:
        """Run the fusion encoder from the cross-attention weights of one layer to the end."""
        bias, first = texts.attention_bias(hidden.dtype), self.layers[layer]
        hidden = first.feed_forward(first.cross_attention.output(hidden, weights, encoded.values[layer]))
        for number in range(layer + 1, len(self.layers)):
            hidden = self._cross(number, self.layers[number].self_attention(hidden, bias), encoded)
        return hidden

    def _cross(self, number: int, hidden: Tensor, encoded: Encoded) -> Tensor:
        """Cross-attention and feed-forward block of a layer."""
        layer = self.layers[number]
        weights = layer.cross_attention.weights(hidden, encoded.keys[number])
        return layer.feed_forward(layer.cross_attention.output(hidden, weights, encoded.values[number]))

    def match_logits(self, fused: Tensor) -> Tensor:
        """Logits ``[B, 2]`` of no match and match, from the state of [CLS] (AMC Eq. 2)."""
        return self.match(fused[:, 0])

    def project(self, encoded: Encoded, text_states: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors ``[I, shared]`` of whole images and ``[B, shared]`` of whole texts (AMC Eq. 3)."""
        image, text = self.project_image(encoded.cls), self.project_text(text_states[:, 0])
        return F.normalize(image, dim=-1), F.normalize(text, dim=-1)

    def word_logits(self, states: Tensor) -> Tensor:
        """Logits ``[..., vocabulary]`` of the word piece at each state (AMC Eq. 1)."""
        return self.words(states, self.text.words.weight)


def _initialise(module: nn.Module, deviation: float) -> None:
    """Initialise as BERT: normal weights of a small deviation, no bias."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=deviation)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
