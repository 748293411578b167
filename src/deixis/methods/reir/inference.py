"""Calls of the ReIR network during inference: on NumPy arrays, or in torch behind the same interface.

:class:`ArrayReir` has the equations of :class:`~deixis.methods.reir.network.ReirNet` on weights that are read from a
model folder; it needs no torch. It computes one image after the other, so that there is no padding.

Sizes in shapes: N regions of an image, P phrases of all its captions, K regions that are kept for a phrase, C captions,
D the common width of words and regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from deixis import boxes as geometry
from deixis.language.descriptions import Description
from deixis.language.vocabulary import Vocabulary
from deixis.layers.arrays import Array, Weights, linear, lstm_gates, named_linear, relu, softmax, unit
from deixis.layers.padded import pad_arrays
from deixis.layers.text_vectors import text_vectors
from deixis.localize.votes import region_votes
from deixis.methods.reir.config import MIN_NAME, ReirConfig
from deixis.methods.reir.names import name_vectors
from deixis.types import Box, Json, Place, Regions
from deixis.vision.moved import can_repool, pool_boxes

if TYPE_CHECKING:
    from deixis.methods.reir.network import ReirNet

SCALES = np.array([10, 10, 5, 5], np.float32)
MAX_LOG_SCALE = 4.0
"""Of offsets, as in :mod:`deixis.localize.box_regression`."""

BATCH = 32  # images that torch computes together


@dataclass(frozen=True)
class Found:
    """Where a phrase was found, and the evidence for it, which is not a chance yet."""

    box: Box  # pixels
    proposal: Box  # the box before regression
    evidence: float
    attention: Array  # [N] of the coarse stage


@dataclass(frozen=True)
class Options:
    """What an answer depends on besides the network."""

    vocabulary: Vocabulary
    extractor: Json  # description, by which moved boxes are pooled again
    repool: bool = False  # pool moved boxes again, where the regions carry what is needed
    place: Place | None = None  # overrides the box rule of the configuration


class ReirCalls(Protocol):
    """What the grounder calls."""

    config: ReirConfig
    backend: str

    def find(
        self, regions: Sequence[Regions], descriptions: Sequence[Sequence[Description]], options: Options
    ) -> list[list[Found]]:
        """Return for each image the boxes of all phrases of its descriptions, in order."""


# NumPy ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Coarse:
    """Output of the coarse stage for the phrases of one image."""

    phrases: Array  # [P, D] x_q
    names: Array | None  # [P, N] s^a
    scores: Array  # [P, N] s^c, -inf for excluded regions
    attention: Array  # [P, N] alpha^c
    confidence: Array  # [P, N] by which regions are ranked
    offsets: Array | None  # [P, N, 4] delta^c


class ArrayReir:
    """The network on NumPy arrays; ``weights`` have the names of :func:`weight_shapes`."""

    backend = "numpy"

    def __init__(self, config: ReirConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights

    def state_dict(self) -> Weights:
        """Weights by name."""
        return self.weights

    def find(
        self, regions: Sequence[Regions], descriptions: Sequence[Sequence[Description]], options: Options
    ) -> list[list[Found]]:
        """Return for each image the boxes of all phrases of its descriptions, in order."""
        return [self._find(*each, options) for each in zip(regions, descriptions, strict=True)]

    def _find(self, photo: Regions, descriptions: Sequence[Description], options: Options) -> list[Found]:
        c = self.config
        if not any(description.phrases for description in descriptions):
            return []
        padded = pad_arrays([photo])
        boxes, mask = padded.boxes[0], padded.mask[0]
        by_votes = (options.place or c.place) == "vote"
        scores_of_boxes = padded.scores[0] if c.detector and padded.scores is not None else None
        appearance = self._appearance(padded.features[0])
        coarse = self._coarse(photo, descriptions, options.vocabulary, self._located(appearance, boxes), mask)
        if by_votes:
            coarse = _Coarse(**{**vars(coarse), "confidence": _vote_shares(boxes, coarse, scores_of_boxes)})
        rows = np.arange(len(coarse.phrases))
        if not c.two_stages:
            best = coarse.confidence.argmax(-1)
            proposals = boxes[best]
            moved = proposals if coarse.offsets is None else _moved(proposals, coarse.offsets[rows, best])
        else:
            best, moved = self._fine(photo, descriptions, options, coarse, boxes, appearance, by_votes)
            proposals = boxes[best]
        evidence = (softmax(coarse.scores.copy()) * np.where(np.isinf(coarse.scores), 0, coarse.scores)).sum(-1)
        pixels, before = (geometry.from_normalised(part, *photo.size) for part in (moved, proposals))
        return [
            Found(geometry.as_box(pixels[p]), geometry.as_box(before[p]), float(evidence[p]), attention)
            for p, attention in enumerate(coarse.attention.astype(np.float64))
        ]

    def _coarse(
        self, photo: Regions, descriptions: Sequence[Description], vocabulary: Vocabulary, x_o: Array, mask: Array
    ) -> _Coarse:
        """Match all regions ``x_o [N, D]`` with all phrases (Eq. 1 to 4)."""
        c = self.config
        x_q = self._phrases(descriptions, vocabulary)
        names = None
        if c.names != "none":
            texts = text_vectors([text for description in descriptions for text in description.texts()])
            names = relu(texts @ name_vectors(photo, c.top_names).T)  # Eq. 3
            names[names.max(-1) < c.min_similarity] = 1
        raw = self._similarity("coarse", x_q, x_o[None])
        scores = self._fuse(raw, names, np.broadcast_to(mask, raw.shape))
        attention = softmax(scores.copy())
        return _Coarse(x_q, names, scores, attention, attention, self._offsets("coarse", x_q, x_o[None]))

    def _fine(
        self,
        photo: Regions,
        descriptions: Sequence[Description],
        options: Options,
        coarse: _Coarse,
        boxes: Array,
        appearance: Array,
        by_votes: bool,
    ) -> tuple[Array, Array]:
        """Region ``[P]`` and moved box ``[P, 4]`` of each phrase after the second stage (Eq. 5 to 11)."""
        c, rows = self.config, np.arange(len(coarse.phrases))
        index = np.argsort(-coarse.confidence, axis=-1, kind="stable")[:, : c.keep]  # [P, K]
        places = boxes[index]
        kept = appearance[index]  # [P, K, D]
        if coarse.offsets is not None:
            places = _moved(places, np.take_along_axis(coarse.offsets, index[..., None], 1))
            if options.repool and c.repool and can_repool(photo, options.extractor):
                pooled = pool_boxes(photo, places.reshape(-1, 4), index.ravel(), options.extractor)
                kept = self._appearance(pooled).reshape(kept.shape)
        x_o = self._located(kept, places)
        weight = np.take_along_axis(coarse.attention, index, -1)[..., None]  # [P, K, 1]
        if c.graph != "none":
            node = (weight * x_o).sum(1)  # Eq. 5
            x_o = x_o + weight * self._pass_messages(node, _related(descriptions))[:, None]  # Eq. 8
        pair = "coarse" if c.share_stages else "fine"
        names = None if coarse.names is None else np.take_along_axis(coarse.names, index, -1)
        possible = np.take_along_axis(coarse.scores, index, -1) > -np.inf
        scores = self._fuse(self._similarity(pair, coarse.phrases, x_o), names, possible)  # Eq. 9
        confidence = np.take_along_axis(coarse.confidence, index, -1)
        if not by_votes:
            confidence = confidence * softmax(scores)  # Eq. 11
        best = confidence.argmax(-1)
        offsets = self._offsets(pair, coarse.phrases, x_o)  # Eq. 10
        chosen = places[rows, best]
        return index[rows, best], chosen if offsets is None else _moved(chosen, offsets[rows, best])

    # Phrases and regions

    def _phrases(self, descriptions: Sequence[Description], vocabulary: Vocabulary) -> Array:
        """x_q ``[P, D]``: mean over a phrase's words of the states of an LSTM over its sentence, or alone (Eq. 1)."""
        ids = [vocabulary.encode(description.words, ends=False) for description in descriptions]
        spans = [description.phrases for description in descriptions]
        if not self.config.context:
            ids = [row[start:end] for row, own in zip(ids, spans, strict=True) for start, end in own]
            spans = [((0, len(row)),) for row in ids]
        states = self._lstm(ids)
        return np.stack([row[start:end].mean(0) for row, own in zip(states, spans, strict=True) for start, end in own])

    def _lstm(self, ids: Sequence[Sequence[int]]) -> Array:
        """States ``[C, T, D]`` of sentences; those after the end of a sentence have no meaning."""
        w, width = self.weights, self.config.width
        words = np.full((len(ids), max(map(len, ids))), Vocabulary.pad)
        for row, own in zip(words, ids, strict=True):
            row[: len(own)] = own
        bias = w["phrase_lstm.bias_ih_l0"] + w["phrase_lstm.bias_hh_l0"]
        gates = linear(w["embed.weight"][words], w["phrase_lstm.weight_ih_l0"], bias)  # [C, T, 4 D]
        states = np.empty((*words.shape, width), np.float32)
        hidden = cell = np.zeros((len(ids), width), np.float32)
        for step in range(words.shape[1]):
            hidden, cell = lstm_gates(gates[:, step] + linear(hidden, w["phrase_lstm.weight_hh_l0"]), cell)
            states[:, step] = hidden
        return states

    def _appearance(self, features: Array) -> Array:
        whitened = named_linear(features, self.weights, "whiten") if self.config.whiten else features
        return named_linear(whitened, self.weights, "embed_regions")

    def _located(self, appearance: Array, boxes: Array) -> Array:
        """x_o: appearance plus embedded corners and area."""
        size = boxes[..., 2:] - boxes[..., :2]
        corners = np.concatenate([boxes, size.prod(-1, keepdims=True)], -1).astype(np.float32)
        return relu(appearance + linear(corners, self.weights["embed_location.weight"]))

    # Pairs

    def _similarity(self, pair: str, phrases: Array, regions: Array) -> Array:
        """Scores ``[P, R]`` of phrases ``[P, D]`` and regions ``[1 or P, R, D]`` (F_cls of Eq. 2, 9)."""
        w = self.weights
        projected = named_linear(phrases, w, f"{pair}.phrase")
        others = linear(regions, w[f"{pair}.region.weight"])
        match self.config.similarity:
            case "product":
                cosine = (unit(projected)[:, None] @ unit(others).swapaxes(1, 2))[:, 0]
                return w[f"{pair}.scale"] * cosine
            case "linear":
                return projected + others[..., 0]
        hidden = relu(projected[:, None] + others)
        return (hidden @ w[f"{pair}.score.weight"][0]) + w[f"{pair}.score.bias"]

    def _offsets(self, pair: str, phrases: Array, regions: Array) -> Array | None:
        """Offsets ``[P, R, 4]`` of regions for phrases (F_reg of Eq. 2, 10); None without regression."""
        if self.config.regress == "none":
            return None
        w = self.weights
        hidden = named_linear(regions, w, f"{pair}.move_region")
        if self.config.regress == "phrase":
            hidden = hidden + linear(phrases, w[f"{pair}.move_phrase.weight"])[:, None]
        offsets = named_linear(relu(hidden), w, f"{pair}.offset")
        return np.broadcast_to(offsets, (len(phrases), *offsets.shape[1:]))

    def _fuse(self, raw: Array, names: Array | None, possible: Array) -> Array:
        """Scores with the similarity of names (Eq. 4, 9); -inf for excluded regions."""
        if names is None:
            return np.where(possible, raw, -np.inf).astype(np.float32)
        if self.config.names == "add":
            fused = raw + self.weights["name_share"] * 10 * names
        elif self.config.names == "prior":
            fused = raw + self.weights["name_share"] * np.log(np.maximum(names, np.float32(MIN_NAME)))
        else:
            similar = possible & (names > 0)
            possible = np.where(similar.any(-1, keepdims=True), similar, possible)
            fused = raw * names
        return np.where(possible, fused, -np.inf).astype(np.float32)

    def _pass_messages(self, nodes: Array, related: Array) -> Array:
        """z' ``[P, D]`` of the nodes z and the relations between them ``[P, P]`` (Eq. 6, 7)."""
        messages = named_linear(relu(named_linear(nodes, self.weights, "message.0")), self.weights, "message.2")
        if self.config.graph == "uniform":
            weights = related.astype(np.float32)
            weights /= np.maximum(weights.sum(-1, keepdims=True), 1)
        else:
            energy = np.where(related, messages @ messages.T, np.finfo(np.float32).min)
            weights = np.where(related, softmax(energy), 0)
        return nodes + weights @ messages


def _related(descriptions: Sequence[Description]) -> Array:
    """Whether two phrases ``[P, P]`` of an image have a relation of any kind."""
    count = sum(len(description.phrases) for description in descriptions)
    related = np.zeros((count, count), bool)
    first = 0
    for description in descriptions:
        for relation in description.relations:
            a, b = first + relation.subject, first + relation.object
            related[a, b] = related[b, a] = True
        first += len(description.phrases)
    return related


def _moved(boxes: Array, offsets: Array) -> Array:
    """Boxes ``[..., 4]`` moved by scaled offsets, inside the image."""
    step = offsets / SCALES
    size = boxes[..., 2:] - boxes[..., :2]
    middle = (boxes[..., 2:] + boxes[..., :2]) / 2 + step[..., :2] * size
    half = size * np.exp(np.clip(step[..., 2:], -MAX_LOG_SCALE, MAX_LOG_SCALE)) / 2
    return np.clip(np.concatenate([middle - half, middle + half], -1), 0, 1)


def _vote_shares(boxes: Array, coarse: _Coarse, scores: Array | None) -> Array:
    """Share ``[P, N]`` of each region in the votes; 0 for excluded regions."""
    votes = np.stack([region_votes(boxes, attention, scores) for attention in coarse.attention])
    votes[np.isinf(coarse.scores)] = 0
    return votes / np.maximum(votes.sum(-1, keepdims=True), 1e-12)


def weight_shapes(c: ReirConfig) -> Mapping[str, tuple[int, ...]]:
    """Names and shapes of the weights of a network."""
    shapes: dict[str, tuple[int, ...]] = {
        "embed.weight": (c.vocabulary, c.words),
        "phrase_lstm.weight_ih_l0": (4 * c.width, c.words),
        "phrase_lstm.weight_hh_l0": (4 * c.width, c.width),
        "phrase_lstm.bias_ih_l0": (4 * c.width,),
        "phrase_lstm.bias_hh_l0": (4 * c.width,),
        **_layer("embed_regions", c.whiten or c.features, c.width),
        "embed_location.weight": (c.width, 5),
    }
    if c.whiten:
        shapes |= _layer("whiten", c.features, c.whiten)
    if c.names in ("add", "prior"):
        shapes["name_share"] = ()
    if c.graph != "none":
        shapes |= _layer("message.0", c.width, c.hidden) | _layer("message.2", c.hidden, c.width)
    for pair in ("coarse", "fine") if c.two_stages and not c.share_stages else ("coarse",):
        projected = 1 if c.similarity == "linear" else c.hidden
        shapes |= {**_layer(f"{pair}.phrase", c.width, projected), f"{pair}.region.weight": (projected, c.width)}
        if c.similarity == "network":
            shapes |= _layer(f"{pair}.score", c.hidden, 1)
        elif c.similarity == "product":
            shapes[f"{pair}.scale"] = ()
        if c.regress != "none":
            shapes |= _layer(f"{pair}.move_region", c.width, c.regress_hidden)
            shapes |= _layer(f"{pair}.offset", c.regress_hidden, 4)
        if c.regress == "phrase":
            shapes[f"{pair}.move_phrase.weight"] = (c.regress_hidden, c.width)
    return shapes


def _layer(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


# torch ---------------------------------------------------------------------------------------------------------------


class TorchReir:
    """A network of torch behind the same interface."""

    backend = "torch"

    def __init__(self, network: ReirNet) -> None:
        self.network, self.config = network, network.config

    def find(
        self, regions: Sequence[Regions], descriptions: Sequence[Sequence[Description]], options: Options
    ) -> list[list[Found]]:
        """Return for each image the boxes of all phrases of its descriptions, in order."""
        import torch

        found: list[list[Found]] = []
        with torch.inference_mode():
            for start in range(0, len(regions), BATCH):
                some = slice(start, start + BATCH)
                found += self._batch(regions[some], descriptions[some], options)
        return found

    def _batch(
        self, regions: Sequence[Regions], descriptions: Sequence[Sequence[Description]], options: Options
    ) -> list[list[Found]]:
        from deixis.device import CPU, device_of, to_device
        from deixis.layers.padding import pad_regions
        from deixis.methods.reir.phrases import name_vectors as padded_name_vectors
        from deixis.methods.reir.phrases import pad_phrases
        from deixis.vision.repool import repooler

        device, named = device_of(self.network), self.config.names != "none"
        phrases = to_device(pad_phrases(descriptions, options.vocabulary, embed=named), device)
        names = padded_name_vectors(regions, self.config.top_names).to(device) if named else None
        again = repooler(regions, options.extractor) if options.repool else None
        found = self.network(to_device(pad_regions(regions), device), phrases, names, options.place, again)
        answer = to_device(found.predict(), CPU)
        attention = found.attention.cpu().double().numpy()  # [I, P, N]
        results = []
        for i, one in enumerate(regions):
            count = sum(len(description.phrases) for description in descriptions[i])
            boxes, proposals = (
                geometry.from_normalised(part[i, :count].numpy(), *one.size)
                for part in (answer.boxes, answer.proposals)
            )
            evidence = answer.evidence[i, :count].tolist()
            results.append(
                [
                    Found(geometry.as_box(boxes[p]), geometry.as_box(proposals[p]), e, attention[i, p, : len(one)])
                    for p, e in enumerate(evidence)
                ]
            )
        return results
