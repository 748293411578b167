"""SCAN and POS-SCAN grounder: match scores of sentences and images, and a box for each noun phrase; save and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.calibration import UNKNOWN_SCORE, Calibration, Presence
from deixis.fields import from_dict
from deixis.language.nouns import mark_words
from deixis.language.parse import Parse, parse
from deixis.language.queries import Query, head_of
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padded import pad_arrays
from deixis.localize.attention import select_region
from deixis.localize.class_names import phrase_class_probabilities
from deixis.localize.heat import heat_map
from deixis.localize.heat_rules import boxes_by_heat
from deixis.localize.points import bicubic_maximum, centre_of_maximum, point_in_box
from deixis.methods.scan.config import ScanConfig
from deixis.methods.scan.inference import ArrayScan, ScanCalls, Sentences, TorchScan, weight_shapes
from deixis.model_folder import (
    Backend,
    folder_hash,
    load_arrays,
    load_network,
    load_vocabulary,
    open_model,
    require_torch,
    torch_network,
    write_model,
)
from deixis.types import Grounding, Json, Phrase, Place, Regions, RerankWeights
from deixis.vision.classes import imagenet_classes
from deixis.vision.extractor import RegionExtractor

if TYPE_CHECKING:
    import torch

    from deixis.methods.scan.network import ScanNet

Floats = npt.NDArray[np.floating]

COSINE_WEIGHT, MIN_PHRASE_WEIGHT = 2.0, 0.0
"""Rerank weights of the mean cosine and of the weakest phrase; chosen on validation captions."""

NAME_WEIGHT, MIN_NAME_PROB = 0.03, 0.01
"""Weight of the log-probability of a phrase's head noun by a detector in the evidence, and its smallest value."""


BOUNDS = {"sharpness": (0.01, 100), "leak": (0, 1), "cells": (1, 256)}
"""Bounds of a stored configuration; sizes are compared with the stored weights."""


MatcherPlace = Place | Literal["heat"]
"""Box rules of a matcher."""


@dataclass(frozen=True)
class Placing:
    """How attention over regions becomes a box and a heat map."""

    place: MatcherPlace = "vote"
    cells: int = 32  # of the heat map, along each side
    words: Literal["nouns", "head"] = "nouns"  # of a phrase: mean over its nouns, or its head alone (POS-SCAN Table 1)


@dataclass(frozen=True, eq=False)
class EncodedPhoto:
    """The regions of one photograph, and their vectors in the joint embedding space."""

    regions: Regions
    encoded: Any  # as the implementation of the network encodes it


class ScanGrounder:
    """A matcher with its vocabulary, and the extractor whose regions it was trained on."""

    def __init__(
        self,
        network: ScanNet | ArrayScan,
        vocabulary: Vocabulary,
        extractor: Json,
        name: str,
        calibration: Calibration | None = None,
        placing: Placing | None = None,
        presence: Presence | None = None,
    ) -> None:
        """``calibration`` is of models without ``presence``: that of the relevance of words in their sentence."""
        self.network, self.vocabulary, self.name, self.hash = network, vocabulary, name, ""
        self.calls: ScanCalls = network if isinstance(network, ArrayScan) else TorchScan(network.eval())
        self.extractor = RegionExtractor(extractor["description"], name=extractor["name"])
        self.calibration, self.placing = calibration or Calibration(), placing or Placing()
        self.presence = presence

    def to(self, device: torch.device) -> Self:
        """Move the weights and the extractor; results are returned on the CPU."""
        torch_network(self.network).to(device)
        self.extractor.to(device)
        return self

    @property
    def box_rules(self) -> tuple[str, ...]:
        """Names of the rules that :meth:`ground` takes."""
        return (*get_args(Place), "heat")

    @property
    def rerank_weights(self) -> RerankWeights | None:
        """Weights for reranking; only a mean of cosines is comparable between sentences of different length."""
        if self.network.config.aggregation != "mean":
            return None
        return RerankWeights(COSINE_WEIGHT, 0.0 if self.presence is None else MIN_PHRASE_WEIGHT)

    def encode(self, regions: Sequence[Regions]) -> list[EncodedPhoto]:
        """Project the regions of several photographs in one pass."""
        for one in regions:
            self.extractor.require(one)
        encoded = self.calls.encode(pad_arrays(regions), [len(one) for one in regions])
        return [EncodedPhoto(*each) for each in zip(regions, encoded, strict=True)]

    def ground(
        self, photo: EncodedPhoto, queries: Sequence[Query], place: MatcherPlace | None = None
    ) -> list[Grounding]:
        """Return a grounding for every phrase of the queries, in order.

        The attention of a phrase is the mean over its nouns, or over all its words where it has none; with the placing
        ``words`` "head" it is that of the head word. The heat map sums the attention of all regions over the image. The
        score is the probability that the phrase is present: of the evidence of the phrase alone or, for a model that
        was calibrated so, of the mean relevance of these words (Eq. 6). A phrase whose head word is in no training
        caption has at most the score ``UNKNOWN_SCORE``.
        """
        placing = self.placing if place is None else replace(self.placing, place=place)
        attention, relevance = self.align(photo, [query.parse for query in queries])
        phrases, weights, scores = [], [], []
        for query, attended, near in zip(queries, attention, relevance, strict=True):
            for phrase in query.phrases:
                span = range(phrase.start, phrase.end)
                words = [t for t in span if query.parse.nouns[t]] or list(span)
                if placing.words == "head":
                    words = [head_of(query.parse, phrase)]
                phrases.append(phrase)
                weights.append(attended[words].mean(0))
                scores.append(self.calibration(float(near[words].mean())))
        if not phrases:
            return []
        if self.presence is not None:
            scores = [self.presence.phrase(one) for one in self.evidence(photo, phrases)]
        found = self._place(photo.regions, phrases, np.stack(weights), scores, placing)
        return [self._marked(one, phrase) for one, phrase in zip(found, phrases, strict=True)]

    def _place(
        self, regions: Regions, phrases: Sequence[Phrase], weights: Floats, scores: Sequence[float], placing: Placing
    ) -> list[Grounding]:
        """Groundings of phrases with the attention ``weights [P, N]``."""
        detector, rule = self.extractor.is_detector, placing.place
        if rule != "heat":
            asked = zip(phrases, weights, scores, strict=True)
            return [place_phrase(*one, regions, rule, placing.cells, detector) for one in asked]
        heats = [heat_map(one, regions.boxes, regions.size, placing.cells) for one in weights]
        named = phrase_class_probabilities(phrases, regions, detector, imagenet_classes())
        boxes = boxes_by_heat(np.stack([heat.grid for heat in heats]), regions, named, phrases, detector, weights)
        found = []
        for phrase, score, heat, box in zip(phrases, scores, heats, map(geometry.as_box, boxes), strict=True):
            point = point_in_box(heat, box, bicubic_maximum(heat))
            found.append(Grounding(phrase.text, box, score, phrase.start, phrase.end, point=point, heat=heat))
        return found

    def _marked(self, one: Grounding, phrase: Phrase) -> Grounding:
        word = self.unknown_word(phrase)
        return replace(one, score=min(one.score, UNKNOWN_SCORE), unknown_word=word) if word else one

    def unknown_word(self, phrase: Phrase) -> str:
        """Return the head word of a phrase if it is not in the vocabulary; else the empty string."""
        word = phrase.head.lower()
        return "" if not word or word in self.vocabulary or phrase.lemma in self.vocabulary else word

    def evidence(
        self, photo: EncodedPhoto, phrases: Sequence[Phrase], parses: Sequence[Parse] | None = None
    ) -> list[float]:
        """Return the match score of each text with the photograph (Eq. 6, 8); texts without ``parses`` are parsed.

        A calibrated model adds the weighted log-probability that a detector found the head noun.
        """
        words = self.calls.read(self.sentences(parses or parse([phrase.text for phrase in phrases])))
        scores = self.calls.scores(photo.encoded, words)
        if self.presence is not None:
            named = phrase_class_probabilities(phrases, photo.regions, self.extractor.is_detector, imagenet_classes())
            scores = scores + NAME_WEIGHT * np.log(np.maximum(named.max(1), MIN_NAME_PROB))
        return scores.tolist()

    def phrase_probability(self, evidence: float) -> float:
        """Return the probability that a phrase with this evidence is present."""
        return self.calibration(evidence) if self.presence is None else self.presence.phrase(evidence)

    def caption_probability(self, evidence: float) -> float | None:
        """Return the probability that a caption with this evidence is of the photograph; None if not calibrated."""
        return None if self.presence is None else self.presence.caption(evidence)

    def scores(self, regions: Sequence[Regions], sentences: Sequence[str], batch: int = 64) -> npt.NDArray[np.float32]:
        """Return scores ``[images, sentences]`` of all pairs; regions are encoded ``batch`` images at a time."""
        words = self.calls.read(self.sentences(parse(sentences)))
        rows = []
        for start in range(0, len(regions), batch):
            rows += [self.calls.scores(photo.encoded, words) for photo in self.encode(regions[start : start + batch])]
        return np.stack(rows)

    def align(self, photo: EncodedPhoto, parses: Sequence[Parse]) -> tuple[list[Floats], list[Floats]]:
        """Return the attention ``[tokens, N]`` and the relevance ``[tokens]`` of the tokens of each sentence."""
        attention, relevance = self.calls.align(photo.encoded, self.calls.read(self.sentences(parses)))
        return [each[1:-1] for each in attention], [each[1:-1] for each in relevance]  # without bos and eos

    def sentences(self, parses: Sequence[Parse]) -> Sentences:
        """Return the word ids of sentences, and which words count in the score."""
        count = self.network.config.count
        ids = [tuple(self.vocabulary.encode(parsed.tokens)) for parsed in parses]
        counts = [tuple(with_ends(mark_words(parsed, count, self.vocabulary), count)) for parsed in parses]
        return Sentences(ids, counts)

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and vocabulary; ``extras`` are further files of text (recipe, card, metrics)."""
        config = {
            "kind": "matcher",
            "name": self.name,
            "matcher": asdict(self.network.config),
            "calibration": asdict(self.calibration),
            "placing": asdict(self.placing),
            "presence": None if self.presence is None else asdict(self.presence),
            "extractor": self.extractor.to_json(),
        }
        write_model(folder, config, self.network, self.vocabulary, extras)

    @classmethod
    def from_pretrained(cls, folder: str | Path, backend: Backend = "numpy") -> ScanGrounder:
        """Read what :meth:`save_pretrained` wrote."""
        with open_model(folder, "matcher") as config:
            sizes = from_dict(ScanConfig, config["matcher"], BOUNDS)
            network = _load(sizes, folder, backend)
            vocabulary = load_vocabulary(folder, sizes.vocabulary)
            calibration = from_dict(Calibration, config["calibration"])
            renamed = {"place": "attention"} if config["placing"]["place"] == "best" else {}  # as in version 0.1
            placing = from_dict(Placing, {**config["placing"], **renamed}, BOUNDS)
            curves = config.get("presence")  # older models have none
            presence = None
            if curves is not None:
                presence = Presence(*(from_dict(Calibration, curves[part]) for part in ("phrase", "caption")))
            name = str(config["name"])
            grounder = cls(network, vocabulary, config["extractor"], name, calibration, placing, presence)
            grounder.hash = folder_hash(folder)
        return grounder


def with_ends(counts: Sequence[bool], count: str) -> list[bool]:
    """The same with bos and eos, which count where all words do."""
    return [count == "all", *counts, count == "all"]


def _load(sizes: ScanConfig, folder: str | Path, backend: Backend) -> ScanNet | ArrayScan:
    if backend == "numpy":
        return ArrayScan(sizes, load_arrays(folder, weight_shapes(sizes)))
    require_torch("--device")
    from deixis.methods.scan.network import ScanNet

    return load_network(ScanNet, sizes, folder)


# Places -------------------------------------------------------------------------------------------------------------


def place_phrase(
    phrase: Phrase, weights: Floats, score: float, regions: Regions, rule: Place, cells: int, detector: bool = False
) -> Grounding:
    """Return the grounding of a phrase whose attention over the regions is ``weights [N]``."""
    heat = heat_map(weights, regions.boxes, regions.size, cells)
    box = geometry.as_box(regions.boxes[select_region(regions, weights, rule, detector)])
    point = point_in_box(heat, box, centre_of_maximum(heat))
    return Grounding(phrase.text, box, score, phrase.start, phrase.end, point=point, heat=heat)
