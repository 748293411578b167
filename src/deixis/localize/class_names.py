"""Probability that a region shows the object that a phrase names, by the classes of a detector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deixis.language.names import COCO_NOUNS, PART_NOUNS
from deixis.types import Labels, Phrase, Regions


def class_probabilities(lemmas: Sequence[str], labels: Labels, classes: Sequence[str]) -> npt.NDArray[np.float64]:
    """Probabilities ``[P, N]`` that each of N regions has the class that each of P head nouns names.

    ``lemmas [P]`` are those of the head nouns, "" for a phrase without one. A noun names a class of the same name, or
    one of COCO's (puppy: dog). ``classes`` are the classes of the detector (:func:`detector_classes`). A row is 1 where
    the noun names none of them: no region is excluded. A noun for a part of a person or for clothes (shirt: top) names
    that part if it was located; parts of small people are not.
    """
    ids = {name: number for number, name in enumerate(classes)}
    probabilities = np.ones((len(lemmas), len(labels)))
    for row, lemma in zip(probabilities, lemmas, strict=True):
        number = ids.get(COCO_NOUNS.get(lemma, lemma)) if lemma else None
        parts = [ids[part] for part in PART_NOUNS.get(lemma, ()) if part in ids]
        if parts:
            located = np.where(np.isin(labels.ids, parts), labels.probs, 0).max(1)
            row[:] = located if located.any() else 1.0
        elif number is not None:
            row[:] = np.where(labels.ids == number, labels.probs, 0).sum(1, dtype=np.float64)
    return probabilities


def phrase_class_probabilities(
    phrases: Sequence[Phrase], regions: Regions, detector: bool, backbone_classes: tuple[str, ...]
) -> npt.NDArray[np.float64]:
    """Probabilities ``[P, N]`` that a region shows the head noun of a phrase; ones where no ``detector`` made them."""
    if regions.labels is None or not detector:
        return np.ones((len(phrases), len(regions)))
    classes = detector_classes(regions.labels, backbone_classes)
    return class_probabilities([phrase.lemma for phrase in phrases], regions.labels, classes)


def names_part(lemma: str) -> bool:
    """Return whether a noun names a part of a person or clothes; its plural ("shoes") is one part."""
    return lemma in PART_NOUNS


def detector_classes(labels: Labels, backbone_classes: tuple[str, ...]) -> tuple[str, ...]:
    """Class names of a detector: those of ``labels`` without the ``backbone_classes`` at their end.

    Some names are in both lists, so names alone do not tell them apart.
    """
    count = len(labels.names) - len(backbone_classes)
    return labels.names[:count] if labels.names[count:] == backbone_classes else labels.names
