"""SCAN and POS-SCAN grounder: match scores of sentences and images, and a box for each noun phrase; save and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deixis import boxes as geometry
from deixis.calibration import Calibration
from deixis.device import CPU, device_of, to_device
from deixis.fields import from_dict
from deixis.language.nouns import mark_words
from deixis.language.parse import Parse, parse
from deixis.language.queries import Query, head_of
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_regions
from deixis.localize.attention import select_region
from deixis.localize.heat import heat_map
from deixis.localize.points import centre_of_maximum, point_in_box
from deixis.methods.scan.network import EncodedRegions, ScanConfig, ScanNet
from deixis.model_folder import Backend, folder_hash, load_network, load_vocabulary, open_model, write_model
from deixis.types import Grounding, Json, Phrase, Place, Regions, RerankWeights
from deixis.vision.extractor import RegionExtractor

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
    encoded: EncodedRegions  # of one image


class ScanGrounder:
    """A matcher with its vocabulary, and the extractor whose regions it was trained on."""

    def __init__(
        self,
        network: ScanNet,
        vocabulary: Vocabulary,
        extractor: Json,
        name: str,
        calibration: Calibration | None = None,
        placing: Placing | None = None,
    ) -> None:
        self.network, self.vocabulary, self.name, self.hash = network.eval(), vocabulary, name, ""
        self.extractor = RegionExtractor(extractor["description"], name=extractor["name"])
        self.calibration, self.placing = calibration or Calibration(), placing or Placing()

    def to(self, device: torch.device) -> Self:
        """Move the weights and the extractor; results are returned on the CPU."""
        self.network.to(device)
        self.extractor.to(device)
        return self

    @property
    def rerank_weights(self) -> RerankWeights | None:
        """Weights for reranking; only a mean of cosines is comparable between sentences of different length."""
        return RerankWeights(COSINE_WEIGHT) if self.network.config.aggregation == "mean" else None

    @torch.no_grad()
    def encode(self, regions: Sequence[Regions]) -> list[EncodedPhoto]:
        """Project the regions of several photographs in one pass."""
        for one in regions:
            self.extractor.require(one, self.network.config.features)
        encoded = encode_regions(self.network, regions)
        return [
            EncodedPhoto(
                one, EncodedRegions(encoded.vectors[i : i + 1, : len(one)], encoded.mask[i : i + 1, : len(one)])
            )
            for i, one in enumerate(regions)
        ]

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

    @torch.no_grad()
    def evidence(self, photo: EncodedPhoto, phrases: Sequence[Phrase]) -> list[float]:
        """Return the match score of each text with the photograph (Eq. 6, 8)."""
        words = self.network.encode_words(*self.encode_texts(parse([phrase.text for phrase in phrases])))
        return [float(score) for score in self.network.scores(photo.encoded, words)[0].cpu()]

    def phrase_probability(self, evidence: float) -> float:
        """Return the probability that a phrase with this evidence is present."""
        return self.calibration(evidence)

    def caption_probability(self, evidence: float) -> float | None:
        """Return None: the match score of whole captions is not calibrated."""
        return None

    @torch.no_grad()
    def scores(self, regions: Sequence[Regions], sentences: Sequence[str], batch: int = 64) -> npt.NDArray[np.float32]:
        """Return scores ``[images, sentences]`` of all pairs; regions are encoded ``batch`` images at a time."""
        words = self.network.encode_words(*self.encode_texts(parse(sentences)))
        rows = []
        for start in range(0, len(regions), batch):
            some = regions[start : start + batch]
            for one in some:
                self.extractor.require(one, self.network.config.features)
            rows.append(self.network.scores(encode_regions(self.network, some), words).cpu())
        return torch.cat(rows).numpy()

    @torch.no_grad()
    def align(self, photo: EncodedPhoto, parses: Sequence[Parse]) -> tuple[list[Floats], list[Floats]]:
        """Return the attention ``[tokens, N]`` and the relevance ``[tokens]`` of the tokens of each sentence."""
        words, counts = self.encode_texts(parses)
        encoded = self.network.encode_words(words[None], counts[None])
        attention, relevance = self.network.align(photo.encoded, encoded)
        spans = [slice(1, 1 + len(parsed)) for parsed in parses]  # without bos and eos
        return (
            [weights[span].numpy() for weights, span in zip(attention[0].cpu(), spans, strict=True)],
            [near[span].numpy() for near, span in zip(relevance[0].cpu(), spans, strict=True)],
        )

    def encode_texts(self, parses: Sequence[Parse]) -> tuple[Tensor, Tensor]:
        """Return word ids and which of them count in the score, both ``[C, T]``, on the device of the network."""
        count = self.network.config.count
        ids = [self.vocabulary.encode(parsed.tokens) for parsed in parses]
        counts = [with_ends(mark_words(parsed, count, self.vocabulary), count) for parsed in parses]
        return pad_words(ids, counts, device_of(self.network))

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
            network = load_network(ScanNet, sizes, folder)
            vocabulary = load_vocabulary(folder, sizes.vocabulary)
            calibration = from_dict(Calibration, config["calibration"])
            renamed = {"place": "attention"} if config["placing"]["place"] == "best" else {}  # as in version 0.1
            placing = from_dict(Placing, {**config["placing"], **renamed}, BOUNDS)
            grounder = cls(network, vocabulary, config["extractor"], str(config["name"]), calibration, placing)
            grounder.hash = folder_hash(folder)
        return grounder


# Words and regions --------------------------------------------------------------------------------------------------


def with_ends(counts: Sequence[bool], count: str) -> list[bool]:
    """The same with bos and eos, which count where all words do."""
    return [count == "all", *counts, count == "all"]


def pad_words(
    ids: Sequence[Sequence[int]], counts: Sequence[Sequence[bool]], device: torch.device = CPU
) -> tuple[Tensor, Tensor]:
    """Ragged sentences and their counts as two tensors ``[C, T]``."""
    longest = max((len(row) for row in ids), default=0)
    words = torch.full((len(ids), longest), Vocabulary.pad)
    counted = torch.zeros(len(ids), longest, dtype=torch.bool)
    for c, (row, marks) in enumerate(zip(ids, counts, strict=True)):
        words[c, : len(row)], counted[c, : len(row)] = torch.tensor(row), torch.tensor(marks)
    return words.to(device), counted.to(device)


def encode_regions(matcher: ScanNet, regions: Sequence[Regions]) -> EncodedRegions:
    """Embed the regions of several images on the matcher's device."""
    return matcher.encode_regions(to_device(pad_regions(regions), device_of(matcher)))


# Places -------------------------------------------------------------------------------------------------------------


def place_phrase(
    phrase: Phrase, weights: Floats, score: float, regions: Regions, placing: Placing, detector: bool = False
) -> Grounding:
    """Return the grounding of a phrase whose attention over the regions is ``weights [N]``."""
    heat = heat_map(weights, regions.boxes, regions.size, placing.cells)
    box = geometry.as_box(regions.boxes[select_region(regions, weights, placing.place, detector)])
    point = point_in_box(heat, box, centre_of_maximum(heat))
    return Grounding(phrase.text, box, score, phrase.start, phrase.end, point=point, heat=heat)
