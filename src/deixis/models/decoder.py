"""The attention decoder that all captioners here share: an attention LSTM looks, a language LSTM speaks.

Equation numbers are those of the POS-SCAN paper (More Grounded Image Captioning); Up-Down, GVD, Distributed
Attention and Cyclical build on the same two recurrences.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, Tensor, Tensor, Tensor]  # h1, c1, h2, c2, each [B, hidden]


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder."""

    vocabulary: int
    features: int
    words: int = 256  # width of the word embedding
    hidden: int = 384
    attention: int = 256
    dropout: float = 0.3


@dataclass(frozen=True)
class Encoded:
    """The regions of a batch of images, projected once for all captions and steps."""

    regions: Tensor  # [I, N, hidden]  v'
    keys: Tensor  # [I, N, attention]  W_va v'
    image: Tensor  # [I, hidden]       the image as a whole
    mask: Tensor  # [I, N]             True where there is a region

    def select(self, images: Tensor) -> Encoded:
        """The rows of some images ``[B]``, repeated where several captions share one."""
        return Encoded(self.regions[images], self.keys[images], self.image[images], self.mask[images])


@dataclass(frozen=True)
class Decoded:
    """What the decoder gives for each step of each caption."""

    logprobs: Tensor  # [B, T, vocabulary] of the next word
    attention: Tensor  # [B, T, N] where it looked to find that word


@dataclass(frozen=True)
class Sentences:
    """Finished sentences, padded with 0 behind the end token."""

    words: Tensor  # [B, T] without bos; eos included where it was reached
    logprob: Tensor  # [B] of the whole sentence, its end included
    attention: Tensor  # [B, T, N]


class Decoder(nn.Module):
    """Regions and a sentence so far in, a distribution over the next word and over the regions out."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        c = config
        self.embed = nn.Embedding(c.vocabulary, c.words)
        self.embed_regions = nn.Linear(c.features, c.hidden)  # Eq. 9
        self.embed_image = nn.Linear(c.features, c.hidden)
        self.attention_lstm = nn.LSTMCell(2 * c.hidden + c.words, c.hidden)  # Eq. 10
        self.language_lstm = nn.LSTMCell(2 * c.hidden, c.hidden)  # Eq. 13
        self.key = nn.Linear(c.hidden, c.attention)  # W_va
        self.query = nn.Linear(c.hidden, c.attention)  # W_ha
        self.energy = nn.Linear(c.attention, 1)  # w_a
        self.output = nn.Linear(c.hidden, c.vocabulary)  # Eq. 14

    def encode(self, features: Tensor, mask: Tensor, image: Tensor | None = None) -> Encoded:
        """Project region features ``[I, N, features]`` once; ``mask [I, N]`` is True where there is a region.

        ``image [I, features]`` stands for the image as a whole; without it the mean of the regions does.
        """
        if image is None:
            weight = mask.unsqueeze(-1).to(features.dtype)
            image = (features * weight).sum(1) / weight.sum(1).clamp_min(1)
        regions = self._drop(F.relu(self.embed_regions(features)))
        return Encoded(regions, self.key(regions), self._drop(F.relu(self.embed_image(image))), mask)

    def forward(self, encoded: Encoded, images: Tensor, words: Tensor) -> Decoded:
        """Teacher forcing: ``words [B, T]`` (bos first) of captions that belong to image rows ``images [B]``.

        Only the two recurrences run step by step. The word's and the image's part of the gates and the vocabulary
        layer are one product over all steps each.
        """
        own = encoded.select(images)
        known = self._known_gates(own, self._drop(F.relu(self.embed(words))))  # [B, T, 4 hidden]
        state = self.start(len(words), known)
        spoken, looked = [], []
        for t in range(words.shape[1]):
            state, alpha = self._step(own, known[:, t], state)
            spoken.append(state[2])
            looked.append(alpha)
        logprobs = F.log_softmax(self.output(self._drop(torch.stack(spoken, 1))), dim=-1)
        return Decoded(logprobs, torch.stack(looked, 1))

    @torch.no_grad()
    def greedy(self, encoded: Encoded, bos: int, eos: int, max_words: int = 20, ban: tuple[int, ...] = ()) -> Sentences:
        """The most likely word at each step for every image; words in ``ban`` are never said."""
        rows = len(encoded.image)
        word = torch.full((rows,), bos, device=encoded.image.device)
        state = self.start(rows, encoded.image)
        done = torch.zeros(rows, dtype=torch.bool, device=encoded.image.device)
        total = torch.zeros(rows, device=encoded.image.device)
        words, looked = [], []
        for _ in range(max_words):
            known = self._known_gates(encoded, F.relu(self.embed(word)).unsqueeze(1))[:, 0]
            state, alpha = self._step(encoded, known, state)
            logprobs = F.log_softmax(self.output(state[2]), dim=-1)
            logprobs[:, list(ban)] = -torch.inf
            best, word = logprobs.max(-1)
            word = word.masked_fill(done, 0)
            total = total + best.masked_fill(done, 0)
            words.append(word)
            looked.append(alpha)
            done = done | (word == eos)
            if bool(done.all()):
                break
        return Sentences(torch.stack(words, 1), total, torch.stack(looked, 1))

    def start(self, rows: int, like: Tensor) -> State:
        """The state before the first word: zeros."""
        zero = like.new_zeros(rows, self.config.hidden)
        return zero, zero, zero, zero

    def _known_gates(self, own: Encoded, words: Tensor) -> Tensor:
        """The part of the attention LSTM's gates ``[B, T, 4 hidden]`` that does not wait for the recurrence."""
        lstm, hidden = self.attention_lstm, self.config.hidden
        whole = F.linear(own.image, lstm.weight_ih[:, hidden : 2 * hidden], lstm.bias_ih + lstm.bias_hh)
        return F.linear(words, lstm.weight_ih[:, 2 * hidden :]) + whole.unsqueeze(1)

    def _step(self, own: Encoded, known: Tensor, state: State) -> tuple[State, Tensor]:
        h1, c1, h2, c2 = state
        lstm, hidden = self.attention_lstm, self.config.hidden
        gates = known + F.linear(h2, lstm.weight_ih[:, :hidden]) + F.linear(h1, lstm.weight_hh)
        h1, c1 = _lstm(gates, c1)  # Eq. 10
        energy = self.energy(torch.tanh(own.keys + self.query(h1).unsqueeze(1))).squeeze(-1)  # Eq. 12
        alpha = energy.masked_fill(~own.mask, -torch.inf).softmax(-1)
        seen = torch.bmm(alpha.unsqueeze(1), own.regions).squeeze(1)  # Eq. 11
        h2, c2 = self.language_lstm(torch.cat([seen, h1], -1), (h2, c2))  # Eq. 13
        return (h1, c1, h2, c2), alpha

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout, self.training)


def _lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One LSTM step from summed gates ``[B, 4 hidden]`` in torch's order: input, forget, cell, output."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell
