"""Which texts belong to a photograph: what a pointer finds of its own phrases and captions, and of another one's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deixis.calibration import Calibration, fit
from deixis.data import Sample
from deixis.language.parse import parse
from deixis.methods.albef.model import AlbefGrounder, Presence
from deixis.methods.reir.train import descriptions

Evidence = Callable[[Any, Sequence[str]], Sequence[float]]


@dataclass(frozen=True)
class Told:
    """The evidence for texts of the photographs themselves, and for texts of others."""

    present: list[float] = field(default_factory=list)
    absent: list[float] = field(default_factory=list)

    def curve(self) -> Calibration:
        """What makes a chance of it."""
        return fit(self.present, self.absent)


def evidence(samples: Sequence[Sample], photo: Callable[[str], Any], find: Evidence) -> tuple[Told, Told]:
    """The evidence that ``find`` has for phrases, and for whole captions; boxes are not asked.

    What is absent are the texts of the next photograph; a phrase only if nobody says its last word of this one.
    """
    several = descriptions(samples)
    images = [image for image, told in several.items() if told]
    captions = {sample.image_id: [caption.text for caption in sample.captions] for sample in samples}
    phrases = {image: [text for one in several[image] for text in one.texts()] for image in images}
    of_phrases, of_captions = Told(), Told()
    for image, other in zip(images, images[1:] + images[:1], strict=True):
        said = {word for one in several[image] for word in one.words}
        absent = [text for text in phrases[other] if text.split()[-1] not in said]
        asked = (phrases[image], absent, captions[image], captions[other])
        found = iter(find(photo(image), [text for texts in asked for text in texts]))
        into = (of_phrases.present, of_phrases.absent, of_captions.present, of_captions.absent)
        for texts, told in zip(asked, into, strict=True):
            told += [next(found) for _ in texts]
    return of_phrases, of_captions


def calibrate(pointer: AlbefGrounder, samples: Sequence[Sample], photo: Callable[[str], Any]) -> Presence:
    """The curves that make chances of what a pointer finds, from samples that it was not trained on."""

    def find(image: Any, texts: Sequence[str]) -> list[float]:
        (encoded,) = pointer.encode([image])
        parses = parse(texts, quiet=True)
        asked = [replace(one.phrase(0, len(one)), text=text) for text, one in zip(texts, parses, strict=True)]
        return pointer.pair_evidence(encoded, asked)

    phrases, captions = evidence(samples, photo, find)
    return Presence(phrases.curve(), captions.curve())
