"""Votes between overlapping regions (rule "vote", ours).

A network that is trained without boxes attends to the most discriminative part of an object, so the region with the
most attention is too small. Its next best regions are other parts and larger boxes around them. Each region votes for
the regions that it overlaps with; the region with the most votes is usually the whole object.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.types import Regions

SCORE_POWER = 0.1
"""Power of a detector's score in the votes. Small: attention selects the object, the score prefers whole objects."""

MIN_SCORE = 0.001
"""Smallest detector score that counts; lower scores are raised to it."""


def region_votes(
    boxes: npt.NDArray[np.float64], attention: npt.NDArray[np.float64], scores: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.float64]:
    """Votes ``[N]`` for each of the regions ``boxes [N, 4]``, from the attention ``[N]`` of one word over them.

    vote(j) = score_j ** SCORE_POWER * sum over i of sqrt(attention_i) * sqrt(IoU(i, j)). The square roots limit the
    weight of the best region and count near misses. ``scores [N]`` are those of a detector, if one made the boxes.
    """
    total = np.sqrt(attention) @ np.sqrt(geometry.iou(boxes, boxes))
    return total if scores is None else total * np.maximum(scores, MIN_SCORE) ** SCORE_POWER


def vote_region(regions: Regions, attention: npt.NDArray[np.floating], detector: bool = False) -> int:
    """Index of the region with the most votes for ``attention [N]``; ``detector``: scores are those of a detector."""
    boxes = np.asarray(regions.boxes, dtype=np.float64)
    if regions.frames is not None:  # shifted apart, so that regions of different frames do not overlap
        boxes = boxes + regions.frames[:, None] * np.array([2.0 * regions.size[0], 0, 2.0 * regions.size[0], 0])
    scores = np.asarray(regions.scores, dtype=np.float64) if detector else None
    return int(region_votes(boxes, np.asarray(attention, dtype=np.float64), scores).argmax())
