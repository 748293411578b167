"""A second look at what a caption is about: where no classifier sees it, say plainly what they see.

A captioner has few words, those of the captions that it learnt from, and says something of every photograph: of a cup
of coffee, that a dog lies on the floor. Two others have looked at the same photograph and know more kinds of things:
the classifier that its features come from and, where a detector made its boxes, the detector. If a sentence is about a
thing that they know and do not see, it is doubted; if the classifier is certain of what the photograph shows, a plain
sentence names that instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from deixis import boxes as geometry
from deixis.language.names import COCO_NOUNS, with_article
from deixis.language.parse import parse_words
from deixis.language.sentence import sentence
from deixis.localize.class_names import detector_classes
from deixis.localize.votes import vote_region
from deixis.pipelines.looks import Looks
from deixis.types import GroundedCaption, Grounding, Regions
from deixis.vision.backbone import imagenet_classes
from deixis.vision.extractor import resized
from deixis.vision.eyes import Eyes

SEEN = 0.05
"""Less than this of a thing is nothing. It is low: a sentence is not to be doubted for a thing that is small or dim."""

CERTAIN = 0.5
"""How likely the classifier must find a name for a whole photograph, and the detector other things in it, to be quoted.
"""

SURE = 0.7
"""From here on a plain sentence is sure. Of 59 validation photographs with a name that is this likely 52 have it in a
true caption, of 69 with a less likely one 56 (``experiments/flickr8k-entities/confidence.txt``)."""

SIDE = 257
"""Pixels of the square that the classifier sees of a photograph: a multiple of 32 and one, near the 260 of its
training. Larger, where small regions gain, it is not certain of anything."""

CLOSE = 0.4
"""Share of the photograph from which on a thing is seen close up."""

OTHERS = 2  # things of the detector's in a plain sentence

Found = Mapping[str, npt.NDArray[np.float64]]
"""Name -> the probability ``[N]`` that a detector gave each of its boxes."""

_CALLED = {"dining table": "table", "cell phone": "phone", "tv": "television", "sports ball": "ball"}
_SURFACES = ("table", "bed", "couch", "bench", "chair")
_FLAT = ("web site", "comic book", "crossword puzzle", "street sign", "traffic light", "book jacket", "menu")


@dataclass(frozen=True, eq=False)
class Seen:
    """A caption after the second look."""

    caption: GroundedCaption
    looks: Looks
    doubted: str = ""  # what the captioner's sentence is about and nobody else sees
    plain: float = 0.0  # how likely the name is that a plain sentence gives in place of the captioner's; 0: it is not


class SecondLook:
    """The others that looked at a photograph, asked about a caption of it. ``eyes`` are those of the captioner."""

    def __init__(self, eyes: Eyes) -> None:
        self.eyes = eyes

    def at(self, caption: GroundedCaption, looks: Looks, regions: Regions, photo: Callable[[], Image.Image]) -> Seen:
        """The caption as it is, doubted, or replaced; the photograph is opened only if the regions leave a doubt."""
        subject = subject_of(caption)
        kind = COCO_NOUNS.get(subject, subject)
        found = self._detected(regions)
        known = kind in found or kind in plain_names()
        if not known or most(found, kind) >= SEEN or not self._classifies():
            return Seen(caption, looks)
        whole = self.whole(photo())
        if max(whole.get(kind, 0.0), whole.get(subject, 0.0)) >= SEEN:
            return Seen(caption, looks)
        main = max(whole, key=lambda noun: whole[noun])
        if whole[main] < CERTAIN:
            return Seen(caption, looks, subject)
        said, where = self._named(caption, main, found, regions)
        return Seen(said, where, subject, plain=whole[main])

    def _named(
        self, caption: GroundedCaption, main: str, found: Found, regions: Regions
    ) -> tuple[GroundedCaption, Looks]:
        """The plain sentence about the main thing, and what the detector is as certain of."""
        head = main.split()[0]
        kind = COCO_NOUNS.get(head, head)
        heat = {main: found[kind] if most(found, kind) >= SEEN else self._where(main, regions)}  # noun -> [N]
        others = [one for one in found if one != kind and most(found, one) >= CERTAIN]
        others.sort(key=lambda one: -most(found, one))
        heat |= {_CALLED.get(one, one): found[one] for one in others[:OTHERS]}
        shares = {noun: weights / weights.sum() for noun, weights in heat.items()}
        boxes = {
            noun: geometry.as_box(regions.boxes[vote_region(regions, share, self.eyes.detector)])
            for noun, share in shares.items()
        }
        close = bool(geometry.area(boxes[main]) >= CLOSE * regions.size[0] * regions.size[1])
        words, spans = plain_sentence(list(heat), close)
        attention = np.zeros((len(words), 1, len(regions)), np.float32)
        for noun, (start, end) in spans.items():
            attention[start:end, 0] = shares[noun]
        groundings = tuple(
            Grounding(noun, boxes[noun], min(1.0, float(heat[noun].max())), start, end)
            for noun, (start, end) in spans.items()
        )
        said = replace(caption, words=tuple(words), groundings=groundings, logprob=None, caption=sentence(words))
        return said, Looks(attention, np.ones((len(words), 1), np.bool_))

    # What the others see

    def _classifies(self) -> bool:
        return self.eyes.extractor.backbone.classes == imagenet_classes()

    def whole(self, photo: Image.Image) -> dict[str, float]:
        """Plain name -> its probability as the name of the whole photograph."""
        backbone = self.eyes.extractor.backbone
        pixels = torch.from_numpy(resized(photo.convert("RGB"), (SIDE, SIDE)))[None]
        probs = backbone.classify(backbone.feature_map(pixels).values.mean((2, 3)))[0].cpu().double().numpy()
        return {noun: float(probs[list(classes)].sum()) for noun, classes in plain_names().items()}

    def _where(self, noun: str, regions: Regions) -> npt.NDArray[np.float64]:
        """The probability ``[N]`` of a plain name in each region."""
        backbone = self.eyes.extractor.backbone
        device = self.eyes.device
        probs = backbone.classify(torch.as_tensor(regions.features, dtype=torch.float32, device=device))
        found: npt.NDArray[np.float64] = probs[:, list(plain_names()[noun])].sum(1).cpu().double().numpy()
        return found

    def _detected(self, regions: Regions) -> Found:
        """What the detector found, of all names that it knows; empty without a detector."""
        labels = regions.labels
        if labels is None or not self.eyes.detector:
            return {}
        own = detector_classes(labels, imagenet_classes())
        found = {name: np.zeros(len(regions)) for name in own if name}
        for at, (ids, probs) in enumerate(zip(labels.ids, labels.probs, strict=True)):
            for number, prob in zip(ids, probs, strict=True):
                if number < len(own) and own[number]:
                    found[own[number]][at] = max(found[own[number]][at], float(prob))
        return found


def most(found: Found, name: str) -> float:
    """How sure the detector is that a thing is in the photograph at all."""
    return float(found[name].max(initial=0.0)) if name in found else 0.0


def subject_of(caption: GroundedCaption) -> str:
    """The lemma of the noun that a caption begins with: "dog" of "two brown dogs are running"; "" if there is none."""
    if not caption.words:
        return ""
    parse = parse_words([caption.words], quiet=True)[0]
    for phrase in parse.phrases:
        head = parse.head(phrase.start, phrase.end)
        if head is not None and parse.nouns[head]:
            return parse.lemmas[head]
    return ""


def plain_sentence(nouns: list[str], close: bool) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """Words that name things, the main one first, and the span of each noun in them.

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
def plain_names() -> Mapping[str, tuple[int, ...]]:
    """What people call the classes of ImageNet: noun -> the classes that it stands for."""
    called = [name.lower() for name in imagenet_classes()]
    text = resources.files("deixis.vision").joinpath("plain_names.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        noun, _, classes = line.partition(":")
        for part in "" if line.startswith("#") else classes.split():
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                called[number] = noun
    return {noun: tuple(i for i, other in enumerate(called) if other == noun) for noun in dict.fromkeys(called)}
