"""Evidence of a grounder for calibration: texts of an image against texts of another image and hard negatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deixis.calibration import Calibration, fit
from deixis.data import Sample
from deixis.data.descriptions import caption_descriptions
from deixis.language.negatives import CoOccurrence, hard_negatives

EvidenceFunction = Callable[[Any, Sequence[str]], Sequence[float]]
"""Regions or an image, and texts -> the evidence of each text."""


@dataclass(frozen=True)
class EvidenceSamples:
    """Evidence for texts of the images themselves (present), and for texts of other images (absent)."""

    present: list[float] = field(default_factory=list)
    absent: list[float] = field(default_factory=list)

    def calibration(self) -> Calibration:
        """Fit the curve that turns evidence into a probability."""
        return fit(self.present, self.absent)


def collect_evidence(
    samples: Sequence[Sample], photo: Callable[[str], Any], evidence: EvidenceFunction
) -> tuple[EvidenceSamples, EvidenceSamples]:
    """Evidence for phrases and for whole captions, without boxes.

    Absent texts are those of the next image, and hard negatives (:mod:`deixis.language.negatives`). A phrase of another
    image is absent only if its last word is in no caption of this image.
    """
    descriptions = caption_descriptions(samples)
    images = [image for image, several in descriptions.items() if several]
    captions = {sample.image_id: [caption.text for caption in sample.captions] for sample in samples}
    phrases = {image: [text for one in descriptions[image] for text in one.texts()] for image in images}
    of_phrases, of_captions = EvidenceSamples(), EvidenceSamples()
    words_of = {image: {word for one in descriptions[image] for word in one.words} for image in images}
    together = CoOccurrence.count([words_of[image] for image in images])
    for turn, (image, other) in enumerate(zip(images, images[1:] + images[:1], strict=True)):
        words = words_of[image]
        absent = [text for text in phrases[other] if text.split()[-1] not in words]
        absent += [text for phrase in phrases[image] for _, text in hard_negatives(phrase, words, turn)]
        absent += [f"a {noun}" for noun in [together.likeliest(words)] if noun is not None]
        groups = (phrases[image], absent, captions[image], captions[other])
        values = iter(evidence(photo(image), [text for texts in groups for text in texts]))
        into = (of_phrases.present, of_phrases.absent, of_captions.present, of_captions.absent)
        for texts, collected in zip(groups, into, strict=True):
            collected += [next(values) for _ in texts]
    return of_phrases, of_captions
