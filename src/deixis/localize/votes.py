"""The whole from its parts: where attention rests on many regions, which of them is the thing itself?

A network that was never shown a box attends to what tells a thing apart, which is mostly a part of it, so its best
region is too small. But its next best regions are other parts, and larger boxes around them. When every region votes
for the regions that it overlaps with, the one that most of them agree on is the whole.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deixis.localize.box_regression import overlap
from deixis.types import Place, Regions

TRUST, LEAST = 0.1, 0.001
"""The power of a detector's score in the votes, and the least score that counts. (A tenth: the attention knows which
thing is meant, the detector only which boxes are whole things.)"""


@torch.no_grad()
def votes(boxes: Tensor, attention: Tensor, scores: Tensor | None = None) -> Tensor:
    """The votes for each region ``[..., P, N]``, from the attention of P words or phrases over N ``boxes [..., N, 4]``.

    A region gives the root of its attention times the root of its IoU to every region: roots, so that the best part
    is not everything, and near misses count. ``scores [..., N]`` are those of a detector, where one made the boxes.
    """
    shared = overlap(boxes.unsqueeze(-2), boxes.unsqueeze(-3))  # [..., N, N]
    cast = attention.sqrt() @ shared.sqrt()
    return cast if scores is None else cast * (scores.clamp_min(LEAST) ** TRUST).unsqueeze(-2)


def chosen(regions: Regions, attention: npt.NDArray[np.floating], place: Place = "vote", detector: bool = False) -> int:
    """The region that is the answer of one word or phrase, from its attention over them ``[N]``.

    ``detector`` tells that their scores are those of a detector.
    """
    if place == "attention":
        return int(attention.argmax())
    boxes = np.asarray(regions.boxes, dtype=np.float64)
    if regions.frames is not None:  # regions of different frames have nothing in common
        boxes = boxes + regions.frames[:, None] * np.array([2.0 * regions.size[0], 0, 2.0 * regions.size[0], 0])
    scores = torch.from_numpy(np.asarray(regions.scores, dtype=np.float64)) if detector else None
    weights = torch.from_numpy(np.asarray(attention, dtype=np.float64))
    return int(votes(torch.from_numpy(boxes), weights[None], scores)[0].argmax())
