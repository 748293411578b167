"""The attention decoder that all captioners here share: an attention LSTM looks, a language LSTM speaks.

Papers by their short names: Up-Down and GVD (the baselines), DA (Distributed Attention), POS-SCAN (More Grounded Image
Captioning), Cyclical (Learning to Generate Grounded Visual Captions without Localization Supervision).

Sizes in shapes: I images, C captions of each image, T steps, N regions, K branches, V words. The captions of an image
stand together, ``[I, C, T]``, so that they share its projected regions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class DecoderConfig:
    """The decoder's sizes, and the choices in which the papers differ."""

    vocabulary: int
    features: int  # width of a region feature
    words: int = 512  # word embedding (DA Sec. 4.1; Cyclical App. D)
    hidden: int = 1024  # both LSTMs (DA Sec. 4.1; Cyclical App. D)
    attention: int = 512  # W_aa in R^{512x1} (Cyclical App. D)
    dropout: float = 0.5  # Cyclical App. D
    branches: int = 1  # K of DA Eq. 7; 1 is the baseline of every paper
    eliminate: bool = True  # DA Eq. 7: a branch does not see regions that earlier branches took; False: DA Table 3
    language_to_attention: bool = True  # h2_{t-1} into the attention LSTM (POS-SCAN Eq. 10); GVD, DA Eq. 1: False
    attend_from: Literal["current", "previous"] = "current"  # h1_t (POS-SCAN Eq. 12) or h1_{t-1} (DA Eq. 2)


@dataclass(frozen=True)
class Encoded:
    """The regions of a batch of images, projected once for all captions and steps."""

    regions: Tensor  # [I, N, hidden]      v'
    keys: Tensor  # [I, N, K, attention]   W_va v', for each branch
    image: Tensor  # [I, hidden]           the image as a whole
    mask: Tensor  # [I, N]                 True where there is a region

    def rows(self, images: Tensor) -> Encoded:
        """Some of the images, by index or mask."""
        return Encoded(**{field.name: getattr(self, field.name)[images] for field in fields(self)})


@dataclass(frozen=True)
class State:
    """Where every sentence stands between two words."""

    h1: Tensor  # [I, C, hidden]      attention LSTM
    c1: Tensor
    h2: Tensor  # [I, C, K, hidden]   language LSTM, a recurrence of its own for each branch
    c2: Tensor

    def rows(self, images: Tensor) -> State:
        """Some of the images, by index or mask."""
        return State(**{field.name: getattr(self, field.name)[images] for field in fields(self)})


@dataclass(frozen=True)
class Decoded:
    """What teacher forcing gives for each step of each caption."""

    states: Tensor  # [I, C, T, K, hidden] of the language LSTM; Decoder.speak turns them into words
    attention: Tensor  # [I, C, T, K, N] where each branch looked


class Decoder(nn.Module):
    """Regions and a sentence so far in, a distribution over the next word and over the regions out."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(c.vocabulary, c.words)
        self.embed_regions = nn.Linear(c.features, c.hidden)  # POS-SCAN Eq. 9
        self.embed_image = nn.Linear(c.features, c.hidden)
        before = c.hidden if c.language_to_attention else 0
        self.attention_lstm = nn.LSTMCell(before + c.hidden + c.words, c.hidden)  # POS-SCAN Eq. 10, DA Eq. 1
        self.language_lstm = nn.LSTMCell(2 * c.hidden, c.hidden)  # POS-SCAN Eq. 13, DA Eq. 5
        # POS-SCAN Eq. 12, DA Eq. 2; every branch has weights of its own
        self.key = nn.Linear(c.hidden, c.branches * c.attention)
        self.query = nn.Linear(c.hidden, c.branches * c.attention)
        self.energy = nn.Parameter(torch.empty(c.branches, c.attention).uniform_(-1, 1) / c.attention**0.5)
        self.output = nn.Linear(c.hidden, c.vocabulary)  # POS-SCAN Eq. 14, DA Eq. 5

    def encode(self, features: Tensor, mask: Tensor, image: Tensor | None = None) -> Encoded:
        """Project region features ``[I, N, features]`` once; ``mask [I, N]`` is True where there is a region.

        ``image [I, features]`` stands for the image as a whole; without it the mean of the regions does.
        """
        if image is None:
            weight = mask.unsqueeze(-1).to(features.dtype)
            image = (features * weight).sum(1) / weight.sum(1).clamp_min(1)
        regions = self.drop(F.relu(self.embed_regions(features)))
        keys = self.key(regions).view(*mask.shape, self.config.branches, self.config.attention)
        return Encoded(regions, keys, self.drop(F.relu(self.embed_image(image))), mask)

    def forward(self, encoded: Encoded, words: Tensor, branches: int | None = None) -> Decoded:
        """Teacher forcing on ``words [I, C, T]`` (bos first), with the first ``branches`` branches (all by default).

        Only the two recurrences run step by step; the word's and the image's part of the gates are one product over
        all steps, and so is the vocabulary layer (:meth:`speak`).
        """
        known = self._known_gates(encoded, words)  # [I, C, T, 4 hidden]
        state = self.start(encoded, words.shape[1], branches)
        spoken, looked = [], []
        for t in range(words.shape[2]):
            state, alpha = self._step(encoded, known[:, :, t], state)
            spoken.append(state.h2)
            looked.append(alpha)
        return Decoded(torch.stack(spoken, 2), torch.stack(looked, 2))

    def step(self, encoded: Encoded, words: Tensor, state: State) -> tuple[State, Tensor, Tensor]:
        """One word ``[I, C]`` further: the state, log-probabilities ``[I, C, K, V]`` and attention ``[I, C, K, N]``."""
        state, alpha = self._step(encoded, self._known_gates(encoded, words.unsqueeze(-1))[:, :, 0], state)
        return state, self.speak(state.h2), alpha

    def speak(self, states: Tensor) -> Tensor:
        """Log-probabilities ``[..., V]`` of the next word from states ``[..., hidden]`` of the language LSTM."""
        return F.log_softmax(self.output(self.drop(states)), dim=-1)

    def start(self, encoded: Encoded, captions: int, branches: int | None = None) -> State:
        """The state before the first word of ``captions`` sentences for each image: zeros."""
        one = encoded.image.new_zeros(len(encoded.image), captions, self.config.hidden)
        each = one.unsqueeze(2).repeat(1, 1, branches or self.config.branches, 1)
        return State(one, one, each, each)

    def drop(self, x: Tensor) -> Tensor:
        """Dropout while training."""
        return F.dropout(x, self.config.dropout, self.training)

    def _known_gates(self, encoded: Encoded, words: Tensor) -> Tensor:
        """The part of the attention LSTM's gates ``[I, C, T, 4 hidden]`` that does not wait for the recurrence."""
        lstm, hidden = self.attention_lstm, self.config.hidden
        start = hidden if self.config.language_to_attention else 0
        image = F.linear(encoded.image, lstm.weight_ih[:, start : start + hidden], lstm.bias_ih + lstm.bias_hh)
        embedded = self.drop(F.relu(self.embed(words)))
        return F.linear(embedded, lstm.weight_ih[:, start + hidden :]) + image[:, None, None]

    def _step(self, encoded: Encoded, known: Tensor, state: State) -> tuple[State, Tensor]:
        """``known`` gates ``[I, C, 4 hidden]`` and the state before; the state after and attention ``[I, C, K, N]``."""
        lstm, hidden = self.attention_lstm, self.config.hidden
        gates = known + F.linear(state.h1, lstm.weight_hh)
        if self.config.language_to_attention:
            # with several branches the attention LSTM hears their mean; DA's own attention LSTM hears none
            gates = gates + F.linear(state.h2.mean(2), lstm.weight_ih[:, :hidden])
        h1, c1 = lstm_gates(gates, state.c1)
        alpha = self.attend(encoded, h1 if self.config.attend_from == "current" else state.h1, state.h2.shape[2])
        seen = torch.bmm(alpha.flatten(1, 2), encoded.regions).view(*alpha.shape[:3], -1)  # [I, C, K, hidden]
        return self._language(seen, h1, c1, state), alpha

    def _language(self, seen: Tensor, h1: Tensor, c1: Tensor, state: State) -> State:
        lstm, hidden = self.language_lstm, self.config.hidden
        # h1 is the same for all branches: its part of the gates is computed once (POS-SCAN Eq. 13: [seen; h1])
        shared = F.linear(h1, lstm.weight_ih[:, hidden:], lstm.bias_ih + lstm.bias_hh)
        gates = F.linear(seen, lstm.weight_ih[:, :hidden]) + F.linear(state.h2, lstm.weight_hh) + shared.unsqueeze(2)
        h2, c2 = lstm_gates(gates, state.c2)
        return State(h1, c1, h2, c2)

    def attend(self, encoded: Encoded, h1: Tensor, branches: int) -> Tensor:
        """Attention ``[I, C, K, N]`` of the first K branches from ``h1 [I, C, hidden]``."""
        size = branches * self.config.attention
        query = F.linear(h1, self.query.weight[:size], self.query.bias[:size])
        query = query.view(*h1.shape[:2], branches, self.config.attention)
        mixed = torch.tanh(encoded.keys[:, None, :, :branches] + query[:, :, None])  # [I, C, N, K, attention]
        energy = (mixed * self.energy[:branches]).sum(-1).movedim(3, 2)  # [I, C, K, N]
        free = encoded.mask[:, None].expand(-1, h1.shape[1], -1)  # [I, C, N]
        weights = []
        for k in range(branches):
            alpha = energy[:, :, k].masked_fill(~free, -torch.inf).softmax(-1)
            weights.append(alpha)
            if self.config.eliminate and k + 1 < branches:
                # DA Eq. 7: a region taken by an earlier branch is gone, unless it is the only one left
                taken = F.one_hot(alpha.argmax(-1), alpha.shape[-1]).bool()
                free = torch.where(free.sum(-1, keepdim=True) > 1, free & ~taken, free)
        return torch.stack(weights, 2)


def lstm_gates(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One LSTM step from summed gates ``[..., 4 hidden]`` in torch's order (input, forget, cell, output): h and c."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell
