"""SCAN and POS-SCAN grounder: match scores of sentences and images, and a box for each noun phrase; save and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.calibration import Calibration
from deixis.fields import from_dict
from deixis.language.nouns import mark_words
from deixis.language.parse import Parse, parse
from deixis.language.queries import Query, head_of
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padded import pad_arrays
from deixis.localize.attention import select_region
from deixis.localize.heat import heat_map
from deixis.localize.points import centre_of_maximum, point_in_box
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
from deixis.vision.extractor import RegionExtractor

if TYPE_CHECKING:
    import torch

    from deixis.methods.scan.network import ScanNet

Floats = npt.NDArray[np.floating]

COSINE_WEIGHT = 2.0
"""Rerank weight of the mean cosine; chosen on validation captions (``experiments/flickr8k-entities``)."""


BOUNDS = {"sharpness": (0.01, 100), "leak": (0, 1), "cells": (1, 256)}
"""Bounds of a stored configuration; sizes are compared with the stored weights."""


@dataclass(frozen=True)
class Placing:
    """How attention over regions becomes a box and a heat map."""

    place: Place = "vote"
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
    ) -> None:
        self.network, self.vocabulary, self.name, self.hash = network, vocabulary, name, ""
        self.calls: ScanCalls = network if isinstance(network, ArrayScan) else TorchScan(network.eval())
        self.extractor = RegionExtractor(extractor["description"], name=extractor["name"])
        self.calibration, self.placing = calibration or Calibration(), placing or Placing()

    def to(self, device: torch.device) -> Self:
        """Move the weights and the extractor; results are returned on the CPU."""
        torch_network(self.network).to(device)
        self.extractor.to(device)
        return self

    @property
    def rerank_weights(self) -> RerankWeights | None:
        """Weights for reranking; only a mean of cosines is comparable between sentences of different length."""
        return RerankWeights(COSINE_WEIGHT) if self.network.config.aggregation == "mean" else None

    def encode(self, regions: Sequence[Regions]) -> list[EncodedPhoto]:
        """Project the regions of several photographs in one pass."""
        for one in regions:
            self.extractor.require(one)
        encoded = self.calls.encode(pad_arrays(regions), [len(one) for one in regions])
        return [EncodedPhoto(*each) for each in zip(regions, encoded, strict=True)]

    def ground(self, photo: EncodedPhoto, queries: Sequence[Query], place: Place | None = None) -> list[Grounding]:
        """Return a grounding for every phrase of the queries, in order.

        The attention of a phrase is the mean over its nouns, or over all its words where it has none; with the placing
        ``words`` "head" it is that of the head word. The heat map sums the attention of all regions over the image. The
        score is the probability that the phrase is present, from the mean relevance of these words (Eq. 6).
        """
        placing = self.placing if place is None else replace(self.placing, place=place)
        attention, relevance = self.align(photo, [query.parse for query in queries])
        found = []
        for query, weights, near in zip(queries, attention, relevance, strict=True):
            for phrase in query.phrases:
                span = range(phrase.start, phrase.end)
                words = [t for t in span if query.parse.nouns[t]] or list(span)
                if placing.words == "head":
                    words = [head_of(query.parse, phrase)]
                score = self.calibration(float(near[words].mean()))
                detector = self.extractor.is_detector
                found.append(place_phrase(phrase, weights[words].mean(0), score, photo.regions, placing, detector))
        return found

    def evidence(
        self, photo: EncodedPhoto, phrases: Sequence[Phrase], parses: Sequence[Parse] | None = None
    ) -> list[float]:
        """Return the match score of each text with the photograph (Eq. 6, 8); texts without ``parses`` are parsed."""
        words = self.calls.read(self.sentences(parses or parse([phrase.text for phrase in phrases])))
        return self.calls.scores(photo.encoded, words).tolist()

    def phrase_probability(self, evidence: float) -> float:
        """Return the probability that a phrase with this evidence is present."""
        return self.calibration(evidence)

    def caption_probability(self, evidence: float) -> float | None:
        """Return None: the match score of whole captions is not calibrated."""
        return None

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
            grounder = cls(network, vocabulary, config["extractor"], str(config["name"]), calibration, placing)
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
    phrase: Phrase, weights: Floats, score: float, regions: Regions, placing: Placing, detector: bool = False
) -> Grounding:
    """Return the grounding of a phrase whose attention over the regions is ``weights [N]``."""
    heat = heat_map(weights, regions.boxes, regions.size, placing.cells)
    box = geometry.as_box(regions.boxes[select_region(regions, weights, placing.place, detector)])
    point = point_in_box(heat, box, centre_of_maximum(heat))
    return Grounding(phrase.text, box, score, phrase.start, phrase.end, point=point, heat=heat)
