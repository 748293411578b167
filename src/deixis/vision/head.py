"""Class head of a detector: the layers behind its region features, whose class similarity GVD and Cyclical use.

    h = ReLU(W_7 x + b_7),  p = softmax(ReLU(W_c) h + b_c)

Class 0 is the background. A feature store keeps the head of its source in ``head.safetensors``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from deixis.errors import DeixisError
from deixis.files import require_regular, write_atomic

HEAD = "head.safetensors"

Weights = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ClassHead:
    """Weights of the two layers, and the class names."""

    fc7_weight: Weights  # [H, D]
    fc7_bias: Weights  # [H]
    class_weight: Weights  # [C, H] row 0: background
    class_bias: Weights  # [C]
    names: tuple[str, ...]  # [C]

    def __post_init__(self) -> None:
        hidden, classes = len(self.fc7_bias), len(self.names)
        shapes = [w.shape for w in (self.fc7_weight, self.fc7_bias, self.class_weight, self.class_bias)]
        if shapes != [(hidden, self.fc7_weight.shape[-1]), (hidden,), (classes, hidden), (classes,)]:
            raise ValueError(f"the class head has the shapes {shapes} and {classes} class names")

    def class_probs(self, features: npt.NDArray[np.floating]) -> npt.NDArray[np.float32]:
        """Return the class similarity ``[N, C]`` of region features ``[N, D]``; rows sum to 1."""
        hidden = np.maximum(features.astype(np.float32) @ self.fc7_weight.T + self.fc7_bias, 0)
        logits = hidden @ np.maximum(self.class_weight, 0).T + self.class_bias
        shares = np.exp(logits - logits.max(1, keepdims=True, initial=-np.inf))
        probs: npt.NDArray[np.float32] = shares / shares.sum(1, keepdims=True)
        return probs

    def digest(self) -> str:
        """Return the SHA-256 of weights and names."""
        return hashlib.sha256(self._bytes()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write ``head.safetensors`` of a store."""
        write_atomic(folder / HEAD, self._bytes())

    def _bytes(self) -> bytes:
        names = ("fc7_weight", "fc7_bias", "class_weight", "class_bias")
        arrays = {name: np.ascontiguousarray(getattr(self, name), dtype=np.float32) for name in names}
        return save(arrays, {"names": json.dumps(self.names)})

    @classmethod
    def load(cls, folder: Path) -> ClassHead | None:
        """Read the head of a store; None if it has none."""
        path = folder / HEAD
        if not path.exists():
            return None
        try:
            with safe_open(require_regular(path), framework="numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                return cls(**arrays, names=tuple(json.loads(file.metadata()["names"])))
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise DeixisError(f"{path} is damaged ({error}). Delete it and import the features again.") from None
