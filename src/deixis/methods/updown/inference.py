"""Calls of the caption decoder during inference: on NumPy arrays, or in torch behind the same interface.

:mod:`deixis.methods.updown.decode` searches with any of the two. :class:`ArrayDecoder` has the equations of
:class:`~deixis.methods.updown.network.Decoder` on weights that are read from a model folder; it needs no torch.
:class:`TorchDecoder` calls a network during training, on a GPU, and for temporal features of clips.

Sizes in shapes: I images, S sentences of each image, R open sentences of all images, N regions, K branches, V words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from deixis.layers.arrays import (
    Array,
    Weights,
    layer_norm,
    linear,
    lstm_gates,
    named_linear,
    relu,
    softmax,
)
from deixis.layers.padded import RegionArrays
from deixis.methods.updown.config import DecoderConfig

if TYPE_CHECKING:
    from deixis.methods.updown.network import Decoder


class DecoderCalls(Protocol):
    """What decoding calls; ``Any`` are an implementation's own encodings and states."""

    config: DecoderConfig
    backend: str

    def encode(self, regions: RegionArrays) -> Any:
        """Project the regions of several images."""

    def images(self, encoded: Any, rows: Array) -> Any:
        """Select encoded images by index."""

    def start(self, encoded: Any, sentences: int, branches: int) -> Any:
        """State before the first word of ``sentences`` sentences for each image."""

    def states(self, state: Any, rows: Array, parents: Array) -> Any:
        """Select of the images ``rows [i]`` the states of the sentences ``parents [i, S]``."""

    def step(self, encoded: Any, words: Array, state: Any, open_: Array) -> tuple[Any, Array, Array]:
        """Feed one word ``[I, S]`` to the sentences ``open_ [I, S]``.

        Returns the state and, of the open sentences, logits ``[R, K, V]`` (up to a constant of each row) and attention
        ``[R, K, N]``.
        """


# NumPy ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Encoded:
    """Projected regions of a batch of images, shared by all sentences and steps."""

    regions: Array  # [I, N, hidden]      v'
    keys: Array  # [I, N, K, attention]   W_va v', for each branch
    image: Array  # [I, 4 hidden]         part of the attention LSTM's gates that depends on the whole image
    mask: Array  # [I, N]                 True where there is a region
    grid: Array | None = None  # [I, M, hidden]          cells of the feature grid
    grid_keys: Array | None = None  # [I, M, attention]
    grid_mask: Array | None = None  # [I, M]             True where there is a cell
    frames: Array | None = None  # [I, N] frame of each region of a clip


class State(NamedTuple):
    """Recurrent state of every sentence between two words."""

    h1: Array  # [I, S, hidden]      attention LSTM
    c1: Array
    h2: Array  # [I, S, K, hidden]   language LSTM, one recurrence for each branch
    c2: Array


class ArrayDecoder:
    """The decoder on NumPy arrays; ``weights`` have the names of :func:`weight_shapes`."""

    backend = "numpy"

    def __init__(self, config: DecoderConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
        c, w = config, weights
        start = c.hidden if c.language_to_attention else 0
        of_attention = w["attention_lstm.weight_ih"]
        self._from_language = of_attention[:, :start]
        self._from_image = of_attention[:, start : start + c.hidden]
        self._from_word = np.ascontiguousarray(of_attention[:, start + c.hidden :])
        self._attention_bias = w["attention_lstm.bias_ih"] + w["attention_lstm.bias_hh"]
        self._language_bias = w["language_lstm.bias_ih"] + w["language_lstm.bias_hh"]
        from_attended = w["language_lstm.weight_ih"]
        self._attended_h2 = np.concatenate([from_attended[:, : c.hidden], w["language_lstm.weight_hh"]], 1)
        self._by_branches: dict[int, tuple[Array, Array, Array]] = {}
        self._own_grid = "grid_query.weight" in w

    def state_dict(self) -> Weights:
        """Weights by name."""
        return self.weights

    def encode(self, regions: RegionArrays) -> Encoded:
        """Project the regions of several images (POS-SCAN Eq. 9)."""
        c, w = self.config, self.weights
        corners = frames = None
        if c.location or c.frames:
            corners, frames = self._corners(regions)
        joined = self._region_parts(regions.features, corners)
        projected = relu(named_linear(joined, w, "embed_regions"))
        if c.interact:
            projected = self._interact(projected, regions.mask)
        keys = linear(projected, w["key.weight"], w.get("key.bias"))
        keys = keys.reshape(*regions.mask.shape, c.branches, c.attention)
        image = relu(named_linear(self._whole_image(regions), w, "embed_image"))
        gates = linear(image, self._from_image, self._attention_bias)
        encoded = Encoded(projected, keys, gates, regions.mask, frames=frames)
        if not c.grid:
            return encoded
        if regions.grid is None:
            raise ValueError("a decoder with grid attention needs the feature grid")
        cells = relu(named_linear(regions.grid, w, "embed_grid"))
        return replace(encoded, grid=cells, grid_keys=named_linear(cells, w, "grid_key"), grid_mask=regions.grid_mask)

    def _corners(self, regions: RegionArrays) -> tuple[Array, Array | None]:
        """Boxes as fractions; of clips (GVD) fractions of the width, and the frame."""
        c, video = self.config, regions.video
        if not c.frames:
            return regions.boxes, None
        if video is None:
            raise ValueError("a decoder of clips needs regions with frames")
        scaled = regions.boxes.copy()
        scaled[..., 1::2] *= video.aspect[:, None, None]
        frame = video.frames / np.float32(c.frames) if c.see_time else np.zeros(video.frames.shape)
        return np.concatenate([scaled, frame[..., None].astype(np.float32)], -1), video.frames

    def _region_parts(self, features: Array, corners: Array | None) -> Array:
        """Region feature, class similarity and location embedding, joined (GVD, Cyclical App. D)."""
        c, w = self.config, self.weights
        hidden = relu(named_linear(features, w, "fc7")) if c.fc7 else features
        parts = [hidden]
        if c.classes:
            weight = np.maximum(w["classify.weight"], 0) if c.fc7 else w["classify.weight"]
            parts.append(softmax(linear(hidden, weight, w["classify.bias"])))
        if c.location:
            if corners is None:
                raise ValueError("a decoder with a location embedding needs the boxes of the regions")
            parts.append(relu(named_linear(corners, w, "locate")))
        if c.fc7:
            parts = [layer_norm(part) for part in parts]
        return np.concatenate(parts, -1) if len(parts) > 1 else parts[0]

    def _whole_image(self, regions: RegionArrays) -> Array:
        """Feature of the whole image: a given vector, or the mean of the regions or of the cells of the grid."""
        features, mask = regions.features, regions.mask
        if self.config.image == "vector":
            if regions.image_vector is None:
                raise ValueError("a decoder with image 'vector' needs the vectors of the images")
            return regions.image_vector
        if self.config.image == "grid":
            if regions.grid is None:
                raise ValueError("a decoder with image 'grid' needs the feature grid")
            features = regions.grid
            mask = np.ones(features.shape[:2], bool) if regions.grid_mask is None else regions.grid_mask
        weight = mask[..., None].astype(np.float32)
        return (features * weight).sum(1) / np.maximum(weight.sum(1), 1)

    def _interact(self, x: Array, mask: Array) -> Array:
        """Self-attention over the regions (:class:`deixis.layers.self_attention.SelfAttention`)."""
        c, w = self.config, self.weights
        for number in range(c.interact):
            name = f"interact.layers.{number}"
            queries, keys, values = (
                np.array_split(linear(x, w[f"{name}.{part}.weight"]), c.interact_heads, -1)
                for part in ("query", "key", "value")
            )
            found = []
            for query, key, value in zip(queries, keys, values, strict=True):
                energy = query @ key.transpose(0, 2, 1) / np.float32(c.hidden**0.5)
                energy[np.broadcast_to(~mask[:, None], energy.shape)] = np.finfo(np.float32).min
                found.append(softmax(energy) @ value)
            joined = linear(np.concatenate(found, -1), w[f"{name}.output.weight"])
            x = layer_norm(x + joined, w[f"{name}.attention_norm.weight"], w[f"{name}.attention_norm.bias"])
            fed = named_linear(relu(named_linear(x, w, f"{name}.feed")), w, f"{name}.back")
            x = layer_norm(x + fed, w[f"{name}.feed_norm.weight"], w[f"{name}.feed_norm.bias"])
        return x

    def images(self, encoded: Encoded, rows: Array) -> Encoded:
        """Select encoded images by index."""
        parts = {field.name: getattr(encoded, field.name) for field in fields(encoded)}
        return replace(encoded, **{name: part[rows] for name, part in parts.items() if part is not None})

    def start(self, encoded: Encoded, sentences: int, branches: int) -> State:
        """Zero state before the first word."""
        images = len(encoded.image)
        one = np.zeros((images, sentences, self.config.hidden), np.float32)
        each = np.zeros((images, sentences, branches, self.config.hidden), np.float32)
        return State(one, one, each, each)

    def states(self, state: State, rows: Array, parents: Array) -> State:
        """Select of the images ``rows [i]`` the states of the sentences ``parents [i, S]``."""
        index = rows[:, None], parents
        return State(*(part[index] for part in state))

    def step(self, encoded: Encoded, words: Array, state: State, open_: Array) -> tuple[State, Array, Array]:
        """Feed one word to the open sentences; see :meth:`DecoderCalls.step`.

        Attention LSTM: POS-SCAN Eq. 10, DA Eq. 1, Cyclical Eq. 1. Language LSTM: POS-SCAN Eq. 13, DA Eq. 5,
        Cyclical Eq. 3. Vocabulary layer: POS-SCAN Eq. 14.
        """
        c, w = self.config, self.weights
        owner = np.nonzero(open_)[0]  # [R] image of each open sentence, ascending
        old = State(*(part[open_] for part in state))
        branches = state.h2.shape[2]
        previous_weight, current_weight, query_bias = self._weights_of(branches)
        size = len(query_bias)
        previous = linear(old.h1, previous_weight)
        embedded = relu(w["embed.weight"][words[open_]])
        gates = linear(embedded, self._from_word) + encoded.image[owner] + previous[:, -4 * c.hidden :]
        if c.language_to_attention:
            mean = old.h2[:, 0] if branches == 1 else old.h2.mean(1)
            gates += linear(mean, self._from_language)
        h1, c1 = lstm_gates(gates, old.c1)
        current = linear(h1, current_weight)
        query = (previous if c.attend_from == "previous" else current)[:, :size] + query_bias
        attended, alpha = self._attend(encoded, query, np.bincount(owner, minlength=len(encoded.image)), branches)
        gates = linear(np.concatenate([attended, old.h2], -1), self._attended_h2)
        gates += (current[:, -4 * c.hidden :] + self._language_bias)[:, None]
        h2, c2 = lstm_gates(gates, old.c2)
        logits = named_linear(h2, w, "output")
        return State(*(_put(*each, open_) for each in zip((h1, c1, h2, c2), state, strict=True))), logits, alpha

    def _weights_of(self, branches: int) -> tuple[Array, Array, Array]:
        """Weights that h1_{t-1} and h1_t are multiplied with, and the bias of the query."""
        if branches not in self._by_branches:
            c, w = self.config, self.weights
            size = branches * c.attention
            query, bias = w["query.weight"][:size], w["query.bias"][:size]
            if self._own_grid:
                query = np.concatenate([query, w["grid_query.weight"]])
                bias = np.concatenate([bias, w["grid_query.bias"]])
            previous, current = w["attention_lstm.weight_hh"], w["language_lstm.weight_ih"][:, c.hidden :]
            if c.attend_from == "previous":
                previous = np.concatenate([query, previous])
            else:
                current = np.concatenate([query, current])
            self._by_branches[branches] = previous, np.ascontiguousarray(current), bias
        return self._by_branches[branches]

    def _attend(self, encoded: Encoded, query: Array, counts: Array, branches: int) -> tuple[Array, Array]:
        """Attended features ``[R, K, hidden]`` and attention ``[R, K, N]``, image by image.

        POS-SCAN Eq. 11 and 12, DA Eq. 2 to 4, Cyclical Eq. 2. ``counts [I]`` are the open sentences of each image. The
        arrays of one image stay in the cache.
        """
        c = self.config
        attended = np.empty((len(query), branches, c.hidden), np.float32)
        alphas = np.empty((len(query), branches, encoded.mask.shape[1]), np.float32)
        end = 0
        for image, count in enumerate(counts.tolist()):
            rows = slice(end, end + count)
            end += count
            if not count:
                continue
            own = query[rows, : branches * c.attention]
            if c.heads:
                attended[rows, 0], alphas[rows, 0] = self._heads(encoded, image, own)
            else:
                own = own.reshape(count, branches, c.attention)
                alpha = self._branches(encoded, image, own)
                alphas[rows] = alpha
                attended[rows] = (alpha.reshape(-1, alpha.shape[-1]) @ encoded.regions[image]).reshape(
                    count, branches, -1
                )
            if encoded.grid is not None:
                attended[rows] += self._of_grid(encoded, image, query[rows])[:, None]
        return attended, alphas

    def _branches(self, encoded: Encoded, image: int, query: Array) -> Array:
        """Attention ``[r, K, N]`` of K branches; region elimination between them: DA Eq. 7."""
        c, branches = self.config, query.shape[1]
        free = np.broadcast_to(encoded.mask[image], (len(query), encoded.mask.shape[1]))
        frames = None if encoded.frames is None else encoded.frames[image]
        alphas = np.empty((len(query), branches, free.shape[1]), np.float32)
        for k in range(branches):
            mixed = np.tanh(encoded.keys[image, :, k] + query[:, k, None])  # [r, N, attention]
            energy = mixed @ self.weights["energy"][k]
            alphas[:, k] = softmax(np.where(free, energy, -np.inf))
            if c.eliminate and k + 1 < branches:
                free = free & ~eliminated(alphas[:, k], free, frames, c.frames)
        return alphas

    def _heads(self, encoded: Encoded, image: int, query: Array) -> tuple[Array, Array]:
        """Attended features ``[r, hidden]`` and mean attention ``[r, N]`` of multi-head attention (DA Sec. 4.4)."""
        heads, attended = self.config.heads, []
        total: Array = np.zeros((len(query), encoded.mask.shape[1]), np.float32)
        parts = (query, encoded.keys[image, :, 0], encoded.regions[image])
        for q, k, v in zip(*(np.array_split(part, heads, -1) for part in parts), strict=True):
            energy = q @ k.T / np.float32(q.shape[-1] ** 0.5)
            alpha = softmax(np.where(encoded.mask[image], energy, -np.inf).astype(np.float32))
            attended.append(alpha @ v)
            total += alpha
        return np.concatenate(attended, -1), total / np.float32(heads)

    def _of_grid(self, encoded: Encoded, image: int, query: Array) -> Array:
        """Attended cell ``[r, hidden]`` of the feature grid (DA Eq. 4)."""
        assert encoded.grid is not None
        assert encoded.grid_keys is not None
        w, width = self.weights, self.config.attention
        own = query[:, -width:] if self._own_grid else query[:, :width]
        vector = w["grid_energy"][0] if self._own_grid else w["energy"][0]
        energy = np.tanh(encoded.grid_keys[image] + own[:, None]) @ vector
        if encoded.grid_mask is not None:
            energy = np.where(encoded.grid_mask[image], energy, -np.inf).astype(np.float32)
        return softmax(energy) @ encoded.grid[image]


def eliminated(alpha: Array, free: Array, frames: Array | None, count: int) -> Array:
    """Regions ``[r, N]`` that a branch with attention ``alpha [r, N]`` excludes from later branches (DA Eq. 7).

    The best of the ``free`` regions, unless it is the last one; in a clip of ``count`` frames, of every frame.
    ``frames [N]`` are those of the regions.
    """
    taken = np.zeros(alpha.shape, bool)
    if frames is None:
        taken[np.arange(len(alpha)), alpha.argmax(-1)] = True
        return taken & (free.sum(-1, keepdims=True) > 1)
    numbers = np.minimum(frames, count - 1)
    for frame in np.unique(numbers):
        inside = numbers == frame
        some, left = np.where(free[:, inside], alpha[:, inside], -1.0), free[:, inside]
        best = left & (some == some.max(-1, keepdims=True))
        taken[:, inside] = best & (left.sum(-1, keepdims=True) > 1)
    return taken


def _put(new: Array, old: Array, open_: Array) -> Array:
    """New values of the open sentences; those of finished sentences are not used again."""
    if open_.all():
        return new.reshape(old.shape)
    out = np.zeros_like(old)
    out[open_] = new
    return out


def weight_shapes(c: DecoderConfig) -> Mapping[str, tuple[int, ...]]:
    """Names and shapes of the weights of a decoder without temporal features."""
    from_language = c.hidden if c.language_to_attention else 0
    shapes: dict[str, tuple[int, ...]] = {
        "embed.weight": (c.vocabulary, c.words),
        **_layer("embed_regions", (c.fc7 or c.features) + c.classes + c.location, c.hidden),
        **_layer("embed_image", c.image_width, c.hidden),
        **_lstm("attention_lstm", from_language + c.hidden + c.words, c.hidden),
        **_lstm("language_lstm", 2 * c.hidden, c.hidden),
        **_layer("key", c.hidden, c.branches * c.attention, bias=not c.heads),
        **_layer("query", c.hidden, c.branches * c.attention),
        **_layer("output", c.hidden, c.vocabulary),
    }
    if not c.heads:
        shapes["energy"] = (c.branches, c.attention)
    if c.fc7:
        shapes |= _layer("fc7", c.features, c.fc7)
    if c.classes:
        shapes |= _layer("classify", c.fc7 or c.features, c.classes)
    if c.location:
        shapes |= _layer("locate", 5 if c.frames else 4, c.location)
    for number in range(c.interact):
        name = f"interact.layers.{number}"
        for part in ("query", "key", "value", "output"):
            shapes |= _layer(f"{name}.{part}", c.hidden, c.hidden, bias=False)
        shapes |= _layer(f"{name}.feed", c.hidden, c.hidden // 2) | _layer(f"{name}.back", c.hidden // 2, c.hidden)
        for part in ("attention_norm", "feed_norm"):
            shapes |= {f"{name}.{part}.weight": (c.hidden,), f"{name}.{part}.bias": (c.hidden,)}
    if c.grid:
        shapes |= _layer("embed_grid", c.grid, c.hidden) | _layer("grid_key", c.hidden, c.attention)
        if c.grid_attention == "own" or c.heads:
            shapes |= {**_layer("grid_query", c.hidden, c.attention), "grid_energy": (1, c.attention)}
    return shapes


def _layer(name: str, inputs: int, outputs: int, bias: bool = True) -> dict[str, tuple[int, ...]]:
    weight: dict[str, tuple[int, ...]] = {f"{name}.weight": (outputs, inputs)}
    return {**weight, f"{name}.bias": (outputs,)} if bias else weight


def _lstm(name: str, inputs: int, hidden: int) -> dict[str, tuple[int, ...]]:
    size = 4 * hidden
    return {
        f"{name}.weight_ih": (size, inputs),
        f"{name}.weight_hh": (size, hidden),
        f"{name}.bias_ih": (size,),
        f"{name}.bias_hh": (size,),
    }


# torch ---------------------------------------------------------------------------------------------------------------


class TorchDecoder:
    """A network of torch behind the same interface."""

    backend = "torch"

    def __init__(self, network: Decoder) -> None:
        self.network, self.config = network, network.config

    def encode(self, regions: RegionArrays) -> Any:
        """Project the regions of several images."""
        import torch

        from deixis.device import device_of, to_device
        from deixis.layers.padding import as_tensors

        with torch.no_grad():
            return self.network.encode_regions(to_device(as_tensors(regions), device_of(self.network)))

    def images(self, encoded: Any, rows: Array) -> Any:
        """Select encoded images by index."""
        return encoded.rows(self._tensor(rows))

    def start(self, encoded: Any, sentences: int, branches: int) -> Any:
        """Zero state before the first word, with the weights that every step takes."""
        import torch

        with torch.no_grad():
            state = self.network.initial_state(encoded, sentences, branches)
            return state, self.network.step_weights(branches)

    def states(self, state: Any, rows: Array, parents: Array) -> Any:
        """Select of the images ``rows [i]`` the states of the sentences ``parents [i, S]``."""
        values, weights = state
        index = self._tensor(rows).unsqueeze(1), self._tensor(parents)
        return type(values)(*(part[index] for part in vars(values).values())), weights

    def step(self, encoded: Any, words: Array, state: Any, open_: Array) -> tuple[Any, Array, Array]:
        """Feed one word to all sentences; see :meth:`DecoderCalls.step`."""
        import torch

        values, weights = state
        with torch.no_grad():
            values, logprobs, alpha = self.network.step(encoded, self._tensor(words), values, weights)
            some = self._tensor(open_)
            logits, attention = logprobs[some].float().cpu().numpy(), alpha[some].float().cpu().numpy()
        return (values, weights), logits, attention

    def _tensor(self, values: Array) -> Any:
        import torch

        from deixis.device import device_of

        return torch.from_numpy(values).to(device_of(self.network))
