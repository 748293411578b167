"""Operations of networks on NumPy arrays, for inference without torch.

All arrays are float32. The functions give what the layers of torch with the same names give, up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]
"""Weights by their names in a model folder."""

BLOCK = 1 << 16
"""Numbers that are worked on together, so that they stay in the cache."""

GELU = (
    0.7978842709718844,
    0.03633414117283428,
    -3.3020721404874184e-05,
    -5.5275176838626426e-05,
    3.9743153777353334e-06,
    -1.3379830972066326e-07,
    1.8142659180542253e-09,
)
"""Coefficients c of gelu(x) = x / 2 * (1 + tanh(x * sum of c_k x^(2 k))), by least squares; the error is below 7e-7."""

GELU_LIMIT = 5.5
"""Arguments beyond this are clipped in the polynomial: there tanh is 1 in single precision."""


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x [..., in]`` times ``weight [out, in]``, plus the bias."""
    out = x.reshape(-1, x.shape[-1]) @ weight.T  # one product: matmul would compute one for each leading index
    if bias is not None:
        out += bias
    return out.reshape(*x.shape[:-1], len(weight))


def named_linear(x: Array, weights: Weights, name: str) -> Array:
    """Linear layer of this name, with its bias."""
    return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def relu(x: Array) -> Array:
    """Set negative numbers to 0, in place."""
    return np.maximum(x, 0, out=x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 0.5 * np.tanh(0.5 * x) + 0.5


def gelu(x: Array) -> Array:
    """x times the normal distribution function of x, in place."""
    flat = x.reshape(-1)
    for start in range(0, len(flat), BLOCK):
        part = flat[start : start + BLOCK]
        part *= gelu_gate(part)
    return flat.reshape(x.shape)


def gelu_gate(x: Array) -> Array:
    """Normal distribution function of x."""
    clipped = np.clip(x, -GELU_LIMIT, GELU_LIMIT)
    square = clipped * clipped
    inner = square * GELU[-1]
    for coefficient in GELU[-2:0:-1]:
        inner += coefficient
        inner *= square
    inner += GELU[0]
    inner *= clipped
    np.tanh(inner, out=inner)
    inner += 1
    inner *= 0.5
    return inner


def softmax(x: Array) -> Array:
    """Softmax over the last axis, in place."""
    x -= x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


def logsumexp(x: Array, axis: int = -1) -> Array:
    """Log of the sum of exponentials along an axis."""
    most = x.max(axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - most).sum(axis)) + most.squeeze(axis)


def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """Layer norm over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    variance = np.einsum("...d,...d->...", centred, centred)[..., None] / np.float32(x.shape[-1])
    centred /= np.sqrt(variance + np.float32(eps))
    if weight is not None:
        centred *= weight
    if bias is not None:
        centred += bias
    return centred


def unit(x: Array, eps: float = 1e-12) -> Array:
    """Vectors of length 1 along the last axis."""
    length = np.sqrt(np.einsum("...d,...d->...", x, x))[..., None]
    return x / np.maximum(length, np.float32(eps))


def lstm_gates(gates: Array, cell: Array) -> tuple[Array, Array]:
    """One LSTM step from summed gates ``[..., 4 hidden]`` in torch's order (input, forget, cell, output): h and c."""
    i, f, g, o = np.split(gates, 4, -1)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def top(values: Array, count: int) -> Array:
    """Indices ``[R, count]`` of the largest of ``values [R, V]``, the largest first."""
    rows, size = values.shape
    if count == 1:
        return values.argmax(-1)[:, None]
    width = 64
    blocks = size // width
    columns: Array = np.broadcast_to(np.arange(size), values.shape)
    if blocks > 2 * count:  # the largest are in the blocks with the largest maxima, or behind the last whole block
        most = values[:, : blocks * width].reshape(rows, blocks, width).max(-1)
        chosen = np.argpartition(most, blocks - count, axis=-1)[:, blocks - count :]
        inside = (chosen[:, :, None] * width + np.arange(width)).reshape(rows, -1)
        columns = np.concatenate([inside, columns[:, blocks * width :]], 1)
        values = np.take_along_axis(values, columns, 1)
    first = values.shape[1] - count
    best = np.argpartition(values, first, axis=-1)[:, first:] if first > 0 else np.argsort(columns, axis=-1)
    best = np.take_along_axis(best, np.argsort(-np.take_along_axis(values, best, 1), axis=1, kind="stable"), 1)
    return np.take_along_axis(columns, best, 1)


def resize_matrix(rows: int, size: int, kind: str) -> Array:
    """Weights ``[size, rows]`` by which a line of cells is resized: "bilinear" or "bicubic", cells aligned by edges.

    Positions beyond the outer cells take the outer cells, as in torch with ``align_corners=False``.
    """
    places = (np.arange(size) + 0.5) * rows / size - 0.5
    if kind == "bilinear":
        places = np.maximum(places, 0)
    first = np.floor(places).astype(int)
    matrix = np.zeros((size, rows))
    for tap in (0, 1) if kind == "bilinear" else (-1, 0, 1, 2):
        distance = np.abs(places - first - tap)
        weight = 1 - distance if kind == "bilinear" else _cubic(distance)
        np.add.at(matrix, (np.arange(size), np.clip(first + tap, 0, rows - 1)), weight)
    return matrix.astype(np.float32)


def _cubic(distance: Array, a: float = -0.75) -> Array:
    """Kernel of bicubic interpolation at a distance of at most 2."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = a * (((distance - 5) * distance + 8) * distance - 4)
    return np.where(distance <= 1, near, far)


def resize(cells: Array, rows: int, columns: int, kind: str) -> Array:
    """Resize cells ``[R, C, D]`` to ``[rows, columns, D]``."""
    down, across = (resize_matrix(*sizes, kind) for sizes in ((cells.shape[0], rows), (cells.shape[1], columns)))
    return np.einsum("ir,jc,rcd->ijd", down, across, cells, optimize=True).astype(np.float32)
