"""The decoder in NumPy: one image, one caption, one word at a time, written from the equations."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from deixis.methods.updown.network import DecoderConfig

Array = npt.NDArray[np.float64]
Weights = Mapping[str, Array]


def softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max())
    return shifted / shifted.sum()


def layer_norm(x: Array) -> Array:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def linear(w: Weights, name: str, x: Array) -> Array:
    y = w[f"{name}.weight"] @ x
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def lstm(w: Weights, name: str, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    gates = w[f"{name}.weight_ih"] @ x + w[f"{name}.bias_ih"] + w[f"{name}.weight_hh"] @ h + w[f"{name}.bias_hh"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def class_similarity(c: DecoderConfig, w: Weights, feature: Array) -> Array:
    """M_s of one region: softmax(ReLU(W_c) ReLU(W_7 x + b_7) + b_c), or softmax(W_c x + b_c) without fc7."""
    if not c.fc7:
        return softmax(linear(w, "classify", feature))
    return softmax(relu(w["classify.weight"]) @ relu(linear(w, "fc7", feature)) + w["classify.bias"])


def encode_region(c: DecoderConfig, w: Weights, feature: Array, box: Array) -> Array:
    """v' of one region, before self-attention."""
    parts = [relu(linear(w, "fc7", feature)) if c.fc7 else feature]
    if c.classes:
        parts.append(class_similarity(c, w, feature))
    if c.location:
        parts.append(relu(linear(w, "locate", box)))
    if c.fc7:
        parts = [layer_norm(part) for part in parts]
    return relu(linear(w, "embed_regions", np.concatenate(parts)))


def self_attention(w: Weights, layer: str, regions: Array, heads: int) -> Array:
    """One layer over the regions ``[N, hidden]`` of one image."""
    width = regions.shape[1]
    q, k, v = (regions @ w[f"{layer}.{name}.weight"].T for name in ("query", "key", "value"))
    sizes = [width // heads + (head < width % heads) for head in range(heads)]
    starts = np.cumsum([0, *sizes])
    found = np.zeros_like(regions)
    for start, end in itertools.pairwise(starts):
        for n in range(len(regions)):
            alpha = softmax(k[:, start:end] @ q[n, start:end] / np.sqrt(width))
            found[n, start:end] = alpha @ v[:, start:end]
    x = regions + found @ w[f"{layer}.output.weight"].T
    x = np.stack([norm(w, f"{layer}.attention_norm", row) for row in x])
    fed = [row + linear(w, f"{layer}.back", relu(linear(w, f"{layer}.feed", row))) for row in x]
    return np.stack([norm(w, f"{layer}.feed_norm", row) for row in fed])


def norm(w: Weights, name: str, x: Array) -> Array:
    return layer_norm(x) * w[f"{name}.weight"] + w[f"{name}.bias"]


def additive(w: Weights, keys: Array, query: Array, energy: Array) -> Array:
    """Energies ``[N]``: w . tanh(key_n + query)."""
    return np.array([energy @ np.tanh(key + query) for key in keys])


def attend(c: DecoderConfig, w: Weights, regions: Array, h1: Array) -> list[Array]:
    """Attention of every branch (DA Eq. 2, 7), or of every head."""
    keys = np.stack([linear(w, "key", region) for region in regions])
    query = linear(w, "query", h1)
    if c.heads:
        slices = zip(np.array_split(keys, c.heads, 1), np.array_split(query, c.heads), strict=True)
        return [softmax(k @ q / np.sqrt(len(q))) for k, q in slices]
    found: list[Array] = []
    taken: set[int] = set()
    for branch in range(c.branches):
        part = slice(branch * c.attention, (branch + 1) * c.attention)
        z = additive(w, keys[:, part], query[part], w["energy"][branch])
        z[list(taken)] = -np.inf
        found.append(softmax(z))
        if c.eliminate and len(taken) + 1 < len(regions):
            taken.add(int(found[-1].argmax()))
    return found


def attended_features(c: DecoderConfig, w: Weights, regions: Array, grid: Array | None, h1: Array) -> list[Array]:
    """z_t of every branch (DA Eq. 3, 4)."""
    alphas = attend(c, w, regions, h1)
    if c.heads:
        slices = zip(alphas, np.array_split(regions, c.heads, 1), strict=True)
        z = [np.concatenate([alpha @ value for alpha, value in slices])]
    else:
        z = [alpha @ regions for alpha in alphas]
    if not c.grid or grid is None:
        return z
    cells = np.stack([relu(linear(w, "embed_grid", cell)) for cell in grid])
    keys = np.stack([linear(w, "grid_key", cell) for cell in cells])
    if c.grid_attention == "own" or c.heads:
        query, energy = linear(w, "grid_query", h1), w["grid_energy"][0]
    else:
        query, energy = linear(w, "query", h1)[: c.attention], w["energy"][0]
    on_grid = softmax(additive(w, keys, query, energy)) @ cells
    return [each + on_grid for each in z]


def run(
    c: DecoderConfig,
    w: Weights,
    features: Array,
    boxes: Array,
    words: Sequence[int],
    grid: Array | None = None,
    vector: Array | None = None,
) -> tuple[Array, Array]:
    """Word probabilities ``[T, K, V]`` and attention ``[T, K, N]`` of one caption (POS-SCAN Eq. 9 to 14, DA)."""
    regions = np.stack([encode_region(c, w, feature, box) for feature, box in zip(features, boxes, strict=True)])
    for layer in range(c.interact):
        regions = self_attention(w, f"interact.layers.{layer}", regions, c.interact_heads)
    whole = {"regions": features.mean(0), "grid": None if grid is None else grid.mean(0), "vector": vector}[c.image]
    assert whole is not None
    image = relu(linear(w, "embed_image", whole))
    h1 = c1 = np.zeros(c.hidden)
    h2, c2 = np.zeros((c.branches, c.hidden)), np.zeros((c.branches, c.hidden))
    probs, attention = [], []
    for word in words:
        before = h1
        x = [image, relu(w["embed.weight"][word])]
        h1, c1 = lstm(w, "attention_lstm", np.concatenate([h2.mean(0), *x] if c.language_to_attention else x), h1, c1)
        state = before if c.attend_from == "previous" else h1
        z = attended_features(c, w, regions, grid, state)
        steps = [lstm(w, "language_lstm", np.concatenate([z[k], h1]), h2[k], c2[k]) for k in range(c.branches)]
        h2, c2 = np.stack([h for h, _ in steps]), np.stack([cell for _, cell in steps])
        probs.append([softmax(linear(w, "output", h)) for h in h2])
        alphas = attend(c, w, regions, state)
        attention.append([np.mean(alphas, 0)] if c.heads else alphas)
    return np.array(probs), np.array(attention)
