"""Probability that a region shows the object that a phrase names, by the classes of a detector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deixis.language.names import COCO_NOUNS
from deixis.types import Labels


def class_probabilities(lemmas: Sequence[str], labels: Labels, classes: Sequence[str]) -> npt.NDArray[np.float64]:
    """Probabilities ``[P, N]`` that each of N regions has the class that each of P head nouns names.

    ``lemmas [P]`` are those of the head nouns, "" for a phrase without one. A noun names a class of the same name, or
    one of COCO's (puppy: dog). ``classes`` are the classes of the detector (:func:`detector_classes`). A row is 1 where
    the noun names none of them: no region is excluded.
    """
    ids = {name: number for number, name in enumerate(classes)}
    probabilities = np.ones((len(lemmas), len(labels)))
    for row, lemma in zip(probabilities, lemmas, strict=True):
        number = ids.get(COCO_NOUNS.get(lemma, lemma)) if lemma else None
        if number is not None:
            row[:] = np.where(labels.ids == number, labels.probs, 0).sum(1, dtype=np.float64)
    return probabilities


def detector_classes(labels: Labels, backbone_classes: tuple[str, ...]) -> tuple[str, ...]:
    """Class names of a detector: those of ``labels`` without the ``backbone_classes`` at their end.

    Some names are in both lists, so names alone do not tell them apart.
    """
    count = len(labels.names) - len(backbone_classes)
    return labels.names[:count] if labels.names[count:] == backbone_classes else labels.names
