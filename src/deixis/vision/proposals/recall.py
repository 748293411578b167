"""Recall of box proposals: the share of phrases whose true box overlaps one of the first n proposals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.sample import Sample

THRESHOLDS = np.arange(10, 20) / 20  # .5, .55 ... .95, over which average recall is taken


@dataclass(frozen=True, eq=False)
class Targets:
    """The phrases of one image, in all its captions, whose entity has a box.

    The target of an entity with several boxes is their union box, as in the phrase grounding papers.
    """

    boxes: npt.NDArray[np.floating]  # [T, 4]
    types: tuple[tuple[str, ...], ...]  # of each phrase
    first: npt.NDArray[np.bool_]  # [T] whether no phrase before it names the same entity

    def __len__(self) -> int:
        return len(self.boxes)


def targets(sample: Sample) -> Targets:
    """Collect the targets of one image; empty if the image has no boxes."""
    drawn = {entity.id: geometry.union(entity.boxes) for entity in sample.entities if len(entity.boxes)}
    phrases = [phrase for caption in sample.captions for phrase in caption.phrases if phrase.entity in drawn]
    named = [str(phrase.entity) for phrase in phrases]
    return Targets(
        geometry.as_boxes([drawn[entity] for entity in named]),
        tuple(phrase.types for phrase in phrases),
        np.array([entity not in named[:place] for place, entity in enumerate(named)], dtype=bool),
    )


def best_overlaps(wanted: Targets, boxes: npt.NDArray[np.floating], counts: Sequence[int]) -> npt.NDArray[np.float64]:
    """Best IoU ``[T, C]`` of each target with the first ``counts[c]`` boxes."""
    running = np.maximum.accumulate(geometry.iou(wanted.boxes, boxes), axis=1)  # [T, N]
    return running[:, np.minimum(counts, len(boxes)) - 1]


@dataclass(frozen=True, eq=False)
class Recall:
    """Recall at several numbers of boxes; the keys are strings, as in JSON."""

    total: int  # number of targets
    recall: dict[str, dict[str, float]]  # count -> IoU threshold -> recall
    average: dict[str, float]  # count -> mean over THRESHOLDS


def recall(
    overlaps: npt.NDArray[np.floating], counts: Sequence[int], thresholds: Iterable[float] = (0.5, 0.7)
) -> Recall:
    """Recall from ``overlaps [T, C]`` (see :func:`best_overlaps`): the share with IoU >= threshold."""
    found = {str(threshold): np.mean(overlaps >= threshold, axis=0) for threshold in thresholds}
    average = np.mean(overlaps[..., None] >= THRESHOLDS, axis=(0, 2))
    return Recall(
        len(overlaps),
        {str(count): {name: float(found[name][c]) for name in found} for c, count in enumerate(counts)},
        {str(count): float(average[c]) for c, count in enumerate(counts)},
    )
