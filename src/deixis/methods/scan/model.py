"""The aligner: a photograph and a sentence in, how well they fit and where each noun of the sentence is out.

It is a matcher with its vocabulary and eyes. The same network that ranks photographs for a sentence points at what the
sentence names, because it compares words with regions and learns from nothing but which sentence belongs to which
photograph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deixis import boxes as geometry
from deixis.calibration import Calibration
from deixis.device import CPU, device_of, to_device
from deixis.errors import DeixisError
from deixis.language.nouns import counted_words
from deixis.language.parse import Parse, parse
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_regions
from deixis.localize.attention import select_region
from deixis.localize.heat import heat_map
from deixis.localize.points import centre_of_maximum
from deixis.methods.scan.network import EncodedRegions, ScanConfig, ScanNet
from deixis.model_folder import read_model, write_model
from deixis.types import Grounding, Json, Phrase, Place, Regions
from deixis.vision.eyes import Eyes, Photo

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Placing:
    """How attention over regions becomes a place."""

    place: Place = "vote"  # the region with the most attention, or the one that all regions vote for
    cells: int = 32  # of the heat map, along each side

    @classmethod
    def from_json(cls, value: Json) -> Placing:
        """Read a stored configuration; version 0.1 called the place "attention" "best"."""
        return cls("attention" if value["place"] == "best" else value["place"], int(value["cells"]))


class ScanGrounder:
    """A matcher with its vocabulary, and the extractor whose regions it understands."""

    def __init__(
        self,
        matcher: ScanNet,
        vocabulary: Vocabulary,
        extractor: Json,
        name: str,
        calibration: Calibration | None = None,
        placing: Placing | None = None,
    ) -> None:
        self.matcher, self.vocabulary = matcher.eval(), vocabulary
        self.eyes, self.name = Eyes(extractor), name
        self.calibration, self.placing = calibration or Calibration(), placing or Placing()

    def to(self, device: torch.device) -> Self:
        """Move the weights, and those of its eyes; answers come back to the CPU wherever they are."""
        self.matcher.to(device)
        self.eyes.to(device)
        return self

    def ground(
        self, photo: Photo, wanted: str | Sequence[str], phrases: Sequence[Phrase] | None = None
    ) -> list[Grounding]:
        """The places of the noun phrases of a sentence, or of those ``phrases`` of it (spans of its tokens).

        A list of texts is a list of phrases that stand alone, each with one answer. The attention of a phrase is the
        mean over its nouns (over all its words where it has none). The box is the region that all regions vote for by
        their attention, or the best one (:attr:`Placing.place`). The heat map sums the attention of all regions over
        the image, and the point is the middle of its hottest place. The score is the chance that the thing is there at
        all, by how near the words come to what they attend to.
        """
        regions = self.eyes.look(photo)
        if isinstance(wanted, str):
            (grammar,) = parses = parse([wanted], quiet=True)
            named = [list(grammar.phrases if phrases is None else phrases)]
        else:
            parses = parse(wanted, quiet=True)
            named = [[Phrase(text, 0, len(grammar))] for text, grammar in zip(wanted, parses, strict=True)]
        found = []
        for several, grammar, look, near in zip(named, parses, *self.align(regions, parses), strict=True):
            for phrase in several:
                span = range(phrase.start, phrase.end)
                words = [t for t in span if grammar.nouns[t]] or list(span)
                if not words:
                    raise DeixisError(f"there is no word in the phrase '{phrase.text}' to look for.")
                score = self.calibration(float(near[words].mean()))
                found.append(place(phrase, look[words].mean(0), score, regions, self.placing, self.eyes.detector))
        return found

    def score(self, photo: Photo, sentence: str) -> float:
        """How well the sentence fits the photograph: a cosine where the matcher takes the mean over words."""
        return float(self.scores([self.eyes.look(photo)], [sentence])[0, 0])

    @torch.no_grad()
    def scores(self, regions: Sequence[Regions], sentences: Sequence[str], batch: int = 64) -> npt.NDArray[np.float32]:
        """Scores ``[images, sentences]`` of all pairs, ``batch`` images at a time."""
        encoded = self.matcher.encode_words(*self.encode(parse(sentences, quiet=True)))
        rows = []
        for start in range(0, len(regions), batch):
            some = [self.eyes.look(one) for one in regions[start : start + batch]]
            rows.append(self.matcher.scores(encode_regions(self.matcher, some), encoded).cpu())
        return torch.cat(rows).numpy()

    @torch.no_grad()
    def align(self, regions: Regions, parses: Sequence[Parse]) -> tuple[list[Floats], list[Floats]]:
        """Where each token of each sentence looks ``[tokens, N]``, and how near it comes to what is there ``[tokens]``.

        Begin and end are read, but not told.
        """
        words, counts = self.encode(parses)
        encoded = self.matcher.encode_words(words[None], counts[None])
        attention, relevance = self.matcher.align(encode_regions(self.matcher, [regions]), encoded)
        spans = [slice(1, 1 + len(grammar)) for grammar in parses]
        return (
            [look[span].numpy() for look, span in zip(attention[0].cpu(), spans, strict=True)],
            [near[span].numpy() for near, span in zip(relevance[0].cpu(), spans, strict=True)],
        )

    def encode(self, parses: Sequence[Parse]) -> tuple[Tensor, Tensor]:
        """Word ids and which of them count, both ``[C, T]``, as the matcher reads them and where it does."""
        count = self.matcher.config.count
        ids = [self.vocabulary.encode(grammar.tokens) for grammar in parses]
        counts = [with_ends(counted_words(parsed, count, self.vocabulary), count) for parsed in parses]
        return pad_words(ids, counts, device_of(self.matcher))

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and vocabulary; ``extras`` are further files of text (recipe, card, metrics)."""
        config = {
            "kind": "matcher",
            "name": self.name,
            "matcher": asdict(self.matcher.config),
            "calibration": asdict(self.calibration),
            "placing": asdict(self.placing),
            "extractor": self.eyes.to_json(),
        }
        write_model(folder, config, self.matcher, self.vocabulary, extras)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> ScanGrounder:
        """Read what :meth:`save_pretrained` wrote."""

        def build(config: Json) -> tuple[ScanNet, ScanGrounder]:
            matcher = ScanNet(ScanConfig(**config["matcher"]))
            vocabulary = Vocabulary.load(Path(folder) / "vocabulary.json")
            calibration, placing = Calibration(**config["calibration"]), Placing.from_json(config["placing"])
            return matcher, cls(matcher, vocabulary, config["extractor"], str(config["name"]), calibration, placing)

        return read_model(folder, "matcher", build)


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


def place(
    phrase: Phrase, weights: Floats, score: float, regions: Regions, placing: Placing, detector: bool = False
) -> Grounding:
    """The place of a phrase whose attention over the regions is ``weights [N]``; see :meth:`ScanGrounder.ground`."""
    heat = heat_map(weights, regions, placing.cells)
    return Grounding(
        text=phrase.text,
        box=geometry.as_box(regions.boxes[select_region(regions, weights, placing.place, detector)]),
        score=score,
        start=phrase.start,
        end=phrase.end,
        point=centre_of_maximum(heat),
        heat=heat,
    )
