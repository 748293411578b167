"""The pointer: a photograph and phrases in; for each phrase a heat map, a point, a box and a match score out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from deixis import boxes as geometry
from deixis.calibration import Calibration
from deixis.device import device_of, to_device
from deixis.errors import DeixisError
from deixis.language.nouns import head_lemma
from deixis.language.number import several
from deixis.language.parse import Parse, parse, parse_words
from deixis.language.tokenise import tokens
from deixis.language.wordpiece import WordPieces
from deixis.localize.alpha import rank_boxes
from deixis.localize.class_names import class_probabilities, detector_classes
from deixis.localize.heat_rules import select_by_heat
from deixis.localize.points import bicubic_maximum
from deixis.localize.threshold import threshold_box
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.gradcam import heat_maps, match_and_map
from deixis.methods.albef.images import square_grid, square_pixels, standardise
from deixis.methods.albef.network import AlbefNet, Texts
from deixis.methods.albef.pair_scores import pair_scores
from deixis.model_folder import read_model, write_model
from deixis.pipelines.checked import Checked
from deixis.types import GroundedCaption, Grounding, HeatMap, HeatPlace, Json, Phrase, Regions
from deixis.vision.backbone import imagenet_classes
from deixis.vision.eyes import Eyes, Photo, open_photo

NAMED, DIM = 0.015, 0.01
"""What the log of a detector's chance adds to the evidence of a text, and the least chance that counts. Chosen on
validation captions; it is little where photographs are like those of the training, and tells a cat from a dog where
they are not."""


@dataclass(frozen=True)
class Presence:
    """What turns how much a text finds in a photograph (:func:`pair_scores`) into the chance that it belongs there."""

    phrase: Calibration
    caption: Calibration


class AlbefGrounder:
    """A fusion model with its word pieces and, where it looks at feature grids, the extractor that makes them.

    Without ``presence`` its scores are the probabilities of the match head.
    """

    def __init__(
        self,
        network: AlbefNet,
        pieces: WordPieces,
        extractor: Json | None,
        name: str,
        longest: int = 25,
        presence: Presence | None = None,
    ) -> None:
        self.network, self.pieces, self.name, self.longest = network.eval(), pieces, name, longest
        self.presence = presence
        self.place: HeatPlace = "heat"
        self.eyes = None if extractor is None else Eyes(extractor, grid=network.config.side)

    def to(self, device: torch.device) -> Self:
        """Move the weights, and those of its eyes; answers come back to the CPU wherever they are."""
        self.network.to(device)
        if self.eyes is not None:
            self.eyes.to(device)
        return self

    def ground(
        self,
        photo: Photo,
        wanted: str | Sequence[str],
        phrases: Sequence[Phrase] | None = None,
        box: HeatPlace | None = None,
    ) -> list[Grounding]:
        """The places of phrases, or of the noun phrases of a caption (found, or given); the photograph is encoded once.

        The point is the heat map's maximum, as AMC's evaluation has it; the score is the chance that the phrase is
        there (:attr:`presence`), or the probability that phrase and photograph match. ``box`` (:attr:`place` where it
        is not given) is the proposal with the most heat by our rules ("heat": one for phrases that mean one thing, one
        for those that mean several, :mod:`deixis.localize.heat_rules`) or for the root of its area, as published
        ("alpha"); or the box around what is at least half as hot as the maximum ("threshold", and where there are no
        proposals).
        """
        spans = self._spans(wanted) if phrases is None else phrases
        if not spans:
            return []
        image, size, regions = self.see(photo)
        place, texts = box or self.place, [span.text for span in spans]
        grammars = self._grammars(texts, regions, place)
        evidence, maps = self._look(image, texts, regions, grammars)
        return self._groundings(spans, self._chances(evidence), maps, size, regions, place, grammars)

    def check(self, photo: Photo, caption: str) -> Checked:
        """How well a caption fits a photograph: a heat map and a match score for each of its noun phrases."""
        words = tokens(caption)
        if not words:
            raise DeixisError("the caption has no words; write a sentence about the photograph.")
        image, size, regions = self.see(photo)
        spans = self._spans(caption)
        texts = [caption, *(span.text for span in spans)]
        grammars = self._grammars(texts, regions, self.place)
        evidence, maps = self._look(image, texts, regions, grammars)
        chances = self._chances(evidence[1:])
        found = tuple(self._groundings(spans, chances, maps[1:], size, regions, self.place, grammars[1:]))
        (match,) = self._chances(evidence[:1], whole=True)
        name = str(photo) if isinstance(photo, str | Path) else ""
        return Checked(GroundedCaption(words, found, None, name, *size, self.name, caption), match)

    def match(self, photo: Photo, caption: str) -> float:
        """The chance that a caption is about a photograph, for models with :attr:`presence`."""
        return self._chances(self.evidence(photo, [caption]), whole=True)[0]

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and word pieces; ``extras`` are further texts (recipe, card, metrics)."""
        config = {
            "kind": "fusion",
            "name": self.name,
            "fusion": asdict(self.network.config),
            "longest": self.longest,
            "presence": None if self.presence is None else asdict(self.presence),
            "extractor": None if self.eyes is None else self.eyes.to_json(),
        }
        files = {**(extras or {}), "vocabulary.json": self.pieces.to_text()}
        write_model(folder, config, self.network, extras=files)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> AlbefGrounder:
        """Read what :meth:`save_pretrained` wrote."""

        def build(config: Json) -> tuple[AlbefNet, AlbefGrounder]:
            network = AlbefNet(AlbefConfig.from_json(config["fusion"]))
            pieces = WordPieces.load(Path(folder) / "vocabulary.json")
            curves = config.get("presence")  # a model that was not calibrated has none
            presence = curves and Presence(*(Calibration(**curves[part]) for part in ("phrase", "caption")))
            name, longest = str(config["name"]), int(config["longest"])
            return network, cls(network, pieces, config["extractor"], name, longest, presence)

        return read_model(folder, "fusion", build)

    def with_pieces(self, pieces: WordPieces) -> AlbefGrounder:
        """The same pointer with some of its word pieces only; what it knows of the others goes."""
        rows = torch.tensor([self.pieces.id(piece) for piece in pieces.pieces])
        config = replace(self.network.config, vocabulary=len(pieces))
        weights = self.network.state_dict()
        for name in ("text.words.weight", "words.bias"):  # what has a row for each word piece
            weights[name] = weights[name][rows.to(weights[name].device)]
        network = AlbefNet(config)
        network.load_state_dict(weights)
        eyes = None if self.eyes is None else self.eyes.to_json()
        return AlbefGrounder(network, pieces, eyes, self.name, self.longest, self.presence)

    def texts(self, texts: Sequence[str]) -> Texts:
        """The word pieces of several texts, where the network reads them."""
        padded = pad_texts([self.pieces.encode(text, self.longest) for text in texts], self.pieces.id("[PAD]"))
        return to_device(padded, device_of(self.network))

    def see(self, photo: Photo) -> tuple[Tensor, tuple[int, int], Regions | None]:
        """A photograph as the network takes it ``[1, ...]``, its width and height, its regions if any."""
        config, device = self.network.config, device_of(self.network)
        if self.eyes is not None:
            regions = self.eyes.look(photo)
            return square_grid(regions, config)[None].to(device), regions.size, regions if len(regions) else None
        if isinstance(photo, Regions):
            raise DeixisError(f"the model {self.name} reads photographs themselves, not regions of them.")
        image = open_photo(photo)
        return standardise(square_pixels(image, config))[None].to(device), image.size, None

    def evidence(self, photo: Photo, texts: Sequence[str]) -> list[float]:
        """How much speaks for each text's being about a photograph; :attr:`presence` makes a chance of it.

        That is what the text finds in it (:func:`pair_scores`), and :data:`NAMED` times the log of how sure a detector
        is of what it names.
        """
        image, _, regions = self.see(photo)
        grammars = [] if regions is None else parse(texts, quiet=True)
        return self._look(image, texts, regions, grammars, pairs=True)[0]

    @torch.no_grad()
    def _look(
        self,
        image: Tensor,
        texts: Sequence[str],
        regions: Regions | None,
        grammars: Sequence[Parse],
        pairs: bool = False,
        batch: int = 64,
    ) -> tuple[list[float], geometry.Array]:
        """The evidence of each text, and the maps ``[P, rows, columns]``, 1 at their maximum.

        Without :attr:`presence` evidence is the probability of a match, unless ``pairs`` are asked for. The image is
        encoded once, texts go in batches.
        """
        encoded, maps = self.network.encode(image), []
        evidence: list[float] = []
        pairs = pairs or self.presence is not None
        for start in range(0, len(texts), batch):
            some = self.texts(texts[start : start + batch])
            states = self.network.encode_text(some)
            if pairs:
                evidence += pair_scores(self.network, encoded, some, states)[0].tolist()
                heat = heat_maps(self.network, encoded, some, states)
            else:
                matched = match_and_map(self.network, encoded, some, states)
                evidence += matched.logits.softmax(-1)[:, 1].tolist()
                heat = matched.maps
            maps.append(heat.cpu().double().numpy())
        if pairs and regions is not None:
            seen = self._named(grammars, regions).max(1)
            evidence = [one + NAMED * math.log(max(chance, DIM)) for one, chance in zip(evidence, seen, strict=True)]
        hot = np.concatenate(maps)
        most = hot.max((1, 2), keepdims=True)
        return evidence, np.divide(hot, most, out=hot, where=most > 0)

    def _grammars(self, texts: Sequence[str], regions: Regions | None, place: HeatPlace) -> list[Parse]:
        """The parses of texts, where boxes or chances ask for them; else none."""
        wanted = regions is not None and (place == "heat" or self.presence is not None)
        return parse(texts, quiet=True) if wanted else []

    def _named(self, grammars: Sequence[Parse], regions: Regions) -> geometry.Array:
        """How likely each region is what each text names ``[P, N]``; ones where no detector knows."""
        if regions.labels is None or self.eyes is None or not self.eyes.detector:
            return np.ones((len(grammars), len(regions)))
        classes = detector_classes(regions.labels, imagenet_classes())
        return class_probabilities([head_lemma(grammar) for grammar in grammars], regions.labels, classes)

    def _chances(self, evidence: Sequence[float], whole: bool = False) -> list[float]:
        if self.presence is None:
            return list(evidence)
        curve = self.presence.caption if whole else self.presence.phrase
        return [curve(one) for one in evidence]

    def _spans(self, wanted: str | Sequence[str]) -> list[Phrase]:
        if not isinstance(wanted, str):
            return [Phrase(text, 0, len(tokens(text))) for text in wanted]
        words = tokens(wanted)
        return list(parse_words([words], quiet=True)[0].phrases) if words else []

    def _groundings(
        self,
        phrases: Sequence[Phrase],
        scores: Sequence[float],
        maps: geometry.Array,
        size: tuple[int, int],
        regions: Regions | None,
        place: HeatPlace,
        grammars: Sequence[Parse],
    ) -> list[Grounding]:
        heats = [HeatMap(heat, size) for heat in maps]
        if regions is None or place == "threshold":
            boxes = [threshold_box(heat) for heat in heats]
        else:
            if place == "alpha":
                selected = [int(rank_boxes(heat, regions.boxes)[0]) for heat in heats]
            else:
                detector = self.eyes is not None and self.eyes.detector
                plural = [several(grammar) for grammar in grammars]
                selected = list(select_by_heat(maps, regions, self._named(grammars, regions), plural, detector))
            boxes = [geometry.as_box(regions.boxes[number]) for number in selected]
        return [
            Grounding(phrase.text, box, score, phrase.start, phrase.end, point=bicubic_maximum(heat), heat=heat)
            for phrase, box, score, heat in zip(phrases, boxes, scores, heats, strict=True)
        ]


def pad_texts(ids: Sequence[Sequence[int]], pad: int, length: int = 0) -> Texts:
    """Word pieces of several texts, padded to the longest of them, or to ``length``."""
    length = max(length, max(map(len, ids)))
    padded = torch.tensor([[*row, *[pad] * (length - len(row))] for row in ids])
    return Texts(padded, torch.arange(length) < torch.tensor([len(row) for row in ids])[:, None])
