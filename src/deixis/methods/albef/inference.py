"""Calls of the fusion model during inference: on NumPy arrays, or in torch behind the same interface.

:class:`ArrayAlbef` has the equations of :class:`~deixis.methods.albef.network.AlbefNet` and
:mod:`deixis.methods.albef.gradcam` on weights that are read from a model folder; it needs no torch. The word pieces of
all texts are rows of one table without padding, and the states of a text before the image is read are kept for the next
photographs.

Sizes in shapes: B texts, W word pieces of all texts, T word pieces of one text, N tokens of the image ([CLS] first).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from deixis.layers.arrays import (
    Array,
    Weights,
    gelu,
    gelu_gate,
    layer_norm,
    linear,
    logsumexp,
    named_linear,
    resize,
    softmax,
)
from deixis.methods.albef.config import SHARPNESS, AlbefConfig, Pieces

if TYPE_CHECKING:
    from deixis.methods.albef.network import AlbefNet

TEXT_EPS, IMAGE_EPS = 1e-12, 1e-6
"""Epsilon of the layer norms of BERT and of the image encoder."""

KEPT = 1 << 22
"""Numbers in the states of texts that are kept (16 MB)."""


class AlbefCalls(Protocol):
    """What the grounder calls; ``Any`` is an implementation's own encoding of one image."""

    config: AlbefConfig
    backend: str

    def encode(self, images: Array) -> list[Any]:
        """Encode images ``[I, 3, height, width]``, or grids ``[I, rows, columns, features]``."""

    def pair_scores(self, image: Any, texts: Pieces) -> Array:
        """Pair scores ``[B]``; see :func:`deixis.methods.albef.network.pair_scores`."""

    def match_logits(self, image: Any, texts: Pieces) -> Array:
        """Logits ``[B, 2]`` of no match and match (AMC Eq. 2)."""

    def maps(self, image: Any, texts: Pieces) -> Array:
        """Heat maps ``[B, rows, columns]``, by the model's ``map_source``."""

    def match_and_map(self, image: Any, texts: Pieces) -> tuple[Array, Array]:
        """Match logits and heat maps."""


# NumPy ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EncodedImage:
    """One encoded image: computed once, used by any number of texts."""

    keys: tuple[Array, ...]  # of each fusion layer [heads, N, width / heads]
    values: tuple[Array, ...]
    rows: int  # of the grid of patches or cells
    columns: int


@dataclass(frozen=True, eq=False)
class Table:
    """Word pieces of B texts as rows: shorter texts first; ``order [B]`` are their places among the given texts."""

    order: Array
    lengths: Array  # [B], ascending
    starts: Array  # [B] first row of each text
    groups: tuple[tuple[int, int, int], ...]  # first row, number and length of texts of equal length
    inner: Array  # [W] True at the word pieces of the text itself: after [CLS] and before [SEP]

    @classmethod
    def of(cls, texts: Pieces) -> Table:
        """Build the table of some texts."""
        given = np.array([len(row) for row in texts.ids])
        order = np.argsort(given, kind="stable")
        lengths = given[order]
        starts = np.cumsum(lengths) - lengths
        inner = np.ones(int(lengths.sum()), bool)
        inner[starts] = False
        if texts.sep:
            inner[starts + lengths - 1] = False
        sizes, counts = np.unique(lengths, return_counts=True)
        first = np.cumsum(sizes * counts) - sizes * counts
        groups = zip(first.tolist(), counts.tolist(), sizes.tolist(), strict=True)
        return cls(order, lengths, starts, tuple(groups), inner)

    def means(self, values: Array, counted: Array, divisor: Array) -> Array:
        """Sums ``[B, ...]`` over the ``counted [W]`` of ``values [W, ...]``, divided, in the order of the texts."""
        some = np.where(counted.reshape(-1, *[1] * (values.ndim - 1)), values, 0)
        sums = np.add.reduceat(some, self.starts, 0)
        out = np.empty_like(sums)
        out[self.order] = sums / divisor.reshape(-1, *[1] * (values.ndim - 1)).astype(np.float32)
        return out


@dataclass(frozen=True, eq=False)
class _Pass:
    """What the derivative of a layer needs of its pass."""

    number: int
    weights: Array  # [heads, W, N] of cross-attention
    queries: Array  # [W, hidden] of cross-attention
    cross_norm: tuple[Array, Array]  # normalised rows and 1 / deviation
    up: Array  # [W, feed] before GELU
    norm: tuple[Array, Array]
    own: tuple[list[Array], Array, Array, Array, tuple[Array, Array]] | None  # self-attention, for later layers


class ArrayAlbef:
    """The fusion model on NumPy arrays; ``weights`` have the names of :func:`weight_shapes`."""

    backend = "numpy"

    def __init__(self, config: AlbefConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
        self._texts: OrderedDict[tuple[int, ...], tuple[Array, Array]] = OrderedDict()  # ids -> states, queries
        self._kept = 0

    def state_dict(self) -> Weights:
        """Weights by name."""
        return self.weights

    # Images

    def encode(self, images: Array) -> list[EncodedImage]:
        """Encode images ``[I, 3, height, width]``, or grids ``[I, rows, columns, features]``."""
        c, w = self.config, self.weights
        if c.patch:
            rows, columns = (length // c.patch for length in images.shape[2:])
            cut = images[:, :, : rows * c.patch, : columns * c.patch]
            patches = cut.reshape(len(images), 3, rows, c.patch, columns, c.patch).transpose(0, 2, 4, 1, 3, 5)
            inputs = patches.reshape(len(images), rows * columns, -1)
        else:
            rows, columns = images.shape[1:3]
            inputs = images.reshape(len(images), rows * columns, -1)
        tokens = linear(inputs, w["image.patches.weight"].reshape(c.image_hidden, -1), w["image.patches.bias"])
        whole = np.broadcast_to(w["image.whole"], (len(tokens), 1, c.image_hidden))
        x = np.concatenate([whole, tokens], 1) + self._positions(rows, columns)
        for number in range(c.image_layers):
            x = self._block(x, f"image.blocks.{number}")
        x = layer_norm(x, w["image.norm.weight"], w["image.norm.bias"], IMAGE_EPS)
        pairs = [
            [_heads(named_linear(x, w, f"fusion.{layer}.cross_attention.{part}"), c.heads) for part in ("key", "value")]
            for layer in range(c.fusion_layers)
        ]
        return [
            EncodedImage(tuple(k[i] for k, _ in pairs), tuple(v[i] for _, v in pairs), rows, columns)
            for i in range(len(images))
        ]

    def _positions(self, rows: int, columns: int) -> Array:
        """Position embeddings ``[1, N, width]``, bicubic for another grid than the one of training."""
        positions, side = self.weights["image.positions"], self.config.side
        if (rows, columns) == (side, side):
            return positions
        cells = resize(positions[0, 1:].reshape(side, side, -1), rows, columns, "bicubic")
        return np.concatenate([positions[:, :1], cells.reshape(1, rows * columns, -1)], 1)

    def _block(self, x: Array, name: str) -> Array:
        """Pre-norm transformer block of the image encoder."""
        c, w = self.config, self.weights
        normed = layer_norm(x, w[f"{name}.norm1.weight"], w[f"{name}.norm1.bias"], IMAGE_EPS)
        qkv = named_linear(normed, w, f"{name}.qkv")
        query, key, value = (_heads(part, c.image_heads) for part in np.split(qkv, 3, -1))  # [I, heads, N, width]
        alpha = softmax(query @ key.swapaxes(-1, -2) / np.float32(query.shape[-1] ** 0.5))
        x = x + named_linear(_join(alpha @ value), w, f"{name}.out")
        normed = layer_norm(x, w[f"{name}.norm2.weight"], w[f"{name}.norm2.bias"], IMAGE_EPS)
        return x + named_linear(gelu(named_linear(normed, w, f"{name}.up")), w, f"{name}.down")

    # Texts

    def _read(self, texts: Pieces, table: Table) -> tuple[Array, Array]:
        """States ``[W, hidden]`` before the first cross-attention, and its queries ``[W, hidden]``."""
        ids = [tuple(texts.ids[i]) for i in table.order]
        missing = sorted({one for one in ids if one not in self._texts}, key=len)
        found = {one: self._texts[one] for one in ids if one in self._texts}
        if missing:
            some = Pieces(missing, texts.sep)
            own = Table.of(some)
            states = self._text_states(missing, own)
            queries = named_linear(states, self.weights, "fusion.0.cross_attention.query")
            for one, start, length in zip(missing, own.starts, own.lengths, strict=True):
                found[one] = states[start : start + length], queries[start : start + length]
        for one in ids:
            if one in self._texts:
                self._texts.move_to_end(one)
            else:
                self._keep(one, found[one])
        return np.concatenate([found[one][0] for one in ids]), np.concatenate([found[one][1] for one in ids])

    def _keep(self, ids: tuple[int, ...], states: tuple[Array, Array]) -> None:
        """Remember the states of a text; the texts that were not used for the longest time are forgotten."""
        own = states[0].copy(), states[1].copy()
        self._texts[ids] = own
        self._kept += own[0].size + own[1].size
        while self._kept > KEPT and len(self._texts) > 1:
            _, old = self._texts.popitem(last=False)
            self._kept -= old[0].size + old[1].size

    def _text_states(self, ids: Sequence[tuple[int, ...]], table: Table) -> Array:
        c, w = self.config, self.weights
        steps = np.concatenate([np.arange(len(row)) for row in ids])
        position = w["text.positions.weight"][steps] + w["text.kinds.weight"][0]
        x = w["text.words.weight"][np.concatenate(ids)] + position
        x = layer_norm(x, w["text.norm.weight"], w["text.norm.bias"], TEXT_EPS)
        for number in range(c.text_layers):
            x = self._self_attention(x, table, f"text.layers.{number}.attention")
            x = self._feed_forward(x, f"text.layers.{number}")
        return self._self_attention(x, table, "fusion.0.attention")

    def _self_attention(self, x: Array, table: Table, name: str) -> Array:
        """Self-attention of every text over its own word pieces."""
        w = self.weights
        query, key, value = (named_linear(x, w, f"{name}.{part}") for part in ("query", "key", "value"))
        attended = np.empty_like(x)
        for first, count, length in table.groups:
            rows = slice(first, first + count * length)
            q, k, v = (_texts(part[rows], count, self.config.heads) for part in (query, key, value))
            alpha = softmax(q @ k.swapaxes(-1, -2) / np.float32(q.shape[-1] ** 0.5))
            attended[rows] = _join(alpha @ v).reshape(count * length, -1)
        return self._norm(x + named_linear(attended, w, f"{name}.out"), f"{name}.norm")

    def _feed_forward(self, x: Array, name: str) -> Array:
        w = self.weights
        return self._norm(x + named_linear(gelu(named_linear(x, w, f"{name}.up")), w, f"{name}.down"), f"{name}.norm")

    def _norm(self, x: Array, name: str) -> Array:
        return layer_norm(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], TEXT_EPS)

    # Fusion

    def _attention(self, queries: Array, keys: Array) -> Array:
        """Cross-attention weights ``[heads, W, N]`` of queries ``[W, hidden]`` (AMC Eq. 4)."""
        query = _heads(queries, self.config.heads)
        return softmax(query @ keys.swapaxes(-1, -2) / np.float32(query.shape[-1] ** 0.5))

    def _cross(self, x: Array, weights: Array, values: Array, number: int) -> Array:
        name = f"fusion.{number}.cross_attention"
        attended = named_linear(_join(weights @ values), self.weights, f"{name}.out")
        return self._norm(x + attended, f"{name}.norm")

    def _fuse(self, image: EncodedImage, table: Table, x: Array, weights: Array) -> Array:
        """States ``[W, hidden]`` after the fusion encoder, from the cross-attention weights of its first layer."""
        for number in range(self.config.fusion_layers):
            if number:
                x = self._self_attention(x, table, f"fusion.{number}.attention")
                queries = named_linear(x, self.weights, f"fusion.{number}.cross_attention.query")
                weights = self._attention(queries, image.keys[number])
            x = self._cross(x, weights, image.values[number], number)
            x = self._feed_forward(x, f"fusion.{number}")
        return x

    def _match(self, x: Array, table: Table) -> Array:
        logits = named_linear(x[table.starts], self.weights, "match")
        out = np.empty_like(logits)
        out[table.order] = logits
        return out

    def pair_scores(self, image: EncodedImage, texts: Pieces) -> Array:
        """Pair scores ``[B]``; see :func:`deixis.methods.albef.network.pair_scores`."""
        table = Table.of(texts)
        _, queries = self._read(texts, table)
        keys = _join(image.keys[0][:, 1:])  # [cells, hidden]
        heads = self.config.heads
        scale = heads * (queries.shape[-1] / heads) ** 0.5
        maximum = logsumexp(linear(queries, keys) * np.float32(SHARPNESS / scale)) / np.float32(SHARPNESS)  # [W]
        return table.means(maximum, table.inner, np.maximum(np.add.reduceat(table.inner, table.starts, dtype=int), 1))

    def match_logits(self, image: EncodedImage, texts: Pieces) -> Array:
        """Logits ``[B, 2]`` of no match and match (AMC Eq. 2)."""
        table = Table.of(texts)
        states, queries = self._read(texts, table)
        return self._match(self._fuse(image, table, states, self._attention(queries, image.keys[0])), table)

    def maps(self, image: EncodedImage, texts: Pieces) -> Array:
        """Heat maps ``[B, rows, columns]``; attention maps need no computation after the first fusion layer."""
        if self.config.map_source == "gradcam":
            return self._grad_cam(image, texts)[1]
        table = Table.of(texts)
        _, queries = self._read(texts, table)
        return self._attention_maps(self._attention(queries, image.keys[0]), table, image)

    def match_and_map(self, image: EncodedImage, texts: Pieces) -> tuple[Array, Array]:
        """Match logits and heat maps."""
        if self.config.map_source == "gradcam":
            return self._grad_cam(image, texts)
        table = Table.of(texts)
        states, queries = self._read(texts, table)
        weights = self._attention(queries, image.keys[0])
        maps = self._attention_maps(weights, table, image)
        return self._match(self._fuse(image, table, states, weights), table), maps

    def _attention_maps(self, weights: Array, table: Table, image: EncodedImage) -> Array:
        """Maps of :func:`deixis.methods.albef.gradcam.attention_maps`."""
        each = weights.mean(0)[:, 1:]  # [W, cells]
        divisor = np.maximum(np.add.reduceat(table.inner, table.starts, dtype=int), 1)
        mean = table.means(each, table.inner, divisor).reshape(-1, image.rows, image.columns)
        padded = np.pad(mean, ((0, 0), (1, 1), (1, 1)))
        window = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2)).sum((-1, -2))
        real = np.pad(np.ones((image.rows, image.columns), np.float32), 1)
        smooth = window / np.lib.stride_tricks.sliding_window_view(real, (3, 3)).sum((-1, -2))
        return np.maximum(smooth - smooth.mean((1, 2), keepdims=True), 0)

    # Grad-CAM: the derivative of the match score, written out

    def _grad_cam(self, image: EncodedImage, texts: Pieces) -> tuple[Array, Array]:
        """Match logits and Grad-CAM maps (AMC Eq. 4 to 6); see :func:`deixis.methods.albef.gradcam.grad_cam`."""
        c, w, table = self.config, self.weights, Table.of(texts)
        x, queries = self._read(texts, table)
        passes: list[_Pass] = []
        for number in range(c.fusion_layers):
            own = None
            if number:
                x, own = self._self_attention_kept(x, table, f"fusion.{number}.attention")
                queries = named_linear(x, w, f"fusion.{number}.cross_attention.query")
            name = f"fusion.{number}"
            weights = self._attention(queries, image.keys[number])
            attended = named_linear(_join(weights @ image.values[number]), w, f"{name}.cross_attention.out")
            x, cross_norm = self._norm_kept(x + attended, f"{name}.cross_attention.norm")
            up = named_linear(x, w, f"{name}.up")
            x, norm = self._norm_kept(x + named_linear(gelu(up.copy()), w, f"{name}.down"), f"{name}.norm")
            passes.append(_Pass(number, weights, queries, cross_norm, up, norm, own))
        logits = self._match(x, table)
        slope = np.zeros_like(x)
        slope[table.starts] = w["match.weight"][1]
        heat = None
        for one in reversed(passes[c.map_layer :]):
            slope, of_weights = self._below_cross(slope, one, image)
            if one.number == c.map_layer:
                heat = (one.weights * np.maximum(of_weights, 0)).mean(0)[:, 1:]  # Eq. 6, without the image's [CLS]
                break
            slope = self._below_self(slope, one, image, of_weights, table)
        assert heat is not None
        # as the published code: the mean over all places of the longest text, where padding counts as 0
        most = np.full(len(texts), table.lengths.max())
        maps = table.means(heat, np.ones(len(heat), bool), most)
        return logits, maps.reshape(-1, image.rows, image.columns)

    def _below_cross(self, slope: Array, one: _Pass, image: EncodedImage) -> tuple[Array, Array]:
        """Derivatives by the state before cross-attention (of the residual) and by the weights ``[heads, W, N]``."""
        w, name = self.weights, f"fusion.{one.number}"
        slope = _below_norm(slope * w[f"{name}.norm.weight"], one.norm)
        inner = slope @ w[f"{name}.down.weight"]
        density = np.exp(-0.5 * one.up * one.up) * np.float32(1 / np.sqrt(2 * np.pi))
        inner *= gelu_gate(one.up) + one.up * density
        slope = slope + inner @ w[f"{name}.up.weight"]
        slope = _below_norm(slope * w[f"{name}.cross_attention.norm.weight"], one.cross_norm)
        attended = _heads(slope @ w[f"{name}.cross_attention.out.weight"], self.config.heads)
        return slope, attended @ image.values[one.number].swapaxes(-1, -2)

    def _below_self(self, slope: Array, one: _Pass, image: EncodedImage, of_weights: Array, table: Table) -> Array:
        """Derivative by the input of a fusion layer, from those by the state and the weights of its cross-attention."""
        w, name = self.weights, f"fusion.{one.number}"
        keys = image.keys[one.number]
        scale = np.float32(keys.shape[-1] ** 0.5)
        queries = _join(_below_softmax(of_weights, one.weights) @ keys / scale)
        slope = slope + queries @ w[f"{name}.cross_attention.query.weight"]
        assert one.own is not None
        alphas, query, key, value, norm = one.own
        slope = _below_norm(slope * w[f"{name}.attention.norm.weight"], norm)
        attended = slope @ w[f"{name}.attention.out.weight"]
        below = [np.empty_like(slope) for _ in range(3)]
        for alpha, (first, count, length) in zip(alphas, table.groups, strict=True):
            rows = slice(first, first + count * length)
            q, k, v, d = (_texts(part[rows], count, self.config.heads) for part in (query, key, value, attended))
            scores = _below_softmax(d @ v.swapaxes(-1, -2), alpha) / scale
            for into, part in zip(
                below, (scores @ k, scores.swapaxes(-1, -2) @ q, alpha.swapaxes(-1, -2) @ d), strict=True
            ):
                into[rows] = _join(part).reshape(count * length, -1)
        for part, name_of in zip(below, ("query", "key", "value"), strict=True):
            slope = slope + part @ w[f"{name}.attention.{name_of}.weight"]
        return slope

    def _self_attention_kept(
        self, x: Array, table: Table, name: str
    ) -> tuple[Array, tuple[list[Array], Array, Array, Array, tuple[Array, Array]]]:
        """Self-attention, and what its derivative needs."""
        w = self.weights
        query, key, value = (named_linear(x, w, f"{name}.{part}") for part in ("query", "key", "value"))
        attended, alphas = np.empty_like(x), []
        for first, count, length in table.groups:
            rows = slice(first, first + count * length)
            q, k, v = (_texts(part[rows], count, self.config.heads) for part in (query, key, value))
            alphas.append(softmax(q @ k.swapaxes(-1, -2) / np.float32(q.shape[-1] ** 0.5)))
            attended[rows] = _join(alphas[-1] @ v).reshape(count * length, -1)
        out, norm = self._norm_kept(x + named_linear(attended, w, f"{name}.out"), f"{name}.norm")
        return out, (alphas, query, key, value, norm)

    def _norm_kept(self, x: Array, name: str) -> tuple[Array, tuple[Array, Array]]:
        """Layer norm; also the normalised rows and 1 / deviation."""
        centred = x - x.mean(-1, keepdims=True)
        inverse = 1 / np.sqrt(np.mean(centred * centred, -1, keepdims=True) + np.float32(TEXT_EPS))
        centred *= inverse
        return centred * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"], (centred, inverse)


def _below_norm(slope: Array, norm: tuple[Array, Array]) -> Array:
    """Derivative by the input of a layer norm, from that by its normalised rows."""
    normalised, inverse = norm
    mean = slope.mean(-1, keepdims=True)
    along = (slope * normalised).mean(-1, keepdims=True)
    return (slope - mean - normalised * along) * inverse


def _below_softmax(slope: Array, weights: Array) -> Array:
    """Derivative by the scores of a softmax, from that by its weights."""
    return weights * (slope - (slope * weights).sum(-1, keepdims=True))


def _heads(x: Array, heads: int) -> Array:
    """``[..., N, width]`` to ``[..., heads, N, width / heads]``."""
    return np.ascontiguousarray(x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3))


def _join(x: Array) -> Array:
    """``[..., heads, N, width / heads]`` to ``[..., N, width]``."""
    joined = x.swapaxes(-2, -3)
    return joined.reshape(*joined.shape[:-2], -1)


def _texts(x: Array, count: int, heads: int) -> Array:
    """Rows ``[count * T, width]`` of texts to ``[count, heads, T, width / heads]``."""
    return _heads(x.reshape(count, -1, x.shape[-1]), heads)


def weight_shapes(c: AlbefConfig) -> Mapping[str, tuple[int, ...]]:
    """Names and shapes of the weights of a fusion model."""
    width = c.image_hidden
    shapes: dict[str, tuple[int, ...]] = {
        "image.patches.weight": (width, 3, c.patch, c.patch) if c.patch else (width, c.features),
        "image.patches.bias": (width,),
        "image.whole": (1, 1, width),
        "image.positions": (1, 1 + c.side**2, width),
        **_norm("image.norm", width),
        "text.words.weight": (c.vocabulary, c.hidden),
        "text.positions.weight": (c.positions, c.hidden),
        "text.kinds.weight": (2, c.hidden),
        **_norm("text.norm", c.hidden),
        **_layer("project_image", width, c.shared),
        **_layer("project_text", c.hidden, c.shared),
        **_layer("match", c.hidden, 2),
        "temperature": (),
    }
    for number in range(c.image_layers):
        name = f"image.blocks.{number}"
        shapes |= _norm(f"{name}.norm1", width) | _norm(f"{name}.norm2", width)
        shapes |= _layer(f"{name}.qkv", width, 3 * width) | _layer(f"{name}.out", width, width)
        shapes |= _layer(f"{name}.up", width, c.image_feed) | _layer(f"{name}.down", c.image_feed, width)
    for number in range(c.text_layers):
        shapes |= _bert_layer(c, f"text.layers.{number}")
    for number in range(c.fusion_layers):
        shapes |= _bert_layer(c, f"fusion.{number}") | _attention(f"fusion.{number}.cross_attention", c.hidden, width)
    if c.word_head:
        shapes |= {**_layer("words.dense", c.hidden, c.hidden), **_norm("words.norm", c.hidden)}
        shapes["words.bias"] = (c.vocabulary,)
    return shapes


def _bert_layer(c: AlbefConfig, name: str) -> dict[str, tuple[int, ...]]:
    up, down = _layer(f"{name}.up", c.hidden, c.feed), _layer(f"{name}.down", c.feed, c.hidden)
    return _attention(f"{name}.attention", c.hidden, c.hidden) | up | down | _norm(f"{name}.norm", c.hidden)


def _attention(name: str, width: int, key_width: int) -> dict[str, tuple[int, ...]]:
    shapes = _layer(f"{name}.query", width, width) | _layer(f"{name}.out", width, width) | _norm(f"{name}.norm", width)
    return shapes | _layer(f"{name}.key", key_width, width) | _layer(f"{name}.value", key_width, width)


def _layer(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


# torch ---------------------------------------------------------------------------------------------------------------


class TorchAlbef:
    """A network of torch behind the same interface."""

    backend = "torch"

    def __init__(self, network: AlbefNet) -> None:
        self.network, self.config = network, network.config

    def encode(self, images: Array) -> list[Any]:
        """Encode images in one pass."""
        import torch

        from deixis.device import device_of

        inputs = torch.from_numpy(images).to(device_of(self.network))
        with torch.no_grad():
            encoded = self.network.encode(inputs)
            return [encoded.select(torch.tensor([i]).to(inputs.device)) for i in range(len(images))]

    def pair_scores(self, image: Any, texts: Pieces) -> Array:
        """Pair scores ``[B]``."""
        import torch

        from deixis.methods.albef.network import pair_scores

        with torch.no_grad():
            padded = self.texts(texts)
            found = pair_scores(self.network, image, padded, self.network.encode_text(padded))[0]
            return _array(found)

    def match_logits(self, image: Any, texts: Pieces) -> Array:
        """Match logits ``[B, 2]``."""
        import torch

        with torch.no_grad():
            padded = self.texts(texts)
            fused = self.network.fuse(self.network.encode_text(padded), padded, image)
            return _array(self.network.match_logits(fused))

    def maps(self, image: Any, texts: Pieces) -> Array:
        """Heat maps ``[B, rows, columns]``."""
        import torch

        from deixis.methods.albef.gradcam import heat_maps

        with torch.no_grad():
            padded = self.texts(texts)
            return _array(heat_maps(self.network, image, padded, self.network.encode_text(padded)))

    def match_and_map(self, image: Any, texts: Pieces) -> tuple[Array, Array]:
        """Match logits and heat maps."""
        import torch

        from deixis.methods.albef.gradcam import match_and_map

        with torch.no_grad():
            found = match_and_map(self.network, image, self.texts(texts))
            return _array(found.logits), _array(found.maps)

    def texts(self, texts: Pieces) -> Any:
        """Padded texts on the device of the network; what stands in the padding is not read."""
        from deixis.device import device_of, to_device
        from deixis.methods.albef.network import pad_texts

        return to_device(pad_texts(texts.ids, 0, sep=texts.sep), device_of(self.network))


def _array(values: Any) -> Array:
    return values.float().cpu().numpy()
