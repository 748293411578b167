"""ReIR grounder: regions and phrases in, a box and a probability of presence for each phrase out; save and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Self, get_args

from deixis.calibration import Calibration
from deixis.errors import DeixisError
from deixis.fields import from_dict
from deixis.language.descriptions import Description, describe
from deixis.language.parse import Parse
from deixis.language.queries import Query
from deixis.language.tokenise import tokens
from deixis.language.vocabulary import Vocabulary
from deixis.localize.heat import heat_map
from deixis.localize.points import centre_of_maximum, point_in_box
from deixis.methods.reir.config import OLD_NAMES, ReirConfig
from deixis.methods.reir.inference import ArrayReir, Found, Options, ReirCalls, TorchReir, weight_shapes
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

    from deixis.methods.reir.network import ReirNet

MAX_GRID = 256
"""Most cells per side of a feature grid that a stored configuration may ask for."""


class ReirGrounder:
    """The ReIR network with its vocabulary, and the extractor whose regions it was trained on."""

    rerank_weights: RerankWeights | None = None  # its evidence is not comparable between sentences

    def __init__(
        self,
        network: ReirNet | ArrayReir,
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
        self.network, self.vocabulary, self.name, self.hash = network, vocabulary, name, ""
        self.calls: ReirCalls = network if isinstance(network, ArrayReir) else TorchReir(network.eval())
        self.extractor = RegionExtractor(extractor["description"], grid=grid, name=extractor["name"], maps=maps)
        self.calibration = calibration or Calibration()

    @property
    def box_rules(self) -> tuple[str, ...]:
        """Names of the rules that :meth:`ground` takes."""
        return get_args(Place)

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
        torch_network(self.network).to(device)
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
        (found,) = self.find([photo], [descriptions], place)
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
        (found,) = self.find([photo], [[alone(phrase.text) for phrase in phrases]])
        return [one.evidence for one in found]

    def phrase_probability(self, evidence: float) -> float:
        """Return the probability that a phrase with this evidence is present."""
        return self.calibration(evidence)

    def caption_probability(self, evidence: float) -> float | None:
        """Return None: whole captions have no calibrated score."""
        return None

    def find(
        self,
        regions: Sequence[Regions],
        descriptions: Sequence[Sequence[Description]],
        place: Place | None = None,
    ) -> list[list[Found]]:
        """Return, for each image, the boxes of all phrases of its descriptions, in order."""
        options = Options(self.vocabulary, self.extractor.description, self.repools, place)
        return self.calls.find(regions, descriptions, options)

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
            network = _load(sizes, folder, backend)
            vocabulary = load_vocabulary(folder, sizes.vocabulary)
            calibration = from_dict(Calibration, config["calibration"])
            grid = int(config.get("grid", 0))  # models of version 0.1 have none
            if not 0 <= grid <= MAX_GRID:
                raise ValueError(f"grid must be 0 to {MAX_GRID}")
            maps = bool(config.get("maps", False))
            grounder = cls(network, vocabulary, config["extractor"], str(config["name"]), calibration, grid, maps)
            grounder.hash = folder_hash(folder)
        return grounder


def _load(sizes: ReirConfig, folder: str | Path, backend: Backend) -> ReirNet | ArrayReir:
    if backend == "numpy":
        return ArrayReir(sizes, load_arrays(folder, weight_shapes(sizes), OLD_NAMES))
    require_torch("--device")
    from deixis.methods.reir.network import ReirNet

    return load_network(ReirNet, sizes, folder)


def alone(phrase: str) -> Description:
    """A phrase that stands for itself."""
    words = tokens(phrase)
    if not words:
        raise DeixisError(f"the phrase '{phrase}' has no words to look for.")
    return Description(tuple(words), ((0, len(words)),))
