"""ReIR grounder: regions and phrases in, a box and a probability of presence for each phrase out; save and load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from deixis import boxes as geometry
from deixis.calibration import Calibration
from deixis.device import CPU, device_of, to_device
from deixis.errors import DeixisError
from deixis.fields import from_dict
from deixis.language.descriptions import Description, describe
from deixis.language.parse import Parse
from deixis.language.queries import Query
from deixis.language.tokenise import tokens
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_regions
from deixis.localize.heat import heat_map
from deixis.localize.points import centre_of_maximum, point_in_box
from deixis.methods.reir.network import ReirConfig, ReirNet
from deixis.methods.reir.phrases import name_vectors, pad_phrases
from deixis.model_folder import Backend, folder_hash, load_network, load_vocabulary, open_model, write_model
from deixis.types import Box, Grounding, Json, Phrase, Place, Regions, RerankWeights
from deixis.vision.extractor import RegionExtractor
from deixis.vision.repool import repooler

MAX_GRID = 256
"""Most cells per side of a feature grid that a stored configuration may ask for."""


@dataclass(frozen=True)
class Found:
    """Where a phrase was found, and the evidence for it, which is not a chance yet."""

    box: Box  # pixels
    proposal: Box  # the box before regression
    evidence: float
    attention: npt.NDArray[np.floating]  # [N] of the coarse stage


class ReirGrounder:
    """The ReIR network with its vocabulary, and the extractor whose regions it was trained on."""

    rerank_weights: RerankWeights | None = None  # its evidence is not comparable between sentences

    def __init__(
        self,
        network: ReirNet,
        vocabulary: Vocabulary,
        extractor: Json,
        name: str,
        calibration: Calibration | None = None,
        grid: int = 0,
        maps: bool = False,
    ) -> None:
        """``grid`` is the largest number of cells per side of the feature grid that moved boxes are pooled from.

        With ``maps`` they are pooled from the maps of an extractor of version 2.
        """
        self.network, self.vocabulary, self.name, self.hash = network.eval(), vocabulary, name, ""
        self.extractor = RegionExtractor(extractor["description"], grid=grid, name=extractor["name"], maps=maps)
        self.calibration = calibration or Calibration()

    @property
    def repools(self) -> bool:
        """Whether moved boxes are pooled again: the network regresses boxes, and the extractor gives grids."""
        return self._refines and self.network.config.repool and (self.extractor.grid > 0 or self.extractor.maps)

    @property
    def signature(self) -> str:
        """What scores state about the network: that moved boxes keep the features of their proposals; else empty."""
        return "moved:not_pooled" if self._refines and not self.repools else ""

    @property
    def _refines(self) -> bool:
        config = self.network.config
        return config.two_stages and config.regress != "none"

    def to(self, device: torch.device) -> Self:
        """Move the weights and the extractor; results are returned on the CPU."""
        self.network.to(device)
        self.extractor.to(device)
        return self

    def encode(self, regions: Sequence[Regions]) -> list[Regions]:
        """Return the regions: phrases and regions are encoded in one pass, by :meth:`find`."""
        for one in regions:
            self.extractor.require(one)
        return list(regions)

    def ground(self, photo: Regions, queries: Sequence[Query], place: Place | None = None) -> list[Grounding]:
        """Return a grounding for every phrase of the queries, in order.

        Phrases of one sentence are grounded together, with the relations between them. The score is the calibrated
        probability that the phrase is present.
        """
        phrases = [phrase for query in queries for phrase in query.phrases]
        if not phrases:
            return []
        descriptions = [describe(query.parse, query.phrases) for query in queries]
        found = next(self.find([photo], [descriptions], place=place))
        groundings = []
        for phrase, one in zip(phrases, found, strict=True):
            heat = heat_map(one.attention, photo.boxes, photo.size)
            point = point_in_box(heat, one.box, centre_of_maximum(heat))
            score = self.calibration(one.evidence)
            moved = None if one.proposal == one.box else one.proposal
            groundings.append(
                Grounding(
                    phrase.text, one.box, score, phrase.start, phrase.end, point=point, heat=heat, initial_box=moved
                )
            )
        return groundings

    def evidence(self, photo: Regions, phrases: Sequence[Phrase], parses: Sequence[Parse] | None = None) -> list[float]:
        """Return the expected coarse score of each text, as a phrase that stands alone."""
        found = next(self.find([photo], [[alone(phrase.text) for phrase in phrases]]))
        return [one.evidence for one in found]

    def phrase_probability(self, evidence: float) -> float:
        """Return the probability that a phrase with this evidence is present."""
        return self.calibration(evidence)

    def caption_probability(self, evidence: float) -> float | None:
        """Return None: whole captions have no calibrated score."""
        return None

    @torch.inference_mode()
    def find(
        self,
        regions: Sequence[Regions],
        descriptions: Sequence[Sequence[Description]],
        batch: int = 32,
        place: Place | None = None,
    ) -> Iterator[list[Found]]:
        """Yield, for each image, the boxes of all phrases of its descriptions, in order."""
        named = self.network.config.names != "none"
        for start in range(0, len(regions), batch):
            some = regions[start : start + batch]
            asked = descriptions[start : start + batch]
            device = device_of(self.network)
            phrases = to_device(pad_phrases(asked, self.vocabulary, embed=named), device)
            names = name_vectors(some, self.network.config.top_names).to(device) if named else None
            again = repooler(some, self.extractor.description) if self.repools else None
            found = self.network(to_device(pad_regions(some), device), phrases, names, place, again)
            answer = to_device(found.predict(), CPU)
            attention = found.attention.cpu().double().numpy()  # [I, P, N]
            for i, one in enumerate(some):
                count = sum(len(description.phrases) for description in asked[i])
                boxes, proposals = (
                    geometry.from_normalised(part[i, :count].numpy(), *one.size)
                    for part in (answer.boxes, answer.proposals)
                )
                yield [
                    Found(
                        geometry.as_box(boxes[p]), geometry.as_box(proposals[p]), float(e), attention[i, p, : len(one)]
                    )
                    for p, e in enumerate(answer.evidence[i, :count])
                ]

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and vocabulary; ``extras`` are further files of text (recipe, card, metrics)."""
        config = {
            "kind": "grounder",
            "name": self.name,
            "refiner": asdict(self.network.config),
            "calibration": asdict(self.calibration),
            "extractor": self.extractor.to_json(),
            "grid": self.extractor.grid,
            "maps": self.extractor.maps,
        }
        write_model(folder, config, self.network, self.vocabulary, extras)

    @classmethod
    def from_pretrained(cls, folder: str | Path, backend: Backend = "numpy") -> ReirGrounder:
        """Read what :meth:`save_pretrained` wrote."""
        with open_model(folder, "grounder") as config:
            sizes = ReirConfig.from_json(config["refiner"])
            network = load_network(ReirNet, sizes, folder)
            vocabulary = load_vocabulary(folder, sizes.vocabulary)
            calibration = from_dict(Calibration, config["calibration"])
            grid = int(config.get("grid", 0))  # models of version 0.1 have none
            if not 0 <= grid <= MAX_GRID:
                raise ValueError(f"grid must be 0 to {MAX_GRID}")
            maps = bool(config.get("maps", False))
            grounder = cls(network, vocabulary, config["extractor"], str(config["name"]), calibration, grid, maps)
            grounder.hash = folder_hash(folder)
        return grounder


def alone(phrase: str) -> Description:
    """A phrase that stands for itself."""
    words = tokens(phrase)
    if not words:
        raise DeixisError(f"the phrase '{phrase}' has no words to look for.")
    return Description(tuple(words), ((0, len(words)),))
