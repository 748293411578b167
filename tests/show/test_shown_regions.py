"""Regions for people: which of them are shown."""

from __future__ import annotations

import numpy as np

from deixis.show.regions import select_regions
from deixis.types import Labels, Regions


def make_regions(rows: list[tuple[list[float], int, float]], size: tuple[int, int] = (100, 100)) -> Regions:
    """Regions of (box, class, probability)."""
    return Regions(
        boxes=np.array([box for box, _, _ in rows], dtype=np.float32),
        features=np.zeros((len(rows), 2), dtype=np.float32),
        size=size,
        labels=Labels(
            np.array([[label] for _, label, _ in rows]), np.array([[p] for _, _, p in rows]), ("cat", "dog", "hat")
        ),
    )


def test_shown_regions_do_not_repeat_themselves() -> None:
    found = make_regions(
        [
            ([0, 0, 100, 100], 0, 0.99),  # the image itself
            ([10, 10, 60, 60], 0, 0.90),  # a cat
            ([12, 12, 30, 30], 0, 0.95),  # its eye says the same, and is smaller
            ([11, 11, 61, 61], 1, 0.50),  # nearly the same box
            ([20, 20, 30, 30], 2, 0.40),  # its hat is something else
            ([70, 70, 95, 95], 0, 0.60),  # another cat
            ([0, 80, 20, 99], 1, 0.01),  # who knows
        ]
    )
    assert select_regions(found, 12) == [1, 5, 4]
    assert select_regions(found, 2) == [1, 5]


def test_the_whole_image_is_shown_where_there_is_nothing_else() -> None:
    assert select_regions(make_regions([([0, 0, 100, 100], 0, 0.99)]), 12) == [0]
    assert select_regions(make_regions([([0, 0, 100, 100], 0, 0.03), ([1, 1, 50, 50], 0, 0.02)]), 12) == [0]
