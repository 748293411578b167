"""Whether a picture is like the photographs that a model learnt from.

The mean feature of a photograph's regions differs from that of all photographs along a few directions mostly. A screen
full of text, a drawing or a field of stars shows the same in every region, so that nothing cancels in the mean, and
much of it lies beside these directions. How much that is tells such pictures from photographs, whatever is said of
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from deixis.errors import DeixisError
from deixis.files import atomic_path
from deixis.model_folder import FAMILIAR
from deixis.types import Regions

DIRECTIONS = 64  # along which photographs may differ
PHOTOGRAPHS = 2000  # that are enough to know these directions
USUAL = 0.98  # of the validation photographs are not strange


@dataclass(frozen=True, eq=False)
class Familiar:
    """What photographs are like: their mean, the directions ``[K, D]`` in which they differ, and how much is usual."""

    mean: np.ndarray  # [D]
    directions: np.ndarray  # [K, D] orthonormal
    limit: float

    @classmethod
    def learn(cls, photographs: Iterable[Regions], others: Iterable[Regions]) -> Familiar:
        """From regions of training photographs; what is usual, from those of other photographs."""
        known = np.stack([_mean(one) for one in photographs])
        mean = known.mean(0)
        _, size, directions = np.linalg.svd(known - mean, full_matrices=False)
        real = size > 1e-4 * max(float(size[0]), 1e-9)  # as many directions as there are, where photographs are few
        draft = cls(mean, directions[real][:DIRECTIONS].astype(np.float16), np.inf)
        return cls(mean, draft.directions, float(np.quantile([draft.beside(one) for one in others], USUAL)))

    def beside(self, regions: Regions) -> float:
        """The squared length of what a picture's mean feature has beside the directions."""
        away = _mean(regions) - self.mean
        along = self.directions.astype(np.float32)
        return float(np.square(away - along.T @ (along @ away)).sum())

    def is_strange(self, regions: Regions) -> bool:
        """Whether it has more beside the directions than all but a few photographs."""
        return self.beside(regions) > self.limit

    def save(self, folder: Path) -> None:
        """Write it into a model's folder."""
        limit = np.array([self.limit], dtype=np.float32)
        with atomic_path(folder / FAMILIAR) as tmp_path:
            save_file({"mean": self.mean, "directions": self.directions, "limit": limit}, tmp_path)

    @classmethod
    def load(cls, folder: Path, width: int) -> Familiar | None:
        """What :meth:`save` wrote, of features that are so wide; None where nothing was."""
        if not (folder / FAMILIAR).exists():
            return None
        try:
            stored = load_file(folder / FAMILIAR)
            mean, directions, limit = stored["mean"], stored["directions"], stored["limit"]
        except (OSError, KeyError, SafetensorError) as error:
            raise DeixisError(f"{folder / FAMILIAR} cannot be read ({error}); delete it to do without.") from None
        if mean.shape != (width,) or directions.shape[1:] != (width,) or limit.shape != (1,):
            raise DeixisError(f"{folder / FAMILIAR} does not fit features of {width} numbers; delete it to do without.")
        return cls(mean, directions, float(limit[0]))


def _mean(regions: Regions) -> np.ndarray:
    return np.asarray(regions.features, dtype=np.float32).mean(0)
