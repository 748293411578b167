"""A thing of a scene: its look, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from deixis.data.scenes import animals, objects, people
from deixis.data.scenes.canvas import Paint, Pair, Shape
from deixis.data.scenes.look import Look
from deixis.types import Box

_DRAW = {**people.DRAW, **animals.DRAW, **objects.DRAW}


@lru_cache(maxsize=256)
def shapes(look: Look) -> tuple[Shape, ...]:
    """The shapes of a look, in the order of painting."""
    return tuple(_DRAW[look.kind](look))


@lru_cache(maxsize=256)
def extent(look: Look) -> Box:
    """The box x1, y1, x2, y2 around the shapes of a look, in its own units."""
    points = np.concatenate([shape.points for shape in shapes(look)])
    (x1, y1), (x2, y2) = points.min(0).tolist(), points.max(0).tolist()
    return x1, y1, x2, y2


@dataclass(frozen=True)
class Thing:
    """One thing of a scene: its look, and where its origin stands in the picture."""

    look: Look
    height: float  # of one own unit, in picture widths
    x: float = 0.0
    y: float = 0.0
    flip: bool = False  # faces left
    layer: int = 0  # added to the layers of its shapes

    @property
    def kind(self) -> str:
        """What it is."""
        return self.look.kind

    @property
    def traits(self) -> Mapping[str, str]:
        """Pose, clothes and the like."""
        return self.look.traits

    @property
    def paints(self) -> Mapping[str, Paint]:
        """Its colours."""
        return self.look.paints

    @property
    def scale(self) -> Pair:
        """Picture widths per own unit along x and y."""
        return (-self.height if self.flip else self.height), self.height

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """The box x1, y1, x2, y2 around its shapes in the picture, hidden or not."""
        x1, y1, x2, y2 = extent(self.look)
        if self.flip:
            x1, x2 = -x2, -x1
        h = self.height
        return self.x + h * x1, self.y + h * y1, self.x + h * x2, self.y + h * y2

    def outside(self, own: Pair) -> Pair:
        """A point in own units as a point of the picture."""
        return self.x + own[0] * self.scale[0], self.y + own[1] * self.scale[1]

    def inside(self, point: Pair) -> Pair:
        """The inverse of :meth:`outside`."""
        return (point[0] - self.x) / self.scale[0], (point[1] - self.y) / self.scale[1]
