"""The attention decoder that all captioners here share: an attention LSTM looks, a language LSTM speaks.

Papers by their short names: Up-Down and GVD (the baselines), DA (Distributed Attention), POS-SCAN (More Grounded Image
Captioning), Cyclical (Learning to Generate Grounded Visual Captions without Localization Supervision).

Sizes in shapes: I images, C captions of each image, T steps, N regions, K branches, V words. The captions of an image
stand together, ``[I, C, T]``, so that they share its projected regions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.padding import PaddedRegions
from deixis.layers.recurrence import Recurring, additive_energy


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
    heads: int = 0  # > 0: multi-head attention in the place of branches (DA Sec. 4.4)
    grid: int = 0  # width of the image's feature grid; > 0: attention over it is added to what was seen (DA Eq. 4)
    classes: int = 0  # > 0: region-class similarity joins the region feature (Cyclical App. D, GVD)
    location: int = 0  # > 0: width of a location embedding that joins it too; 300 in Cyclical App. D

    def __post_init__(self) -> None:
        if self.heads and self.branches > 1:
            raise ValueError("a decoder has several branches or several heads, not both")
        if self.heads and (self.hidden % self.heads or self.attention % self.heads):
            raise ValueError(f"{self.heads} heads do not divide hidden {self.hidden} and attention {self.attention}")


@dataclass(frozen=True)
class Encoded:
    """The regions of a batch of images, projected once for all captions and steps."""

    regions: Tensor  # [I, N, hidden]      v'
    keys: Tensor  # [I, N, K, attention]   W_va v', for each branch
    image: Tensor  # [I, 4 hidden]         what the image as a whole adds to the attention LSTM's gates
    mask: Tensor  # [I, N]                 True where there is a region
    grid: Tensor | None = None  # [I, M, hidden]          the feature grid's cells
    grid_keys: Tensor | None = None  # [I, M, attention]

    def rows(self, images: Tensor) -> Encoded:
        """Some of the images, by index or mask."""
        parts: dict[str, Tensor] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: part[images] for name, part in parts.items() if part is not None})


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
    looking: Tensor  # [I, C, T, hidden] of the attention LSTM, h^A


class Weights(NamedTuple):
    """What every step multiplies with, put together once; columns are what is read, rows what comes out."""

    before: Recurring  # h1 of the step before -> attention gates (and the query, where the attention is from there)
    heard: Recurring | None  # h2 -> attention gates
    after: Recurring  # h1 -> (query and) language gates
    spoken: Recurring  # what was seen, and h2 -> language gates
    query_bias: Tensor  # [K attention]
    language_bias: Tensor  # [4 hidden]
    energy: Tensor  # [K, attention]


class Decoder(nn.Module):
    """Regions and a sentence so far in, a distribution over the next word and over the regions out."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(c.vocabulary, c.words)
        self.embed_regions = nn.Linear(c.features + c.classes + c.location, c.hidden)  # POS-SCAN Eq. 9
        self.embed_image = nn.Linear(c.features, c.hidden)
        before = c.hidden if c.language_to_attention else 0
        self.attention_lstm = nn.LSTMCell(before + c.hidden + c.words, c.hidden)  # POS-SCAN Eq. 10, DA Eq. 1
        self.language_lstm = nn.LSTMCell(2 * c.hidden, c.hidden)  # POS-SCAN Eq. 13, DA Eq. 5
        # POS-SCAN Eq. 12, DA Eq. 2; every branch has weights of its own
        self.key = nn.Linear(c.hidden, c.branches * c.attention)
        self.query = nn.Linear(c.hidden, c.branches * c.attention)
        self.energy = nn.Parameter(torch.empty(c.branches, c.attention).uniform_(-1, 1) / c.attention**0.5)
        self.output = nn.Linear(c.hidden, c.vocabulary)  # POS-SCAN Eq. 14, DA Eq. 5
        # states begin near .1, and with torch's small weights the first hundreds of steps learn word counts only
        nn.init.normal_(self.output.weight, std=3 / c.hidden**0.5)
        if c.classes:
            self.classify = nn.Linear(c.features, c.classes)  # W_c of Cyclical App. D
        if c.location:
            self.locate = nn.Linear(4, c.location)
        if c.grid:
            self.embed_grid = nn.Linear(c.grid, c.hidden)
            self.grid_key = nn.Linear(c.hidden, c.attention)

    def encode(
        self,
        features: Tensor,
        mask: Tensor,
        image: Tensor | None = None,
        boxes: Tensor | None = None,
        grid: Tensor | None = None,
    ) -> Encoded:
        """Project region features ``[I, N, features]`` once; ``mask [I, N]`` is True where there is a region.

        ``image [I, features]`` stands for the image as a whole; without it the mean of the regions does.
        ``boxes [I, N, 4]`` are fractions of the image (needed with ``location``), ``grid [I, M, grid]`` the cells of
        the feature grid (needed with ``grid``).
        """
        c = self.config
        if image is None:
            weight = mask.unsqueeze(-1).to(features.dtype)
            image = (features * weight).sum(1) / weight.sum(1).clamp_min(1)
        parts = [features]
        if c.classes:
            parts.append(self.classify(features).softmax(-1))  # M_s of Cyclical App. D
        if c.location:
            if boxes is None:
                raise ValueError("this decoder has a location embedding and needs the regions' boxes")
            parts.append(F.relu(self.locate(boxes)))
        regions = self.drop(F.relu(self.embed_regions(torch.cat(parts, -1) if len(parts) > 1 else features)))
        keys = self.key(regions).view(*mask.shape, c.branches, c.attention)
        encoded = Encoded(regions, keys, self.image_gates(self.drop(F.relu(self.embed_image(image)))), mask)
        if c.grid:
            if grid is None:
                raise ValueError("this decoder looks at the feature grid and was given none")
            cells = self.drop(F.relu(self.embed_grid(grid)))
            encoded = replace(encoded, grid=cells, grid_keys=self.grid_key(cells))
        return encoded

    def encode_regions(self, regions: PaddedRegions) -> Encoded:
        """:meth:`encode` with what this decoder wants of the regions."""
        grid = regions.grid if self.config.grid else None
        return self.encode(regions.features, regions.mask, boxes=regions.boxes, grid=grid)

    def forward(
        self, encoded: Encoded, words: Tensor, branches: int | None = None, seen: Tensor | None = None
    ) -> Decoded:
        """Teacher forcing on ``words [I, C, T]`` (bos first), with the first ``branches`` branches (all by default).

        Only the two recurrences run step by step; the word's and the image's part of the gates are one product over
        all steps, and so is the vocabulary layer (:meth:`speak`). ``seen [I, C, T, K, hidden]`` takes the place of
        what the decoder would have attended to (the reconstruction of Cyclical Eq. 7); attention is then empty.
        """
        known = self._word_gates(encoded, words).unbind(2)  # T x [I, C, 4 hidden]
        state = self.start(encoded, words.shape[1], branches if seen is None else seen.shape[3])
        given = [None] * len(known) if seen is None else seen.unbind(2)
        weights = self.weights(state.h2.shape[2])
        encoded = replace(encoded, keys=encoded.keys[:, :, : len(weights.energy)])
        spoken, looked, looking = [], [], []
        for t in range(len(known)):
            state, alpha = self._step(encoded, weights, known[t], state, given[t])
            spoken.append(state.h2)
            looked.append(alpha)
            looking.append(state.h1)
        return Decoded(torch.stack(spoken, 2), torch.stack(looked, 2), torch.stack(looking, 2))

    def step(self, encoded: Encoded, words: Tensor, state: State, weights: Weights) -> tuple[State, Tensor, Tensor]:
        """One word ``[I, C]`` further: the state, log-probabilities ``[I, C, K, V]`` and attention ``[I, C, K, N]``.

        ``weights`` are those of :meth:`weights` for the branches that the state has.
        """
        known = self._word_gates(encoded, words.unsqueeze(-1))[:, :, 0]
        encoded = replace(encoded, keys=encoded.keys[:, :, : len(weights.energy)])
        state, alpha = self._step(encoded, weights, known, state)
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

    def image_gates(self, image: Tensor) -> Tensor:
        """What embedded images ``[I, hidden]`` add to the attention LSTM's gates, its biases included."""
        lstm, place = self.attention_lstm, self._heard()
        return F.linear(image, lstm.weight_ih[:, place : place + self.config.hidden], lstm.bias_ih + lstm.bias_hh)

    def _heard(self) -> int:
        """How many columns of the attention LSTM's input belong to the language LSTM's state; image and word follow."""
        return self.config.hidden if self.config.language_to_attention else 0

    def _word_gates(self, encoded: Encoded, words: Tensor) -> Tensor:
        """The part of the attention LSTM's gates ``[I, C, T, 4 hidden]`` that does not wait for the recurrence."""
        embedded = self.drop(F.relu(self.embed(words)))
        place = self._heard() + self.config.hidden
        return F.linear(embedded, self.attention_lstm.weight_ih[:, place:]) + encoded.image[:, None, None]

    def weights(self, branches: int) -> Weights:
        """What the steps of the first ``branches`` branches multiply with.

        Cut once for all steps: a cut in every step would cost a gradient of full size each.
        """
        c, attention, language = self.config, self.attention_lstm, self.language_lstm
        size = branches * c.attention
        query, before, after = self.query.weight[:size], attention.weight_hh, language.weight_ih[:, c.hidden :]
        if c.attend_from == "previous":
            before = torch.cat([query, before])
        else:
            after = torch.cat([query, after])
        return Weights(
            before=Recurring(before),
            heard=Recurring(attention.weight_ih[:, : c.hidden]) if c.language_to_attention else None,
            after=Recurring(after),
            spoken=Recurring(torch.cat([language.weight_ih[:, : c.hidden], language.weight_hh], 1)),
            query_bias=self.query.bias[:size],
            language_bias=language.bias_ih + language.bias_hh,
            energy=self.energy[:branches],
        )

    def _step(
        self, encoded: Encoded, weights: Weights, known: Tensor, state: State, seen: Tensor | None = None
    ) -> tuple[State, Tensor]:
        """``known`` gates ``[I, C, 4 hidden]`` and the state before; the state after and attention ``[I, C, K, N]``."""
        c, size = self.config, len(weights.query_bias)
        before = weights.before(state.h1)
        gates = known + before[..., -4 * c.hidden :]
        if weights.heard is not None:
            # with several branches the attention LSTM hears their mean; DA's own attention LSTM hears none
            gates = gates + weights.heard(state.h2.mean(2))
        h1, c1 = lstm_gates(gates, state.c1)
        after = weights.after(h1)
        if seen is None:
            query = (before if c.attend_from == "previous" else after)[..., :size] + weights.query_bias
            alpha = self._attend(encoded, weights, query)
            seen = self._seen(encoded, alpha, query)
        else:
            alpha = seen.new_zeros(*seen.shape[:3], 0)
        shared = after[..., -4 * c.hidden :] + weights.language_bias
        gates = weights.spoken(torch.cat([seen, state.h2], -1)) + shared.unsqueeze(2)
        h2, c2 = lstm_gates(gates, state.c2)
        return State(h1, c1, h2, c2), alpha.mean(2, keepdim=True) if c.heads else alpha

    def _seen(self, encoded: Encoded, alpha: Tensor, query: Tensor) -> Tensor:
        """What attention ``[I, C, K, N]`` saw ``[I, C, K, hidden]``; heads see a slice of the feature each."""
        c = self.config
        if c.heads:
            values = encoded.regions.view(*encoded.mask.shape, c.heads, -1)
            seen = torch.einsum("ichn,inhd->ichd", alpha, values).flatten(2).unsqueeze(2)
        else:
            seen = torch.bmm(alpha.flatten(1, 2), encoded.regions).view(*alpha.shape[:3], -1)
        if encoded.grid is not None and encoded.grid_keys is not None:
            # DA Eq. 4. The paper does not say which weights; as in the published code of Cyclical they are those of
            # the region attention, here of its first branch.
            first = query[..., None, : c.attention]
            energy = torch.tanh(encoded.grid_keys[:, None] + first) @ self.energy[0]  # [I, C, M]
            seen = seen + torch.bmm(energy.softmax(-1), encoded.grid).unsqueeze(2)
        return seen

    def _attend(self, encoded: Encoded, weights: Weights, query: Tensor) -> Tensor:
        """Attention ``[I, C, K, N]`` of the first K branches (or of all heads) from ``query [I, C, K attention]``."""
        c = self.config
        free = encoded.mask[:, None].expand(-1, query.shape[1], -1)  # [I, C, N]
        if c.heads:
            query = query.view(*query.shape[:2], c.heads, -1)
            keys = encoded.keys.view(*encoded.mask.shape, c.heads, -1)
            energy = torch.einsum("icha,inha->ichn", query, keys) / query.shape[-1] ** 0.5
            return energy.masked_fill(~free.unsqueeze(2), -torch.inf).softmax(-1)
        branches = len(weights.energy)
        query = query.view(*query.shape[:2], branches, c.attention)
        energy = additive_energy(encoded.keys, query, weights.energy)
        looks = []
        for k in range(branches):
            alpha = energy[:, :, k].masked_fill(~free, -torch.inf).softmax(-1)
            looks.append(alpha)
            if c.eliminate and k + 1 < branches:
                # DA Eq. 7: a region taken by an earlier branch is gone, unless it is the only one left
                taken = F.one_hot(alpha.argmax(-1), alpha.shape[-1]).bool()
                free = torch.where(free.sum(-1, keepdim=True) > 1, free & ~taken, free)
        return torch.stack(looks, 2)


def lstm_gates(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One LSTM step from summed gates ``[..., 4 hidden]`` in torch's order (input, forget, cell, output): h and c."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell
