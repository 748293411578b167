"""The fusion model of ALBEF, as AMC describes it in Sec. 2 and 4.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.bert import Layer, TextEncoder, WordHead
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.vit import ImageEncoder


@dataclass(frozen=True)
class Texts:
    """Word pieces of B texts: [CLS] first, [SEP] last, padding behind."""

    ids: Tensor  # [B, T]
    mask: Tensor  # [B, T] True where there is a word piece

    def __len__(self) -> int:
        return len(self.ids)

    def inner(self) -> Tensor:
        """``[B, T]`` True at the word pieces between [CLS] and [SEP]."""
        between = self.mask.clone()
        between[:, 0] = False
        return between.scatter(1, self.mask.sum(1, keepdim=True) - 1, False)

    def bias(self, dtype: torch.dtype) -> Tensor:
        """What is added to attention scores ``[B, 1, 1, T]``: nobody looks at padding."""
        return torch.zeros(self.mask.shape, dtype=dtype, device=self.mask.device).masked_fill_(
            ~self.mask, torch.finfo(dtype).min
        )[:, None, None]


@dataclass(frozen=True)
class Encoded:
    """I images as the fusion encoder sees them: made once, looked at by any number of texts."""

    whole: Tensor  # [I, image_hidden] the token of the whole image
    keys: tuple[Tensor, ...]  # of each fusion layer [I, heads, 1 + cells, hidden / heads]
    values: tuple[Tensor, ...]
    rows: int  # of the grid of patches or cells
    columns: int

    def __len__(self) -> int:
        return len(self.whole)

    def select(self, images: Tensor) -> Encoded:
        """Some of the images, by index, in that order."""
        return Encoded(
            self.whole[images],
            tuple(keys[images] for keys in self.keys),
            tuple(values[images] for values in self.values),
            self.rows,
            self.columns,
        )


class AlbefNet(nn.Module):
    """Image encoder, text encoder, fusion encoder, and the heads that are trained on them."""

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        self.config = config
        self.image = ImageEncoder(config)
        self.text = TextEncoder(config)
        self.fusion = nn.ModuleList(Layer(config, fuses=True) for _ in range(config.fusion_layers))
        self.words = WordHead(config)
        self.share_image = nn.Linear(config.image_hidden, config.shared)
        self.share_text = nn.Linear(config.hidden, config.shared)
        self.match = nn.Linear(config.hidden, 2)  # no match, match
        self.temperature = nn.Parameter(torch.tensor(0.07))
        # BERT's deviation at BERT's width; a narrow network with such small weights would hear next to nothing
        deviation = 0.02 * (768 / config.hidden) ** 0.5
        self.apply(lambda module: _initialise(module, deviation))

    @property
    def layers(self) -> Sequence[Layer]:
        """The layers of the fusion encoder."""
        return cast(Sequence[Layer], self.fusion)

    def encode(self, images: Tensor) -> Encoded:
        """Images ``[I, 3, height, width]``, or grids ``[I, rows, columns, features]``, ready to be looked at."""
        if self.config.patch:
            rows, columns = (length // self.config.patch for length in images.shape[2:])
        else:
            rows, columns = images.shape[1:3]
        tokens = self.image(images)
        pairs = [layer.look.project(tokens) for layer in self.layers]
        return Encoded(tokens[:, 0], tuple(k for k, _ in pairs), tuple(v for _, v in pairs), rows, columns)

    def read(self, texts: Texts) -> Tensor:
        """States ``[B, T, hidden]`` of texts alone."""
        return self.text(texts.ids, texts.bias(self.text.words.weight.dtype))

    def fuse(self, read: Tensor, texts: Texts, encoded: Encoded) -> Tensor:
        """States ``[I * P, T, hidden]`` of P texts for each image, ordered by image, after looking at it."""
        hidden, weights = self.fuse_to(read, texts, encoded, 0)
        return self.fuse_from(hidden, weights, texts, encoded, 0)

    def fuse_to(self, read: Tensor, texts: Texts, encoded: Encoded, layer: int) -> tuple[Tensor, Tensor]:
        """The fusion encoder as far as one layer's attention to the image.

        The states before it took anything ``[I * P, T, hidden]``, and the attention ``[I, heads, P * T, 1 + cells]``.
        """
        hidden, bias = read, texts.bias(read.dtype)
        for number in range(layer):
            hidden = self._pass(number, self.layers[number].read(hidden, bias), encoded)
        hidden = self.layers[layer].read(hidden, bias)
        return hidden, self.layers[layer].look.weigh(hidden, encoded.keys[layer])

    def fuse_from(self, hidden: Tensor, weights: Tensor, texts: Texts, encoded: Encoded, layer: int) -> Tensor:
        """The rest of the fusion encoder, from one layer's attention to the end."""
        bias = texts.bias(hidden.dtype)
        hidden = self.layers[layer].think(self.layers[layer].look.take(hidden, weights, encoded.values[layer]))
        for number in range(layer + 1, len(self.layers)):
            hidden = self._pass(number, self.layers[number].read(hidden, bias), encoded)
        return hidden

    def _pass(self, number: int, hidden: Tensor, encoded: Encoded) -> Tensor:
        look = self.layers[number].look
        weights = look.weigh(hidden, encoded.keys[number])
        return self.layers[number].think(look.take(hidden, weights, encoded.values[number]))

    def score(self, fused: Tensor) -> Tensor:
        """Logits ``[B, 2]`` of 'no match' and 'match', from the first token's state."""
        return self.match(fused[:, 0])

    def share(self, encoded: Encoded, read: Tensor) -> tuple[Tensor, Tensor]:
        """Unit vectors ``[I, shared]`` of whole images and ``[B, shared]`` of whole texts (Eq. 3)."""
        image, text = self.share_image(encoded.whole), self.share_text(read[:, 0])
        return F.normalize(image, dim=-1), F.normalize(text, dim=-1)

    def guess_words(self, states: Tensor) -> Tensor:
        """Logits ``[..., vocabulary]`` of the word piece behind each state (Eq. 1)."""
        return self.words(states, self.text.words.weight)


def _initialise(module: nn.Module, deviation: float) -> None:
    """BERT's: small normal weights, no bias."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=deviation)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
