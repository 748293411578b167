"""The grounder: a photograph and phrases in, a box for each phrase out, and how likely it is there at all."""

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
from deixis.device import device_of, to_device
from deixis.errors import DeixisError
from deixis.language.descriptions import Description, describe
from deixis.language.parse import parse
from deixis.language.tokenise import tokens
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_regions
from deixis.localize.heat import heat_map
from deixis.localize.points import centre_of_maximum
from deixis.methods.reir.network import ReirConfig, ReirNet
from deixis.methods.reir.phrases import name_vectors, pad_phrases
from deixis.model_folder import read_model, write_model
from deixis.types import Box, Grounding, Json, Phrase, Regions
from deixis.vision.eyes import Eyes, Photo


@dataclass(frozen=True)
class Found:
    """Where a phrase was found, and the evidence for it, which is not a chance yet."""

    box: Box  # pixels
    evidence: float
    attention: npt.NDArray[np.floating]  # [N] of the coarse stage


class ReirGrounder:
    """A refiner with its vocabulary, and the extractor whose regions it understands."""

    def __init__(
        self,
        refiner: ReirNet,
        vocabulary: Vocabulary,
        extractor: Json,
        name: str,
        calibration: Calibration | None = None,
    ) -> None:
        self.refiner, self.vocabulary = refiner.eval(), vocabulary
        self.eyes, self.name, self.calibration = Eyes(extractor), name, calibration or Calibration()

    def to(self, device: torch.device) -> Self:
        """Move the weights, and those of its eyes; answers come back to the CPU wherever they are."""
        self.refiner.to(device)
        self.eyes.to(device)
        return self

    def ground(
        self, photo: Photo, wanted: str | Sequence[str], phrases: Sequence[Phrase] | None = None
    ) -> list[Grounding]:
        """The places of phrases in a photograph (path or image) or in its regions.

        ``wanted`` is a list of phrases, each of which is looked for by itself; or a caption, whose phrases (found, or
        given as spans of its tokens) are looked for together, with the relations between them. A low score says that
        the phrase is not there.
        """
        if isinstance(wanted, str):
            sentence = describe(parse([wanted], quiet=True)[0], phrases)
            if not sentence.phrases:
                raise DeixisError(f"there is no noun phrase in '{wanted}'; give the phrases themselves, as a list.")
            descriptions, texts = [sentence], sentence.texts()
        else:
            descriptions, texts = [alone(phrase) for phrase in wanted], list(wanted)
        if not texts:
            return []
        regions = self.eyes.look(photo)
        found = next(self.find([regions], [descriptions]))
        heats = [heat_map(one.attention, regions) for one in found]
        spans = [span for description in descriptions for span in description.phrases]
        return [
            Grounding(
                text,
                one.box,
                self.calibration(one.evidence),
                start,
                end,
                point=centre_of_maximum(heat),
                heat=heat,
            )
            for text, one, heat, (start, end) in zip(texts, found, heats, spans, strict=True)
        ]

    @torch.inference_mode()
    def find(
        self, regions: Sequence[Regions], descriptions: Sequence[Sequence[Description]], batch: int = 32
    ) -> Iterator[list[Found]]:
        """For each image the places of all phrases of its descriptions, in order."""
        named = self.refiner.config.names != "none"
        for start in range(0, len(regions), batch):
            some = [self.eyes.look(one) for one in regions[start : start + batch]]
            asked = descriptions[start : start + batch]
            device = device_of(self.refiner)
            phrases = to_device(pad_phrases(asked, self.vocabulary, embed=named), device)
            names = name_vectors(some, self.refiner.config.top_names).to(device) if named else None
            matched = self.refiner(to_device(pad_regions(some), device), phrases, names)
            boxes, evidence = (part.cpu().numpy() for part in matched.predict())
            attention = matched.attention.cpu().double().numpy()  # [I, P, N]
            for i, one in enumerate(some):
                count = sum(len(description.phrases) for description in asked[i])
                pixels = geometry.from_normalised(boxes[i, :count], *one.size)
                yield [
                    Found(geometry.as_box(box), float(e), weights[: len(one)])
                    for box, e, weights in zip(pixels, evidence[i, :count], attention[i, :count], strict=True)
                ]

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and vocabulary; ``extras`` are further files of text (recipe, card, metrics)."""
        config = {
            "kind": "grounder",
            "name": self.name,
            "refiner": asdict(self.refiner.config),
            "calibration": asdict(self.calibration),
            "extractor": self.eyes.to_json(),
        }
        write_model(folder, config, self.refiner, self.vocabulary, extras)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> ReirGrounder:
        """Read what :meth:`save_pretrained` wrote."""

        def build(config: Json) -> tuple[ReirNet, ReirGrounder]:
            refiner = ReirNet(ReirConfig.from_json(config["refiner"]))
            vocabulary = Vocabulary.load(Path(folder) / "vocabulary.json")
            calibration = Calibration(**config["calibration"])
            return refiner, cls(refiner, vocabulary, config["extractor"], str(config["name"]), calibration)

        return read_model(folder, "grounder", build)


def alone(phrase: str) -> Description:
    """A phrase that stands for itself."""
    words = tokens(phrase)
    if not words:
        raise DeixisError(f"the phrase '{phrase}' has no words to look for.")
    return Description(tuple(words), ((0, len(words)),))
