"""Out-of-distribution check: residual of the mean region feature outside the training set's principal components.

The mean region features of photographs vary mostly along a few directions. In a screenshot, a drawing or a star field
all regions are similar, so the mean keeps their common features and its residual is large.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from deixis.errors import DeixisError
from deixis.files import MAX_SETTINGS, open_regular, write_atomic
from deixis.model_folder import OOD
from deixis.types import Regions

COMPONENTS = 64
TRAINING_IMAGES = 2000  # enough to estimate the components
QUANTILE = 0.995  # share of validation photographs that are in distribution


@dataclass(frozen=True, eq=False)
class OodDetector:
    """Mean, principal components and largest usual residual of the training photographs' mean region features."""

    mean: np.ndarray  # [D]
    components: np.ndarray  # [K, D] orthonormal
    limit: float

    @classmethod
    def fit(cls, training: Iterable[Regions], validation: Iterable[Regions]) -> OodDetector:
        """Estimate the components on training photographs and the limit on validation photographs."""
        known = np.stack([_mean(one) for one in training])
        mean = known.mean(0)
        _, size, directions = np.linalg.svd(known - mean, full_matrices=False)
        real = size > 1e-4 * max(float(size[0]), 1e-9)  # fewer components if there are few photographs
        fitted = cls(mean, directions[real][:COMPONENTS].astype(np.float16), np.inf)
        limit = float(np.quantile([fitted.residual(one) for one in validation], QUANTILE))
        return cls(mean, fitted.components, limit)

    def residual(self, regions: Regions) -> float:
        """Return the squared length of the mean feature's part outside the components."""
        difference = _mean(regions) - self.mean
        components = self.components.astype(np.float32)
        return float(np.square(difference - components.T @ (components @ difference)).sum())

    def is_ood(self, regions: Regions) -> bool:
        """Return whether the residual exceeds that of nearly all validation photographs."""
        return self.residual(regions) > self.limit

    @staticmethod
    def save_or_remove(detector: OodDetector | None, folder: Path) -> None:
        """Write the detector into a model's folder, or remove the file of an earlier model."""
        if detector is None:
            (folder / OOD).unlink(missing_ok=True)
            return
        limit = np.array([detector.limit], dtype=np.float32)
        tensors = {"mean": detector.mean, "directions": detector.components, "limit": limit}
        write_atomic(folder / OOD, save(tensors))

    @classmethod
    def load(cls, folder: Path, width: int) -> OodDetector | None:
        """Read the detector of a model with features of this width; None if the folder has none."""
        path = folder / OOD
        if not path.exists():
            return None
        try:
            with open_regular(path, MAX_SETTINGS) as file:
                stored = load(file.read())
            mean, components, limit = stored["mean"], stored["directions"], stored["limit"]
        except (OSError, KeyError, SafetensorError) as error:
            raise DeixisError(f"{path} cannot be read ({error}). Delete it to caption without this check.") from None
        if mean.shape != (width,) or components.shape[1:] != (width,) or limit.shape != (1,):
            raise DeixisError(
                f"{path} does not fit features of width {width}. Delete it to caption without this check."
            )
        return cls(mean, components, float(limit[0]))


def _mean(regions: Regions) -> np.ndarray:
    return np.asarray(regions.features, dtype=np.float32).mean(0)
