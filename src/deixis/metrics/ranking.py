"""Order images by their scores: worst first, or by the difference between two systems."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from deixis.metrics.score import Score

ORDER = ("F1_all_per_sent", "CIDEr")
"""Scores that order captioned images: the first, and the second among equals."""
MEAN_IOU = "mean_iou"


def rank_images(scores: Sequence[Score], images: Iterable[str]) -> list[tuple[str, str]]:
    """Images with their scores as a note, worst first: by F1 of grounded words, then by CIDEr.

    An image without one of these scores is left out, for example F1 where it has no boxes.
    """
    values = {score.name: dict(zip(score.ids, score.items, strict=True)) for score in scores if score.name in ORDER}
    names = [name for name in ORDER if name in values]
    rated = []
    for image in images:
        row = [float(values[name].get(image, math.nan)) for name in names]
        if not any(map(math.isnan, row)):
            note = ", ".join(f"{name} {value:.2f}" for name, value in zip(names, row, strict=True))
            rated.append((row, image, note))
    return [(image, note) for _, image, note in sorted(rated)]


def rank_by_overlap(scores: Sequence[Score]) -> list[tuple[str, str]]:
    """Images with a note, by the mean IoU of their phrases, worst first."""
    means = mean_overlaps(scores)
    return [(image, f"mean IoU {means[image]:.2f}") for image in sorted(means, key=lambda image: means[image])]


def mean_overlaps(scores: Sequence[Score]) -> dict[str, float]:
    """Mean IoU of the phrases of each image; empty if no phrases were scored."""
    overlaps: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        if score.name == MEAN_IOU:
            for phrase, value in zip(score.ids, score.items, strict=True):
                image = re.sub(r"#\d+\.\d+-\d+ .*", "", phrase)
                overlaps[image].append(float(value))
    return {image: float(np.mean(values)) for image, values in overlaps.items()}


def rank_differences(a: Sequence[Score], b: Sequence[Score]) -> list[tuple[str, str]]:
    """Images with both scores as a note, by how much two systems differ, largest difference first.

    The score is the first of F1 of grounded words, CIDEr and mean IoU that both systems have.
    """
    for name in (*ORDER, MEAN_IOU):
        first, second = _values(a, name), _values(b, name)
        both = {image: (first[image], second[image]) for image in first if image in second}
        known = {image: pair for image, pair in both.items() if not any(map(math.isnan, pair))}
        if known:
            order = sorted(known, key=lambda image: -abs(known[image][1] - known[image][0]))
            title = "mean IoU" if name == MEAN_IOU else name
            return [(image, f"{title} {known[image][0]:.2f}, {known[image][1]:.2f}") for image in order]
    return []


def _values(scores: Sequence[Score], name: str) -> dict[str, float]:
    """Image -> score of that name."""
    if name == MEAN_IOU:
        return mean_overlaps(scores)
    return {image: float(v) for s in scores if s.name == name for image, v in zip(s.ids, s.items, strict=True)}
