"""The pointer: a photograph and phrases in; for each phrase a heat map, a point, a box and a match score out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from deixis import boxes as geometry
from deixis.device import device_of, to_device
from deixis.errors import DeixisError
from deixis.images import load_image
from deixis.language.parse import parse_words
from deixis.language.tokenise import tokens
from deixis.language.wordpiece import WordPieces
from deixis.metrics.phrases import peak, rank_boxes
from deixis.models.checked import Checked
from deixis.models.eyes import Eyes, Photo
from deixis.models.folder import read_model, write_model
from deixis.models.fusion import Fusion, FusionConfig, Texts, explained
from deixis.models.fusion.images import square_grid, square_pixels, standardised
from deixis.types import Box, GroundedCaption, Grounding, HeatMap, Json, Phrase, Regions


class Pointer:
    """A fusion model with its word pieces and, where it looks at feature grids, the extractor that makes them."""

    def __init__(
        self, network: Fusion, pieces: WordPieces, extractor: Json | None, name: str, longest: int = 25
    ) -> None:
        self.network, self.pieces, self.name, self.longest = network.eval(), pieces, name, longest
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
        box: Literal["proposal", "threshold"] = "proposal",
    ) -> list[Grounding]:
        """The places of phrases, or of the noun phrases of a caption (found, or given); the photograph is encoded once.

        The point is the heat map's maximum, as AMC's evaluation has it; the score is the probability that phrase and
        photograph match. ``box`` is the proposal with the most heat for the root of its area, or the box around what
        is at least half as hot as the maximum; the latter too where there are no proposals.
        """
        spans = self._spans(wanted) if phrases is None else phrases
        if not spans:
            return []
        image, size, proposals = self.see(photo)
        scores, maps = self._match(image, [span.text for span in spans])
        proposals = proposals if box == "proposal" else None
        return [
            self._grounding(span, score, heat, size, proposals)
            for span, score, heat in zip(spans, scores, maps, strict=True)
        ]

    def check(self, photo: Photo, caption: str) -> Checked:
        """How well a caption fits a photograph: a heat map and a match score for each of its noun phrases."""
        words = tokens(caption)
        if not words:
            raise DeixisError("the caption has no words; write a sentence about the photograph.")
        image, size, proposals = self.see(photo)
        spans = self._spans(caption)
        scores, maps = self._match(image, [caption, *(span.text for span in spans)])
        groundings = tuple(
            self._grounding(span, score, heat, size, proposals)
            for span, score, heat in zip(spans, scores[1:], maps[1:], strict=True)
        )
        name = str(photo) if isinstance(photo, str | Path) else ""
        return Checked(GroundedCaption(words, groundings, None, name, *size, self.name, caption), scores[0])

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and word pieces; ``extras`` are further texts (recipe, card, metrics)."""
        config = {
            "kind": "fusion",
            "name": self.name,
            "fusion": asdict(self.network.config),
            "longest": self.longest,
            "extractor": None if self.eyes is None else self.eyes.to_json(),
        }
        files = {**(extras or {}), "vocabulary.json": self.pieces.to_text()}
        write_model(folder, config, self.network, extras=files)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Pointer:
        """Read what :meth:`save_pretrained` wrote."""

        def build(config: Json) -> tuple[Fusion, Pointer]:
            network = Fusion(FusionConfig(**config["fusion"]))
            pieces = WordPieces.load(Path(folder) / "vocabulary.json")
            return network, cls(network, pieces, config["extractor"], str(config["name"]), int(config["longest"]))

        return read_model(folder, "fusion", build)

    def texts(self, texts: Sequence[str]) -> Texts:
        """The word pieces of several texts, where the network reads them."""
        padded = pad_texts([self.pieces.encode(text, self.longest) for text in texts], self.pieces.id("[PAD]"))
        return to_device(padded, device_of(self.network))

    def see(self, photo: Photo) -> tuple[Tensor, tuple[int, int], npt.NDArray[np.floating] | None]:
        """A photograph as the network takes it ``[1, ...]``, its width and height, its proposals ``[N, 4]`` if any."""
        config, device = self.network.config, device_of(self.network)
        if self.eyes is not None:
            regions = self.eyes.look(photo)
            return square_grid(regions, config)[None].to(device), regions.size, regions.boxes
        if isinstance(photo, Regions):
            raise DeixisError(f"the model {self.name} reads photographs themselves, not regions of them.")
        image = photo if isinstance(photo, Image.Image) else load_image(photo)
        return standardised(square_pixels(image, config))[None].to(device), image.size, None

    @torch.no_grad()
    def _match(self, image: Tensor, texts: Sequence[str], batch: int = 64) -> tuple[list[float], list[geometry.Array]]:
        """The probability of a match and the map of each text; the image is encoded once, texts go in batches."""
        encoded, scores, maps = self.network.encode(image), [], []
        for start in range(0, len(texts), batch):
            matched = explained(self.network, encoded, self.texts(texts[start : start + batch]))
            scores += matched.logits.softmax(-1)[:, 1].tolist()
            maps += list(matched.maps.cpu().double().numpy())
        return scores, maps

    def _spans(self, wanted: str | Sequence[str]) -> list[Phrase]:
        if not isinstance(wanted, str):
            return [Phrase(text, 0, len(tokens(text))) for text in wanted]
        words = tokens(wanted)
        return list(parse_words([words], quiet=True)[0].phrases) if words else []

    def _grounding(
        self,
        phrase: Phrase,
        score: float,
        heat: npt.NDArray[np.floating],
        size: tuple[int, int],
        proposals: npt.NDArray[np.floating] | None,
    ) -> Grounding:
        most = heat.max()
        there = HeatMap(heat / most if most > 0 else heat, size)  # 1 at its maximum, whatever the text's length
        if proposals is None or len(proposals) == 0:
            box = threshold_box(there)
        else:
            x1, y1, x2, y2 = (float(value) for value in proposals[rank_boxes(there, proposals)[0]])
            box = x1, y1, x2, y2
        return Grounding(phrase.text, box, score, phrase.start, phrase.end, point=peak(there), heat=there)


def threshold_box(heat: HeatMap, share: float = 0.5) -> Box:
    """The box around the cells that are joined to the hottest one, side by side, and at least ``share`` as hot."""
    hot = heat.grid >= share * heat.grid.max()
    reached = np.zeros_like(hot)
    reached[np.unravel_index(int(heat.grid.argmax()), hot.shape)] = True
    while True:
        grown = reached.copy()
        grown[1:] |= reached[:-1]
        grown[:-1] |= reached[1:]
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        grown &= hot
        if (grown == reached).all():
            break
        reached = grown
    rows, columns = np.flatnonzero(reached.any(1)), np.flatnonzero(reached.any(0))
    across, down = heat.size[0] / hot.shape[1], heat.size[1] / hot.shape[0]
    x1, x2 = float(columns[0] * across), float((columns[-1] + 1) * across)
    y1, y2 = float(rows[0] * down), float((rows[-1] + 1) * down)
    return x1, y1, x2, y2


def pad_texts(ids: Sequence[Sequence[int]], pad: int, length: int = 0) -> Texts:
    """Word pieces of several texts, padded to the longest of them, or to ``length``."""
    length = max(length, max(map(len, ids)))
    padded = torch.tensor([[*row, *[pad] * (length - len(row))] for row in ids])
    return Texts(padded, torch.arange(length) < torch.tensor([len(row) for row in ids])[:, None])
