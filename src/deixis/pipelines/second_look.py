"""Second look: check whether the subject of a caption is in the image, with detector and classifier.

A captioner has few words and generates a sentence for every photograph. The classifier of the backbone and, where a
detector made the boxes, the detector know more kinds of objects. If the subject of a sentence is a class that they know
and do not find, a warning says so. If the classifier is certain of another class, a template sentence names that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.language.names import COCO_NOUNS, with_article
from deixis.localize.class_names import detector_classes
from deixis.localize.votes import vote_region
from deixis.pipelines.photo import Photo
from deixis.types import AttentionTrace, Candidate, Grounding, Regions
from deixis.vision.classes import imagenet_classes
from deixis.vision.extractor import RegionExtractor
from deixis.vision.proposals.parts import PARTS

MIN_CLASS_PROB = 0.05
"""Below this an object counts as not found. It is low, so that small and dark objects pass."""

TEMPLATE_PROB = 0.5
"""Probability of a class from which on it is named in a template, by the classifier or by the detector."""

CONFIDENT_TEMPLATE_PROB = 0.7
"""From here on a template is confident. Of 59 validation photographs with such a class 52 have it in a true caption, of
69 with a less likely one 56 (``experiments/flickr8k-entities/confidence.txt``)."""

SEEN_PROB, SEEN_AREA = 0.6, 0.03
"""Probability and share of the image from which on an object is certain; sentences that name it rank higher."""

CLASSIFIER_SIDE = 257
"""Side of the square input of the classifier: a multiple of 32 plus 1, near the 260 of its training."""

CLOSE_UP_AREA = 0.4  # share of the photograph from which on an object is a close-up
MORE_OBJECTS = 2  # further detected objects in a template

Detections = Mapping[str, npt.NDArray[np.float64]]
"""Class name -> probability ``[N]`` of each region, by the detector."""

_DISPLAY_NAMES = {"dining table": "table", "cell phone": "phone", "tv": "television", "sports ball": "ball"}
_SURFACES = ("table", "bed", "couch", "bench", "chair")
_FLAT = ("web site", "comic book", "crossword puzzle", "street sign", "traffic light", "book jacket", "menu")


@dataclass(frozen=True, eq=False)
class SecondLook:
    """A candidate after the second look."""

    candidate: Candidate  # as it was, or a template
    missing_subject: str = ""  # subject of the generated sentence that neither detector nor classifier found
    template_prob: float = 0.0  # probability of the class that the template names; 0: no template


def second_look(candidate: Candidate, photo: Photo, extractor: RegionExtractor) -> SecondLook:
    """Check the subject of a candidate; the photograph is opened only if its regions do not settle it."""
    subject = subject_of(candidate, photo)
    if not is_missing(subject, photo, extractor):
        return SecondLook(candidate)
    whole = classify_image(photo, extractor)
    main = max(whole, key=lambda noun: whole[noun])
    if whole[main] < TEMPLATE_PROB:
        return SecondLook(candidate, subject)
    regions = photo.regions(extractor)
    return SecondLook(template(main, detections(regions, extractor), regions, extractor), subject, whole[main])


def first_supported(ranked: Sequence[Candidate], photo: Photo, extractor: RegionExtractor) -> Candidate:
    """Return the first candidate whose objects are found; else the first whose subject is found; else the first.

    Objects are nouns of the detector's classes. Without a detector only subjects are checked.
    """
    classes = detections(photo.regions(extractor), extractor)
    with_subject = [one for one in ranked if not is_missing(subject_of(one, photo), photo, extractor)]
    for candidate in with_subject:
        named = [noun for noun in photo.nouns(candidate.words) if COCO_NOUNS.get(noun, noun) in classes]
        if not any(is_missing(noun, photo, extractor) for noun in named):
            return candidate
    return (with_subject or list(ranked))[0]


def is_missing(noun: str, photo: Photo, extractor: RegionExtractor) -> bool:
    """Return whether detector and classifier know what a noun (lemma) names, and do not find it."""
    kind = COCO_NOUNS.get(noun, noun)
    found = detections(photo.regions(extractor), extractor)
    known = kind in found or kind in class_nouns()
    if not known or max_prob(found, kind) >= MIN_CLASS_PROB or not extractor.has_imagenet_classes:
        return False
    whole = classify_image(photo, extractor)
    return max(whole.get(kind, 0.0), whole.get(noun, 0.0)) < MIN_CLASS_PROB


def seen_classes(photo: Photo, extractor: RegionExtractor) -> frozenset[str]:
    """Return the classes of objects that the detector is certain of and that are not small."""
    regions = photo.regions(extractor)
    shares = geometry.area(regions.boxes) / (regions.size[0] * regions.size[1])
    found = detections(regions, extractor).items()
    return frozenset(name for name, probs in found if (probs[shares >= SEEN_AREA] >= SEEN_PROB).any())


def subject_of(candidate: Candidate, photo: Photo) -> str:
    """Return the lemma of a sentence's first noun: "dog" of "two brown dogs are running"; "" if there is none."""
    return next(iter(photo.nouns(candidate.words)), "")


def template(main: str, found: Detections, regions: Regions, extractor: RegionExtractor) -> Candidate:
    """Return a sentence that names the main class and the objects that the detector is certain of, with boxes."""
    head = main.split()[0]
    kind = COCO_NOUNS.get(head, head)
    certain = max_prob(found, kind) >= MIN_CLASS_PROB
    probs = {main: found[kind] if certain else class_in_regions(main, regions, extractor)}  # noun -> [N]
    others = [name for name in found if name != kind and max_prob(found, name) >= TEMPLATE_PROB]
    others.sort(key=lambda name: -max_prob(found, name))
    probs |= {_DISPLAY_NAMES.get(name, name): found[name] for name in others[:MORE_OBJECTS]}
    shares = {noun: weights / weights.sum() for noun, weights in probs.items()}
    boxes = {
        noun: geometry.as_box(regions.boxes[vote_region(regions, share, extractor.is_detector)])
        for noun, share in shares.items()
    }
    close = bool(geometry.area(boxes[main]) >= CLOSE_UP_AREA * regions.size[0] * regions.size[1])
    words, spans = template_sentence(list(probs), close)
    attention = np.zeros((len(words), 1, len(regions)), np.float32)
    for noun, (start, end) in spans.items():
        attention[start:end, 0] = shares[noun]
    groundings = tuple(
        Grounding(noun, boxes[noun], min(1.0, float(probs[noun].max())), start, end, head=_head(noun, start))
        for noun, (start, end) in spans.items()
    )
    trace = AttentionTrace(attention, np.ones((len(words), 1), np.bool_), regions.boxes, regions.size)
    return Candidate(tuple(words), None, 0.0, trace, groundings)


def _head(noun: str, start: int) -> int:
    """Return the index of a noun's head word: "cup" of "cup of coffee", "phone" of "cell phone"."""
    words = noun.split()
    return start + (words.index("of") if "of" in words else len(words)) - 1


# Detector and classifier --------------------------------------------------------------------------------------------


def detections(regions: Regions, extractor: RegionExtractor) -> Detections:
    """Return the class probabilities by the detector, for all classes that it knows; empty without a detector."""
    labels = regions.labels
    if labels is None or not extractor.is_detector:
        return {}
    own = detector_classes(labels, imagenet_classes())
    found = {name: np.zeros(len(regions)) for name in own if name and name not in PARTS}
    for at, (ids, probs) in enumerate(zip(labels.ids, labels.probs, strict=True)):
        for number, prob in zip(ids, probs, strict=True):
            if number < len(own) and own[number] in found:
                found[own[number]][at] = max(found[own[number]][at], float(prob))
    return found


def max_prob(found: Detections, name: str) -> float:
    """Return the greatest probability of a class over all regions."""
    return float(found[name].max(initial=0.0)) if name in found else 0.0


def classify_image(photo: Photo, extractor: RegionExtractor) -> Mapping[str, float]:
    """Return noun -> probability that it is the class of the whole photograph; computed once for a photograph."""
    probs = photo.classes(extractor, CLASSIFIER_SIDE)
    return {noun: float(probs[list(classes)].sum()) for noun, classes in class_nouns().items()}


def class_in_regions(noun: str, regions: Regions, extractor: RegionExtractor) -> npt.NDArray[np.float64]:
    """Return the probability ``[N]`` of a noun's classes in each region, by the classifier."""
    return extractor.classify_regions(regions, list(class_nouns()[noun]))


# Sentences ----------------------------------------------------------------------------------------------------------


def template_sentence(nouns: list[str], close: bool) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """Return words that name objects, the main one first, and the span of each noun.

    "a close-up of a cat"; "a cup of coffee and a laptop on a table".
    """
    upon = [noun for noun in nouns[1:] if noun in _SURFACES][:1]
    words = ["a", "close-up", "of"] if close and len(nouns) == 1 and nouns[0] not in _FLAT else []
    spans: dict[str, tuple[int, int]] = {}
    for noun in [noun for noun in nouns if noun not in upon] + upon:
        if spans:
            words.append("on" if noun in upon else "and")
        measure, *rest = noun.split(" of ")  # a cup of coffee, though coffee itself takes no article
        words += " of ".join([with_article(measure), *rest]).split()
        spans[noun] = len(words) - len(noun.split()), len(words)
    return words, spans


@cache
def class_nouns() -> Mapping[str, tuple[int, ...]]:
    """Return everyday nouns for the classes of ImageNet: noun -> the classes that it stands for."""
    called = [name.lower() for name in imagenet_classes()]
    text = resources.files("deixis.vision").joinpath("plain_names.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        noun, _, classes = line.partition(":")
        for part in "" if line.startswith("#") else classes.split():
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                called[number] = noun
    return {noun: tuple(i for i, other in enumerate(called) if other == noun) for noun in dict.fromkeys(called)}
