"""Caption decoder with an attention LSTM and a language LSTM (Up-Down, GVD, Distributed Attention, Cyclical).

Short names of papers: DA (Distributed Attention), POS-SCAN (More Grounded Image Captioning), Cyclical (Learning to
Generate Grounded Visual Captions without Localization Supervision). README.md in this folder lists all equations.

Sizes in shapes: I images, C captions of each image, T steps, N regions, K branches, V words. Captions are grouped by
image, ``[I, C, T]``, so that they share its projected regions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.lstm import lstm_gates
from deixis.layers.noise import drop, fold
from deixis.layers.padding import PaddedRegions
from deixis.layers.recurrence import RecurrentWeight, additive_energy
from deixis.layers.self_attention import SelfAttention
from deixis.layers.temporal import TemporalEncoder
from deixis.methods.updown.config import DecoderConfig


@dataclass(frozen=True)
class Encoded:
    """Projected regions of a batch of images, shared by all captions and steps."""

    regions: Tensor  # [I, N, hidden]      v'
    keys: Tensor  # [I, N, K, attention]   W_va v', for each branch
    image: Tensor  # [I, 4 hidden]         part of the attention LSTM's gates that depends on the whole image
    mask: Tensor  # [I, N]                 True where there is a region
    grid: Tensor | None = None  # [I, M, hidden]          cells of the feature grid
    grid_keys: Tensor | None = None  # [I, M, attention]
    grid_mask: Tensor | None = None  # [I, M]             True where there is a cell
    class_logits: Tensor | None = None  # [I, N, classes] whose softmax is the class similarity
    frames: Tensor | None = None  # [I, N] frame of each region of a clip
    random: Tensor | None = None  # [I] random keys of dropout, in training (deixis.layers.noise)

    def rows(self, images: Tensor) -> Encoded:
        """Select images by index or mask."""
        parts: dict[str, Tensor] = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: part[images] for name, part in parts.items() if part is not None})


@dataclass(frozen=True)
class State:
    """Recurrent state of every sentence between two words."""

    h1: Tensor  # [I, C, hidden]      attention LSTM
    c1: Tensor
    h2: Tensor  # [I, C, K, hidden]   language LSTM, one recurrence for each branch
    c2: Tensor

    def rows(self, images: Tensor) -> State:
        """Select images by index or mask."""
        return State(**{field.name: getattr(self, field.name)[images] for field in fields(self)})


@dataclass(frozen=True)
class Decoded:
    """Output of teacher forcing for each step of each caption."""

    states: Tensor  # [I, C, T, K, hidden] of the language LSTM; input of Decoder.word_logprobs
    attention: Tensor  # [I, C, T, K, N] of each branch
    attention_states: Tensor  # [I, C, T, hidden] of the attention LSTM, h^A


class StepWeights(NamedTuple):
    """Weights that every step multiplies with, concatenated once."""

    h1_previous: RecurrentWeight  # h1_{t-1} -> (query where attend_from is "previous", and) attention LSTM gates
    h2_previous: RecurrentWeight | None  # h2_{t-1} -> attention LSTM gates
    h1_current: RecurrentWeight  # h1_t -> (query where attend_from is "current", and) language LSTM gates
    attended_h2: RecurrentWeight  # [attended feature; h2_{t-1}] -> language LSTM gates
    query_bias: Tensor  # [K attention], then [attention] of a grid attention with own weights
    language_bias: Tensor  # [4 hidden]
    energy: Tensor | None  # [K, attention]; None with heads
    branches: int


class Decoder(nn.Module):
    """Network from regions and previous words to distributions over the next word and over the regions."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(c.vocabulary, c.words)
        self.embed_regions = nn.Linear((c.fc7 or c.features) + c.classes + c.location, c.hidden)  # POS-SCAN Eq. 9
        self.embed_image = nn.Linear(c.image_width, c.hidden)
        from_language = c.hidden if c.language_to_attention else 0
        # POS-SCAN Eq. 10, Cyclical Eq. 1; without h2: DA Eq. 1
        self.attention_lstm = nn.LSTMCell(from_language + c.hidden + c.words, c.hidden)
        self.language_lstm = nn.LSTMCell(2 * c.hidden, c.hidden)  # POS-SCAN Eq. 13, DA Eq. 5, Cyclical Eq. 3
        # POS-SCAN Eq. 12, DA Eq. 2, Cyclical Eq. 2; every branch has its own weights (DA Eq. 7). A bias of the keys of
        # heads would move all regions alike.
        self.key = nn.Linear(c.hidden, c.branches * c.attention, bias=not c.heads)
        self.query = nn.Linear(c.hidden, c.branches * c.attention)
        if c.heads:
            self.ignored_names = ("energy", "key.bias")  # version 0.1 had them, without effect
        else:
            self.energy = nn.Parameter(_energy(c.branches, c.attention))
        self.output = nn.Linear(c.hidden, c.vocabulary)  # POS-SCAN Eq. 14, DA Eq. 5, Cyclical Eq. 3
        # initial states are near .1; with torch's small weights the first hundreds of steps learn word counts only
        nn.init.normal_(self.output.weight, std=3 / c.hidden**0.5)
        if c.fc7:
            self.fc7 = nn.Linear(c.features, c.fc7)
        if c.classes:
            self.classify = nn.Linear(c.fc7 or c.features, c.classes)  # W_c of Cyclical App. D
        if c.location:
            self.locate = nn.Linear(5 if c.frames else 4, c.location)
        if c.interact:
            self.interact = SelfAttention(c.hidden, c.interact, c.interact_heads)
        if c.grid:
            self.embed_grid = nn.Linear(c.grid, c.hidden)
        if c.temporal:
            self.encode_time = TemporalEncoder(c.temporal, c.hidden, c.steps, c.motion, c.dropout)
        if c.grid or c.temporal:
            self.grid_key = nn.Linear(c.hidden, c.attention)
        if (c.grid or c.temporal) and (
            c.grid_attention == "own" or c.heads
        ):  # heads have no energy that the grid could share
            self.grid_query = nn.Linear(c.hidden, c.attention)
            self.grid_energy = nn.Parameter(_energy(1, c.attention))

    def encode(
        self,
        features: Tensor,
        mask: Tensor,
        image: Tensor | None = None,
        boxes: Tensor | None = None,
        grid: Tensor | None = None,
        grid_mask: Tensor | None = None,
        random: Tensor | None = None,
    ) -> Encoded:
        """Project region features ``[I, N, features]`` (POS-SCAN Eq. 9); ``mask [I, N]`` marks real regions.

        ``image [I, image_width]`` is the feature of the whole image, by default the mean of the regions or of the grid.
        ``boxes [I, N, 4]`` are fractions of the image (needed with ``location``), ``grid [I, M, grid]`` the cells of
        the feature grid (needed with ``grid``), ``grid_mask [I, M]`` marks real cells (all by default). ``random [I]``
        are the random keys of dropout.
        """
        c = self.config
        joined, logits = self._region_parts(features, boxes, random)
        regions = self.drop(F.relu(self.embed_regions(joined)), random, 0)
        if c.interact:
            regions = self.interact(regions, mask, fold(random, 10))
        keys = self.key(regions).view(*mask.shape, c.branches, c.attention)
        if image is None:
            image = self._whole_image(features, mask, grid, grid_mask)
        gates = self.image_gates(self.drop(F.relu(self.embed_image(image)), random, 1))
        encoded = Encoded(regions, keys, gates, mask, class_logits=logits, random=random)
        if not c.grid:
            return encoded
        cells = F.relu(self.embed_grid(_given(grid, "grid attention", "the feature grid")))
        cells = self.drop(cells, random, 2)
        return replace(encoded, grid=cells, grid_keys=self.grid_key(cells), grid_mask=grid_mask)

    def _region_parts(
        self, features: Tensor, boxes: Tensor | None, random: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Region feature, class similarity and location embedding, joined, and the class logits ``[I, N, classes]``.

        GVD and Cyclical App. D: h = ReLU(W_7 x + b_7), M_s = softmax(ReLU(W_c) h + b_c), each part layer-normalised.
        Without an fc7 layer: h = x, M_s = softmax(W_c x + b_c), the parts as they are.
        """
        c, logits = self.config, None
        hidden = self.drop(F.relu(self.fc7(features)), random, 11) if c.fc7 else features
        parts = [hidden]
        if c.classes:
            logits = self.class_logits(hidden)
            parts.append(logits.softmax(-1))
        if c.location:
            located = F.relu(self.locate(_given(boxes, "a location embedding", "the boxes of the regions")))
            parts.append(self.drop(located, random, 12) if c.fc7 else located)
        if c.fc7:
            parts = [F.layer_norm(part, part.shape[-1:]) for part in parts]
        return torch.cat(parts, -1), logits

    def class_logits(self, hidden: Tensor) -> Tensor:
        """Logits of the region classes from the fc7 layer (or, without one, the region feature)."""
        if not self.config.fc7:
            logits: Tensor = self.classify(hidden)
            return logits
        # weights are the same for all samples: torch's generator, which all processes seed alike, draws their mask
        return F.linear(hidden, self.drop(F.relu(self.classify.weight)), self.classify.bias)

    def _whole_image(self, features: Tensor, mask: Tensor, grid: Tensor | None, grid_mask: Tensor | None) -> Tensor:
        """Feature of the whole image: the mean of the regions, or of the cells of the grid (GVD)."""
        if self.config.image == "vector":
            raise ValueError("a decoder with image 'vector' needs the vectors of the images")
        if self.config.image == "grid":
            features = _given(grid, "image 'grid'", "the feature grid")
            mask = features.new_ones(features.shape[:2]) if grid_mask is None else grid_mask
        weight = mask.unsqueeze(-1).to(features.dtype)
        return (features * weight).sum(1) / weight.sum(1).clamp_min(1)

    def encode_regions(self, regions: PaddedRegions) -> Encoded:
        """Call :meth:`encode` with the parts of the regions that the configuration uses."""
        c = self.config
        if c.frames:
            return self._encode_clips(regions)
        return self.encode(
            regions.features,
            regions.mask,
            regions.image_vector if c.image == "vector" else None,
            regions.boxes,
            regions.grid if c.grid or c.image == "grid" else None,
            regions.grid_mask,
            regions.keys,
        )

    def _encode_clips(self, regions: PaddedRegions) -> Encoded:
        """Project the regions of clips, and encode their temporal features in place of a grid."""
        c, video = self.config, regions.video
        if video is None:
            raise ValueError("a decoder of clips needs regions with frames")
        # GVD: corners / 720 of frames that are 720 pixels wide, which are fractions of the width, and frame / 10
        heights = video.aspect[:, None, None]
        x, y = regions.boxes[..., 0::2], regions.boxes[..., 1::2] * heights  # [I, N, 2]
        frames = video.frames / c.frames if c.see_time else torch.zeros_like(x[..., 0])
        corners = torch.stack([x[..., 0], y[..., 0], x[..., 1], y[..., 1], frames], -1)
        cells = mask = vector = None
        if c.temporal:
            cells, mask, vector = self.encode_time(video.temporal, video.lengths, video.segment, fold(regions.keys, 13))
        image = vector if c.image == "temporal" else None
        encoded = self.encode(regions.features, regions.mask, image, corners, None, None, regions.keys)
        if cells is not None:
            encoded = replace(encoded, grid=cells, grid_keys=self.grid_key(cells), grid_mask=mask)
        return replace(encoded, frames=video.frames)

    def forward(
        self, encoded: Encoded, words: Tensor, branches: int | None = None, attended: Tensor | None = None
    ) -> Decoded:
        """Teacher forcing on ``words [I, C, T]`` (bos first), with the first ``branches`` branches (all by default).

        Only the two recurrences run step by step. The word and image parts of the gates are one product over all
        steps, and so is the vocabulary layer (:meth:`word_logprobs`). ``attended [I, C, T, K, hidden]`` replaces the
        attended feature (reconstruction, Cyclical Eq. 7); the returned attention is then empty.
        """
        inputs = self._input_gates(encoded, words).unbind(2)  # T x [I, C, 4 hidden]
        state = self.initial_state(encoded, words.shape[1], branches if attended is None else attended.shape[3])
        given = [None] * len(inputs) if attended is None else attended.unbind(2)
        weights = self.step_weights(state.h2.shape[2])
        encoded = replace(encoded, keys=encoded.keys[:, :, : weights.branches])
        language, attention, attention_states = [], [], []
        for t in range(len(inputs)):
            state, alpha = self._step(encoded, weights, inputs[t], state, given[t])
            language.append(state.h2)
            attention.append(alpha)
            attention_states.append(state.h1)
        return Decoded(torch.stack(language, 2), torch.stack(attention, 2), torch.stack(attention_states, 2))

    def step(self, encoded: Encoded, words: Tensor, state: State, weights: StepWeights) -> tuple[State, Tensor, Tensor]:
        """Feed one word ``[I, C]``: the state, log-probabilities ``[I, C, K, V]`` and attention ``[I, C, K, N]``.

        ``weights`` are those of :meth:`step_weights` for the number of branches in the state.
        """
        inputs = self._input_gates(encoded, words.unsqueeze(-1))[:, :, 0]
        encoded = replace(encoded, keys=encoded.keys[:, :, : weights.branches])
        state, alpha = self._step(encoded, weights, inputs, state)
        return state, self.word_logprobs(state.h2), alpha

    def word_logprobs(self, states: Tensor, random: Tensor | None = None) -> Tensor:
        """Log-probabilities ``[..., V]`` of the next word from states ``[..., hidden]`` of the language LSTM.

        POS-SCAN Eq. 14, DA Eq. 5, Cyclical Eq. 3. ``random`` are the random keys of dropout.
        """
        return F.log_softmax(self.output(self.drop(states, random)), dim=-1)

    def initial_state(self, encoded: Encoded, captions: int, branches: int | None = None) -> State:
        """Zero state before the first word of ``captions`` sentences for each image."""
        one = encoded.image.new_zeros(len(encoded.image), captions, self.config.hidden)
        each = one.unsqueeze(2).repeat(1, 1, branches or self.config.branches, 1)
        return State(one, one, each, each)

    def drop(self, x: Tensor, random: Tensor | None = None, purpose: int = 0) -> Tensor:
        """Apply dropout in training; ``random`` are random keys of the first dimensions."""
        return drop(x, self.config.dropout, True, fold(random, purpose)) if self.training else x

    def image_gates(self, image: Tensor) -> Tensor:
        """Part of the attention LSTM's gates of embedded images ``[I, hidden]``, biases included."""
        lstm, start = self.attention_lstm, self._language_columns()
        return F.linear(image, lstm.weight_ih[:, start : start + self.config.hidden], lstm.bias_ih + lstm.bias_hh)

    def _language_columns(self) -> int:
        """Number of input columns of the attention LSTM for h2; those of image and word follow."""
        return self.config.hidden if self.config.language_to_attention else 0

    def _input_gates(self, encoded: Encoded, words: Tensor) -> Tensor:
        """Part of the attention LSTM's gates ``[I, C, T, 4 hidden]`` that does not depend on the recurrence."""
        embedded = self.drop(F.relu(self.embed(words)), encoded.random, 3)
        start = self._language_columns() + self.config.hidden
        return F.linear(embedded, self.attention_lstm.weight_ih[:, start:]) + encoded.image[:, None, None]

    def step_weights(self, branches: int) -> StepWeights:
        """Weights of the steps of the first ``branches`` branches.

        Sliced once for all steps: a slice in every step would cost a gradient of full size each.
        """
        c, attention, language = self.config, self.attention_lstm, self.language_lstm
        size = branches * c.attention
        query, query_bias = self.query.weight[:size], self.query.bias[:size]
        if hasattr(self, "grid_query"):
            query = torch.cat([query, self.grid_query.weight])
            query_bias = torch.cat([query_bias, self.grid_query.bias])
        previous, current = attention.weight_hh, language.weight_ih[:, c.hidden :]
        if c.attend_from == "previous":
            previous = torch.cat([query, previous])
        else:
            current = torch.cat([query, current])
        return StepWeights(
            h1_previous=RecurrentWeight(previous),
            h2_previous=RecurrentWeight(attention.weight_ih[:, : c.hidden]) if c.language_to_attention else None,
            h1_current=RecurrentWeight(current),
            attended_h2=RecurrentWeight(torch.cat([language.weight_ih[:, : c.hidden], language.weight_hh], 1)),
            query_bias=query_bias,
            language_bias=language.bias_ih + language.bias_hh,
            energy=None if c.heads else self.energy[:branches],
            branches=branches,
        )

    def _step(
        self, encoded: Encoded, weights: StepWeights, inputs: Tensor, state: State, attended: Tensor | None = None
    ) -> tuple[State, Tensor]:
        """Next state and attention ``[I, C, K, N]`` from input gates ``[I, C, 4 hidden]`` and the previous state.

        Attention LSTM: POS-SCAN Eq. 10, DA Eq. 1, Cyclical Eq. 1. Language LSTM: POS-SCAN Eq. 13, DA Eq. 5,
        Cyclical Eq. 3 and, with a given ``attended`` feature, Eq. 7.
        """
        c, size = self.config, len(weights.query_bias)
        previous = weights.h1_previous(state.h1)
        gates = inputs + previous[..., -4 * c.hidden :]
        if weights.h2_previous is not None:
            # with several branches the mean of their states; DA's attention LSTM has no input from the branches
            gates = gates + weights.h2_previous(state.h2.mean(2))
        h1, c1 = lstm_gates(gates, state.c1)
        current = weights.h1_current(h1)
        if attended is None:
            query = (previous if c.attend_from == "previous" else current)[..., :size] + weights.query_bias
            alpha = self._attention(encoded, weights, query[..., : weights.branches * c.attention])
            attended = self._attended(encoded, alpha, query)
        else:
            alpha = attended.new_zeros(*attended.shape[:3], 0)
        shared = current[..., -4 * c.hidden :] + weights.language_bias
        gates = weights.attended_h2(torch.cat([attended, state.h2], -1)) + shared.unsqueeze(2)
        h2, c2 = lstm_gates(gates, state.c2)
        return State(h1, c1, h2, c2), alpha.mean(2, keepdim=True) if c.heads else alpha

    def _attended(self, encoded: Encoded, alpha: Tensor, query: Tensor) -> Tensor:
        """Attended feature ``[I, C, K, hidden]`` of attention ``[I, C, K, N]`` (POS-SCAN Eq. 11, DA Eq. 3 and 4).

        Heads attend to a slice of the feature each. ``query`` is that of all branches and of the grid.
        """
        c = self.config
        if c.heads:
            slices = encoded.regions.tensor_split(c.heads, -1)
            attended = torch.cat([torch.bmm(a, v) for a, v in zip(alpha.unbind(2), slices, strict=True)], -1)
            attended = attended.unsqueeze(2)
        else:
            attended = torch.bmm(alpha.flatten(1, 2), encoded.regions).view(*alpha.shape[:3], -1)
        if encoded.grid is None or encoded.grid_keys is None:
            return attended
        # DA Eq. 4. The paper does not say which weights: GVD, which it extends, has a module of its own; the published
        # code of Cyclical shares the query and energy of the region attention, here of its first branch.
        own = hasattr(self, "grid_energy")
        grid_query = query[..., -c.attention :] if own else query[..., : c.attention]
        vector = self.grid_energy if own else self.energy[:1]
        energy = additive_energy(encoded.grid_keys.unsqueeze(2), grid_query.unsqueeze(2), vector).squeeze(2)
        if encoded.grid_mask is not None:
            energy = energy.masked_fill(~encoded.grid_mask.unsqueeze(1), -torch.inf)
        return attended + torch.bmm(energy.softmax(-1), encoded.grid).unsqueeze(2)

    def _attention(self, encoded: Encoded, weights: StepWeights, query: Tensor) -> Tensor:
        """Attention ``[I, C, K, N]`` of K branches, or of all heads, from ``query [I, C, K attention]``.

        POS-SCAN Eq. 11 and 12, DA Eq. 2, Cyclical Eq. 2; region elimination between branches: DA Eq. 7.
        """
        c = self.config
        free = encoded.mask[:, None].expand(-1, query.shape[1], -1)  # [I, C, N]
        if weights.energy is None:
            return self._head_attention(encoded, query).masked_fill(~free.unsqueeze(2), -torch.inf).softmax(-1)
        query = query.view(*query.shape[:2], weights.branches, c.attention)
        energy = additive_energy(encoded.keys, query, weights.energy)
        attention = []
        for k in range(weights.branches):
            alpha = energy[:, :, k].masked_fill(~free, -torch.inf).softmax(-1)
            attention.append(alpha)
            if c.eliminate and k + 1 < weights.branches:
                free = free & ~_eliminated(alpha, free, encoded.frames, c.frames)
        return torch.stack(attention, 2)

    def _head_attention(self, encoded: Encoded, query: Tensor) -> Tensor:
        """Energies ``[I, C, heads, N]`` of multi-head attention (DA Sec. 4.4): q . k / sqrt(width) of slices of both.

        Slices differ by one where the number of heads does not divide the width.
        """
        heads = self.config.heads
        pairs = zip(query.tensor_split(heads, -1), encoded.keys[:, :, 0].tensor_split(heads, -1), strict=True)
        return torch.stack([torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5 for q, k in pairs], 2)


def _eliminated(alpha: Tensor, free: Tensor, frames: Tensor | None, count: int) -> Tensor:
    """Regions ``[I, C, N]`` that a branch with attention ``alpha [I, C, N]`` excludes from later branches (DA Eq. 7).

    The best of the ``free`` regions, unless it is the last one; in a clip of ``count`` frames, of every frame.
    """
    if frames is None:
        selected = F.one_hot(alpha.argmax(-1), alpha.shape[-1]).bool()
        return selected & (free.sum(-1, keepdim=True) > 1)
    index = frames.clamp_max(count - 1).unsqueeze(1).expand_as(alpha)
    open_ = torch.where(free, alpha, -torch.ones_like(alpha))
    best = open_.new_full((*alpha.shape[:2], count), -1.0).scatter_reduce(-1, index, open_, "amax")
    left = free.new_zeros((*alpha.shape[:2], count), dtype=torch.long).scatter_add(-1, index, free.long())
    return free & (open_ == best.gather(-1, index)) & (left.gather(-1, index) > 1)


def _energy(branches: int, width: int) -> Tensor:
    """Initial weights of the energies of additive attention."""
    return torch.empty(branches, width).uniform_(-1, 1).div_(width**0.5)


def _given(part: Tensor | None, feature: str, needed: str) -> Tensor:
    """Return a part of the regions; an error if it is missing."""
    if part is None:
        raise ValueError(f"a decoder with {feature} needs {needed}")
    return part
