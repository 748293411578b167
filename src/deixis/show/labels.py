"""Positions of labels: inside the picture, at their boxes, without overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deixis import boxes as geometry
from deixis.types import Box


def place_labels(
    sizes: Sequence[tuple[float, float]], boxes: Sequence[Box], scores: Sequence[float], picture: tuple[float, float]
) -> list[Box | None]:
    """Return the position of each label, or None if there is no space; labels with high scores are placed first.

    ``sizes`` are widths and heights of the labels, ``boxes`` their boxes, ``picture`` its width and height. A label
    gets the first free position along its box, outside before inside, that covers little of other boxes.
    """
    places: list[Box | None] = [None] * len(sizes)
    taken = np.zeros((0, 4))
    every = geometry.as_boxes(list(boxes))
    for i in sorted(range(len(sizes)), key=lambda i: -scores[i]):  # on equal scores the earlier label comes first
        found = _candidates(sizes[i], boxes[i], picture)  # [P, 4]
        free = ~(geometry.intersection(found, taken) > 0).any(1)
        if not free.any():
            continue
        others = np.delete(every, i, axis=0)
        hidden = geometry.intersection(found, others) / np.maximum(geometry.area(others), 1.0)
        cost = np.where(free, hidden.sum(1) + 1e-2 * np.arange(len(found)), np.inf)
        x1, y1, x2, y2 = found[int(cost.argmin())].tolist()
        places[i] = (x1, y1, x2, y2)
        taken = np.concatenate([taken, [[x1, y1, x2, y2]]])
    return places


def _candidates(size: tuple[float, float], box: Box, picture: tuple[float, float]) -> geometry.Array:
    """Positions ``[P, 4]`` at the box, best first; none for a label that is larger than the picture."""
    (width, height), (x1, y1, x2, y2) = size, box
    if width > picture[0] or height > picture[1]:
        return np.zeros((0, 4))
    inner = np.arange(y1 + height, y2 - 2 * height, height)
    tops = np.array([y1 - height, y1, y2, y2 - height, *inner])
    steps = np.arange(x1 + width, x2 - 2 * width, width)
    lefts = np.array([x1, x2 - width, *steps, x1 - width, x2])
    top, left = (grid.ravel() for grid in np.meshgrid(tops, lefts, indexing="ij"))
    left, top = np.clip(left, 0, picture[0] - width), np.clip(top, 0, picture[1] - height)
    return np.stack([left, top, left + width, top + height], axis=-1)
