"""ALBEF and AMC grounder: a photograph and phrases in; heat map, point, box and match score out; save and load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from PIL import Image

from deixis import boxes as geometry
from deixis.calibration import UNKNOWN_SCORE, Calibration, Presence
from deixis.errors import DeixisError
from deixis.fields import fits, from_dict
from deixis.files import MAX_SETTINGS, open_regular
from deixis.language.parse import Parse
from deixis.language.queries import Query
from deixis.language.wordpiece import WordPieces
from deixis.layers.arrays import Array, softmax
from deixis.localize.alpha import rank_boxes
from deixis.localize.class_names import phrase_class_probabilities
from deixis.localize.heat_rules import boxes_by_heat
from deixis.localize.points import bicubic_maximum, point_in_box
from deixis.localize.threshold import threshold_box
from deixis.methods.albef.config import OLD_NAMES, AlbefConfig, Pieces
from deixis.methods.albef.images import square_grid, square_pixels, standardise
from deixis.methods.albef.inference import ArrayAlbef, TorchAlbef, weight_shapes
from deixis.methods.albef.inputs import BOUNDS as INPUT_BOUNDS
from deixis.methods.albef.inputs import PUBLISHED, InputConfig, clean_text
from deixis.model_folder import (
    WORDS,
    Backend,
    folder_hash,
    load_arrays,
    load_network,
    open_model,
    require_torch,
    torch_network,
    write_model,
)
from deixis.types import Box, Grounding, HeatMap, HeatPlace, Json, Phrase, Regions, RerankWeights
from deixis.vision.classes import imagenet_classes
from deixis.vision.extractor import RegionExtractor

if TYPE_CHECKING:
    import torch

    from deixis.methods.albef.network import AlbefNet

NAME_WEIGHT, MIN_NAME_PROB = 0.015, 0.01
"""Weight of the log of a detector's class probability in the evidence of a text, and the least probability that counts.
Chosen on validation captions."""

PAIR_WEIGHT, MIN_PHRASE_WEIGHT = 8.0, 1.2
"""Rerank weights of the pair score of a sentence and of the log-probability of its weakest noun phrase. Chosen on
validation captions (``experiments/flickr8k-entities``)."""

BATCH = 64  # texts that are encoded together


@dataclass(frozen=True, eq=False)
class EncodedPhoto:
    """One photograph as the fusion encoder takes it; it is encoded once for all texts."""

    image: Any  # as the implementation of the network encodes it
    size: tuple[int, int]  # width, height
    regions: Regions | None  # proposals, where the model has an extractor
    proposals: geometry.Array | None = None  # boxes for the rule "alpha", instead of the regions
    evidence: dict[tuple[str, str], float] = field(default_factory=dict)  # (text, lemma) -> evidence, computed before


class AlbefGrounder:
    """A fusion model with its word pieces and, where it reads feature grids, the extractor that makes them.

    Without ``presence`` the scores of phrases are probabilities of the match head.
    """

    def __init__(
        self,
        network: AlbefNet | ArrayAlbef,
        pieces: WordPieces,
        extractor: Json | None,
        name: str,
        longest: int = 25,
        presence: Presence | None = None,
        inputs: InputConfig | None = None,
        words: frozenset[str] = frozenset(),
    ) -> None:
        self.words = words  # of the training captions; empty: not recorded, and no word counts as unknown
        self.network, self.pieces, self.name, self.hash = network, pieces, name, ""
        self.calls = network if isinstance(network, ArrayAlbef) else TorchAlbef(network.eval())
        self.inputs = inputs or InputConfig()
        self.longest, self.presence = min(longest, network.config.positions), presence
        self.extractor = None
        if extractor is not None:
            self.extractor = RegionExtractor(extractor["description"], network.config.side, name=extractor["name"])

    def to(self, device: torch.device) -> Self:
        """Move the weights and the extractor; results are returned on the CPU."""
        torch_network(self.network).to(device)
        if self.extractor is not None:
            self.extractor.to(device)
        return self

    @property
    def box_rules(self) -> tuple[str, ...]:
        """Names of the rules that :meth:`ground` takes; without proposals there is nothing to choose from."""
        return ("threshold",) if self.extractor is None else get_args(HeatPlace)

    @property
    def rerank_weights(self) -> RerankWeights | None:
        """Weights for reranking; only calibrated models can rerank."""
        return None if self.presence is None else RerankWeights(PAIR_WEIGHT, MIN_PHRASE_WEIGHT)

    def encode(self, photos: Sequence[Regions | Image.Image]) -> list[EncodedPhoto]:
        """Encode several photographs in one pass: their regions, or pixels where the model has no extractor."""
        encoded = self.calls.encode(np.stack([self.image_input(photo) for photo in photos]))
        return [
            EncodedPhoto(image, photo.size, photo if isinstance(photo, Regions) and len(photo) else None)
            for image, photo in zip(encoded, photos, strict=True)
        ]

    def image_input(self, photo: Regions | Image.Image) -> Array:
        """Return a photograph as the network reads it: a square of grid cells, or of pixels."""
        if self.extractor is None:
            if isinstance(photo, Regions):
                raise DeixisError(f"{self.name} reads pixels, not regions. Give it the photograph itself.")
            side = self.inputs.pixels or self.network.config.pixels
            return standardise(square_pixels(photo, side, self.inputs.resize))
        if not isinstance(photo, Regions):
            raise TypeError("a model with an extractor encodes regions")
        self.extractor.require(photo)
        return square_grid(photo, self.network.config)

    def ground(self, photo: EncodedPhoto, queries: Sequence[Query], place: HeatPlace | None = None) -> list[Grounding]:
        """Return a grounding for every phrase of the queries, in order.

        The score is the probability that the phrase is present. The point is the heat map's maximum (AMC), or the
        hottest point of the box where the maximum lies outside. The box is chosen by ``place``: "heat", our rules
        (:mod:`deixis.localize.heat_rules`); "alpha", heat over the root of the area (AMC, Table 5); "threshold", the
        box around the area that is at least half as hot as the maximum, also where there are no proposals. A phrase
        whose head word is in no training caption has at most the score ``UNKNOWN_SCORE``.
        """
        phrases = [phrase for query in queries for phrase in query.phrases]
        if not phrases:
            return []
        scores, maps = self._scores_and_maps(photo, phrases)
        boxes = self._boxes(photo, phrases, maps, place or "heat")
        heats = [HeatMap(heat, photo.size) for heat in maps]
        unknown = [self.unknown_word(phrase) for phrase in phrases]
        scores = [min(score, UNKNOWN_SCORE) if word else score for score, word in zip(scores, unknown, strict=True)]
        return [
            Grounding(
                phrase.text,
                box,
                score,
                phrase.start,
                phrase.end,
                point=point_in_box(heat, box, bicubic_maximum(heat)),
                heat=heat,
                unknown_word=word,
            )
            for phrase, box, score, heat, word in zip(phrases, boxes, scores, heats, unknown, strict=True)
        ]

    def unknown_word(self, phrase: Phrase) -> str:
        """Return the head word of a phrase if no training caption has it; else the empty string."""
        word = phrase.head.lower()
        return "" if not self.words or not word or {word, phrase.lemma} & self.words else word

    def evidence(
        self, photo: EncodedPhoto, phrases: Sequence[Phrase], parses: Sequence[Parse] | None = None
    ) -> list[float]:
        """Return the pair evidence of each text or, for a model that is not calibrated, its match probability."""
        if self.presence is not None:
            return self.pair_evidence(photo, phrases)
        found: list[float] = []
        for start in range(0, len(phrases), BATCH):
            texts = self.texts([phrase.text for phrase in phrases[start : start + BATCH]])
            found += softmax(self.calls.match_logits(photo.image, texts))[:, 1].tolist()
        return found

    def pair_evidence(self, photo: EncodedPhoto, phrases: Sequence[Phrase]) -> list[float]:
        """Return the pair score of each text, plus the weighted log-probability of its head noun by a detector.

        What was computed for a text of this photograph is not computed again.
        """
        keys = [(phrase.text, phrase.lemma) for phrase in phrases]  # a lemma depends on the sentence
        missing = {key: phrase for key, phrase in zip(keys, phrases, strict=True) if key not in photo.evidence}
        new = list(missing.values())
        scores: list[float] = []
        for start in range(0, len(new), BATCH):
            texts = self.texts([phrase.text for phrase in new[start : start + BATCH]])
            scores += self.calls.pair_scores(photo.image, texts).tolist()
        if photo.regions is not None and new:
            named = self._class_probabilities(new, photo.regions).max(1)
            scores = [
                score + NAME_WEIGHT * math.log(max(prob, MIN_NAME_PROB))
                for score, prob in zip(scores, named, strict=True)
            ]
        photo.evidence.update(zip(missing, scores, strict=True))
        return [photo.evidence[key] for key in keys]

    def phrase_probability(self, evidence: float) -> float:
        """Return the probability that a phrase with this evidence is present."""
        return evidence if self.presence is None else self.presence.phrase(evidence)

    def caption_probability(self, evidence: float) -> float | None:
        """Return the probability that a caption with this evidence is of the photograph."""
        return evidence if self.presence is None else self.presence.caption(evidence)

    def _scores_and_maps(self, photo: EncodedPhoto, phrases: Sequence[Phrase]) -> tuple[list[float], geometry.Array]:
        """Return the score of each phrase, and the maps ``[P, rows, columns]``, scaled to a maximum of 1."""
        scores: list[float] = []
        maps = []
        for start in range(0, len(phrases), BATCH):
            texts = self.texts([phrase.text for phrase in phrases[start : start + BATCH]])
            if self.presence is not None:
                heat = self.calls.maps(photo.image, texts)
            else:
                logits, heat = self.calls.match_and_map(photo.image, texts)
                scores += softmax(logits)[:, 1].tolist()
            maps.append(heat.astype(np.float64))
        if self.presence is not None:
            scores = [self.presence.phrase(one) for one in self.pair_evidence(photo, phrases)]
        hot = np.concatenate(maps)
        most = hot.max((1, 2), keepdims=True)
        return scores, np.divide(hot, most, out=hot, where=most > 0)

    def _boxes(
        self, photo: EncodedPhoto, phrases: Sequence[Phrase], maps: geometry.Array, place: HeatPlace
    ) -> list[Box]:
        regions = photo.regions
        if place == "alpha" and photo.proposals is not None:
            ranked = [rank_boxes(HeatMap(heat, photo.size), photo.proposals) for heat in maps]
            return [geometry.as_box(photo.proposals[order[0]]) for order in ranked]
        if regions is None or place == "threshold":
            return [threshold_box(HeatMap(heat, photo.size)) for heat in maps]
        if place == "alpha":
            return [
                geometry.as_box(regions.boxes[rank_boxes(HeatMap(heat, photo.size), regions.boxes)[0]]) for heat in maps
            ]
        detector = self.extractor is not None and self.extractor.is_detector
        named = self._class_probabilities(phrases, regions)
        return [geometry.as_box(box) for box in boxes_by_heat(maps, regions, named, phrases, detector)]

    def _class_probabilities(self, phrases: Sequence[Phrase], regions: Regions) -> geometry.Array:
        """Return the probability ``[P, N]`` that a region shows a phrase's head noun; ones without a detector."""
        detector = self.extractor is not None and self.extractor.is_detector
        return phrase_class_probabilities(phrases, regions, detector, imagenet_classes())

    def texts(self, texts: Sequence[str]) -> Pieces:
        """Return the word pieces of several texts."""
        return Pieces([encode_text(self.pieces, text, self.inputs, self.longest) for text in texts], self.inputs.sep)

    def for_data(self, name: str) -> AlbefGrounder:
        """Return the grounder with the inputs of the published evaluation on a data set, by the data set's name.

        Models with inputs of ours, and data sets without a published evaluation, keep their inputs.
        """
        if self.extractor is not None or not self.inputs.clean or name not in PUBLISHED:
            return self
        changed = copy(self)
        changed.inputs = PUBLISHED[name]
        return changed

    def save_pretrained(self, folder: str | Path, extras: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and word pieces; ``extras`` are further texts (recipe, card, metrics)."""
        config = {
            "kind": "fusion",
            "name": self.name,
            "fusion": asdict(self.network.config),
            "longest": self.longest,
            "inputs": asdict(self.inputs),
            "presence": None if self.presence is None else asdict(self.presence),
            "extractor": None if self.extractor is None else self.extractor.to_json(),
        }
        files = {**(extras or {}), "vocabulary.json": self.pieces.to_text()}
        if self.words:
            files[WORDS] = "\n".join(sorted(self.words)) + "\n"
        write_model(folder, config, self.network, extras=files)

    @classmethod
    def from_pretrained(cls, folder: str | Path, backend: Backend = "numpy") -> AlbefGrounder:
        """Read what :meth:`save_pretrained` wrote."""
        with open_model(folder, "fusion") as config:
            sizes = AlbefConfig.from_json(config["fusion"])
            network = _load(sizes, folder, backend)
            pieces = WordPieces.load(Path(folder) / "vocabulary.json")
            if len(pieces) != sizes.vocabulary:
                raise ValueError(f"{len(pieces):,} word pieces, and the network has {sizes.vocabulary:,}")
            curves = config.get("presence")  # a model that was not calibrated has none
            presence = None
            if curves is not None:
                presence = Presence(*(from_dict(Calibration, curves[part]) for part in ("phrase", "caption")))
            longest = config["longest"]
            if not fits(longest, int, (3, sizes.positions)):
                raise ValueError(f"the longest text must have 3 to {sizes.positions} word pieces")
            inputs = from_dict(InputConfig, config.get("inputs", {}), INPUT_BOUNDS)  # older models have the defaults
            name, extractor = str(config["name"]), config["extractor"]
            grounder = cls(network, pieces, extractor, name, longest, presence, inputs, read_words(Path(folder)))
            grounder.hash = folder_hash(folder)
        return grounder

    def with_pieces(self, pieces: WordPieces) -> AlbefGrounder:
        """Return the same model with some of its word pieces only."""
        import torch

        from deixis.methods.albef.network import AlbefNet

        rows = torch.tensor([self.pieces.id(piece) for piece in pieces.pieces])
        config = replace(self.network.config, vocabulary=len(pieces))
        weights = torch_network(self.network).state_dict()
        rows_of = ("text.words.weight", *(["words.bias"] if config.word_head else []))  # a row for each word piece
        for name in rows_of:
            weights[name] = weights[name][rows.to(weights[name].device)]
        network = AlbefNet(config)
        network.load_state_dict(weights)
        extractor = None if self.extractor is None else self.extractor.to_json()
        return AlbefGrounder(
            network, pieces, extractor, self.name, self.longest, self.presence, self.inputs, self.words
        )


def read_words(folder: Path) -> frozenset[str]:
    """Return the words of the training captions of a model; empty where they are not recorded."""
    file = folder / WORDS
    if not file.exists():
        return frozenset()
    with open_regular(file, MAX_SETTINGS) as opened:
        return frozenset(opened.read().decode("utf-8").split())


def encode_text(pieces: WordPieces, text: str, inputs: InputConfig, longest: int) -> tuple[int, ...]:
    """Return the word pieces of a text, cleaned and cut as the inputs say: at most ``longest``."""
    return pieces.encode(clean_text(text, inputs.max_words) if inputs.clean else text, longest, inputs.sep)


def _load(sizes: AlbefConfig, folder: str | Path, backend: Backend) -> AlbefNet | ArrayAlbef:
    if backend == "numpy":
        return ArrayAlbef(sizes, load_arrays(folder, weight_shapes(sizes), OLD_NAMES))
    require_torch(str(folder))
    from deixis.methods.albef.network import AlbefNet

    return load_network(AlbefNet, sizes, folder)
