"""Threshold of the frames of a clip that people see, chosen on validation clips with boxes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.language.parse import parse
from deixis.localize.attention import ground_word
from deixis.methods.updown.model import Captioner
from deixis.training.data import TrainingData

CLIPS = 50  # validation clips that are used
DEFAULT = 0.5  # where no clip has a box


def frame_threshold(captioner: Captioner, data: TrainingData) -> float:
    """Return the share of the best frame's score at which shown boxes have the best F1.

    Counted are the words and frames with a true box: a shown box is right if its IoU with one of them is over .5.
    """
    some = [s for s in data.validation if s.captions and any(len(e.boxes) for e in s.entities)][:CLIPS]
    parses = parse([sample.captions[0].text for sample in some])
    shares: list[float] = []
    right: list[bool] = []
    for sample, parsed in zip(some, parses, strict=True):
        regions, caption = data.regions[sample.image_id], sample.captions[0]
        ((candidate,),) = captioner.force_decode([regions], [[caption.tokens]])
        for phrase in caption.phrases:
            entity, head = sample.entity(phrase.entity or ""), parsed.head(phrase.start, phrase.end)
            if entity is None or head is None or entity.frames is None or head >= len(candidate.trace.attention):
                continue
            found = ground_word(candidate.trace, head, phrase.text, regions)
            for one in found.track:
                true = entity.boxes[entity.frames == one.frame]
                if len(true):
                    shares.append(one.score / max(found.score, 1e-12))
                    right.append(bool((geometry.iou([one.box], true) > 0.5).any()))
    return best_threshold(np.array(shares), np.array(right, dtype=bool))


def best_threshold(shares: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> float:
    """Return the threshold on ``shares [n]`` with the best F1 = 2 right / (shown + all); the highest of equal ones."""
    if not right.any():
        return DEFAULT
    candidates = np.linspace(0, 1, 21)
    shown = shares[None] >= candidates[:, None]  # [21, n]
    f1 = 2 * (shown & right).sum(1) / (shown.sum(1) + len(right))
    return float(candidates[np.flatnonzero(f1 == f1.max())[-1]])
