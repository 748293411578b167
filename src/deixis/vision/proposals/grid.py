"""A fixed grid: the same boxes, as shares of the image, for every photograph."""

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
    """The boxes with corners on a ``cells x cells`` lattice that between them come close to most of all such boxes.

    Larger and squarer boxes weigh more. It looks at no pixel: what it reaches, any cleverer method must beat.
    """

    limit: int = 100
    cells: int = 8

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """At most ``limit`` boxes, the whole image first, coarse ones before fine ones."""
        height, width = image.shape[:2]
        shares, gains = _boxes(self.cells, self.limit - 1)
        return finish(Found(shares * np.tile([width, height], 2), gains), image, self.limit)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON."""
        return {"name": "grid", "supervision": "none", **settings(self)}


@functools.lru_cache(maxsize=4)
def _boxes(cells: int, limit: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
    marks = np.arange(cells + 1) / cells
    spans = np.array([(low, high) for i, low in enumerate(marks) for high in marks[i + 1 :]])
    x, y = np.repeat(spans, len(spans), axis=0), np.tile(spans, (len(spans), 1))
    lattice = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], axis=1)
    width, height = lattice[:, 2] - lattice[:, 0], lattice[:, 3] - lattice[:, 1]
    # Square root of the area, times that of the short side over the long one; chosen with the ramp on validation.
    weights = np.sqrt(width * height) * np.exp(-0.5 * np.abs(np.log(width / height)))
    chosen, gains = cover(lattice, weights, limit, (0.4, 0.6), np.array([0.0, 0.0, 1.0, 1.0]))
    return lattice[chosen], gains
