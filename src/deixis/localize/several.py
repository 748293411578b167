"""Box around several objects of one class, for phrases such as "two dogs" (ours)."""

from __future__ import annotations

from deixis import boxes as geometry
from deixis.localize.heat import Floats

MIN_SHARE, MIN_PROB = 0.3, 0.1
"""Least class probability of an object that counts: as a share of that of the best object, and absolute."""

MAX_OVERLAP = 0.4
"""IoU above which two regions show the same object."""


def several_objects(boxes: Floats, class_probs: Floats) -> geometry.Array | None:
    """Box ``[4]`` around the objects of a class; None if fewer than two are found.

    ``class_probs [N]`` is the probability that each of the ``boxes [N, 4]`` shows the class.
    """
    least = max(MIN_SHARE * float(class_probs.max(initial=0.0)), MIN_PROB)
    found = [i for i in geometry.nms(boxes, class_probs, MAX_OVERLAP) if class_probs[i] >= least]
    return geometry.union(boxes[found]) if len(found) > 1 else None
