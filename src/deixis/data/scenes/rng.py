"""Seeded random choices that are the same on every machine and in every version of Python and NumPy."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Rng:
    """Random choices from a seed of several integers; ``random()`` has the same sequence in every version."""

    def __init__(self, *seed: int) -> None:
        self.random = random.Random(str(seed)).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def word(self, choices: str) -> str:
        """Return one of the words of a text with commas."""
        return self.pick(choices.split(", "))

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Return ``count`` different items (all if there are fewer) in random order."""
        rest = list(items)
        return [rest.pop(int(self.random() * len(rest))) for _ in range(min(count, len(rest)))]
