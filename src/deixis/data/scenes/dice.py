"""Random choices that are the same on every machine and in every version of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")


class Dice:
    """Choices that depend on the seed words only. It uses nothing but ``Generator.random`` of PCG64."""

    def __init__(self, *seed: int) -> None:
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))).random

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return self._random() < probability

    def between(self, low: float, high: float) -> float:
        """A float, low <= x < high."""
        return low + (high - low) * self._random()

    def whole(self, low: int, high: int) -> int:
        """A whole number, low <= n <= high."""
        return low + int(self._random() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self._random() * len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """That many different items (all of them if there are fewer), in random order."""
        rest = list(items)
        return [rest.pop(int(self._random() * len(rest))) for _ in range(min(count, len(rest)))]

    def grid(self, rows: int, columns: int) -> npt.NDArray[np.float64]:
        """Floats ``[rows, columns]`` in 0..1."""
        return self._random((rows, columns))
