"""Select boxes greedily to maximise expected recall under a budget."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry

Floats = npt.NDArray[np.floating]
Choice = tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]


def cover(boxes: Floats, weights: Floats, limit: int, ramp: tuple[float, float], whole: Floats) -> Choice:
    """Select boxes by greedy maximum coverage.

    Every box ``[N, 4]`` is a candidate for an object, with its weight ``[N]`` as probability. The coverage of a box is
    clip((IoU - ramp[0]) / (ramp[1] - ramp[0]), 0, 1) with the closest selected box. Each step selects the box with the
    largest gain in weighted coverage; ``whole [4]`` counts as selected from the start.

    Returns the selected indices, in order, and their gains as shares of the total weight. Boxes without gain are not
    selected.
    """
    low, high = ramp
    near = (np.clip(overlaps(boxes, boxes), low, high) - low) / (high - low)  # [N, N]
    covered = (np.clip(overlaps(boxes, whole[None])[:, 0], low, high) - low) / (high - low)  # [N]
    share = (weights / weights.sum()).astype(np.float32)
    gains = np.maximum(near - covered, 0) @ share
    # Gains only decrease as boxes are selected, so an old gain is an upper bound (lazy greedy selection).
    heap = [(-gain, index, 0) for index, gain in enumerate(gains.tolist())]
    heapq.heapify(heap)
    chosen: list[int] = []
    added: list[float] = []
    while heap and len(chosen) < limit:
        gain, index, seen = heapq.heappop(heap)
        if seen < len(chosen):
            fresh = float(np.maximum(near[index] - covered, 0) @ share)
            heapq.heappush(heap, (-fresh, index, len(chosen)))
            continue
        if gain == 0:
            break
        chosen.append(index)
        added.append(-gain)
        np.maximum(covered, near[index], out=covered)
    return np.array(chosen, dtype=np.intp), np.array(added, dtype=np.float32)


def overlaps(a: Floats, b: Floats) -> npt.NDArray[np.float32]:
    """IoU ``[N, M]`` in single precision; for hundreds of boxes three times as fast as :func:`deixis.boxes.iou`."""
    (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = a.astype(np.float32).T[:, :, None], b.astype(np.float32).T[:, None]
    wide = np.minimum(ax2, bx2)
    wide -= np.maximum(ax1, bx1)
    shared = np.minimum(ay2, by2)
    shared -= np.maximum(ay1, by1)
    np.maximum(wide, 0, out=wide)
    np.maximum(shared, 0, out=shared)
    shared *= wide
    total = geometry.area(a)[:, None] + geometry.area(b)[None]
    return np.divide(shared, total - shared, dtype=np.float32)
