"""Fixed grid: the same normalised boxes for every photograph."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis.vision.proposals.base import Found, Image, Proposals, finish, settings
from deixis.vision.proposals.cover import cover


@dataclass(frozen=True)
class Grid:
    """Boxes with corners on a ``cells x cells`` lattice, selected to cover most of all such boxes.

    Larger and squarer boxes have more weight. The boxes do not depend on the image: this is a lower bound for other
    methods.
    """

    limit: int = 100
    cells: int = 8

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Propose at most ``limit`` boxes, the whole image first, larger boxes before smaller ones."""
        height, width = image.shape[:2]
        shares, gains = _boxes(self.cells, self.limit - 1)
        return finish(Found(shares * np.tile([width, height], 2), gains), image, self.limit)

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return {"name": "grid", "supervision": "none", **settings(self)}


@functools.lru_cache(maxsize=4)
def _boxes(cells: int, limit: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
    marks = np.arange(cells + 1) / cells
    spans = np.array([(low, high) for i, low in enumerate(marks) for high in marks[i + 1 :]])
    x, y = np.repeat(spans, len(spans), axis=0), np.tile(spans, (len(spans), 1))
    lattice = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)
    width, height = lattice[:, 2] - lattice[:, 0], lattice[:, 3] - lattice[:, 1]
    # Weight: sqrt(area * short side / long side); chosen with the ramp on the validation split.
    weights = np.sqrt(width * height) * np.exp(-0.5 * np.abs(np.log(width / height)))
    chosen, gains = cover(lattice, weights, limit, (0.4, 0.6), np.array([0.0, 0.0, 1.0, 1.0]))
    return lattice[chosen], gains
