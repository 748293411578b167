"""Two-stage phrase grounding network (ReIR): coarse match of all regions, then fine match of the best K.

Relation-aware Instance Refinement for Weakly Supervised Visual Grounding; equation numbers are the paper's. README.md
in this folder lists all equations.

Sizes in shapes: I images, N regions of an image, P phrases of all its captions, K regions that are kept for a phrase,
C captions, D the common width of words and regions. All phrases of all images are processed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.distributed import gather
from deixis.language.vocabulary import Vocabulary
from deixis.layers.lstm import run_lstm
from deixis.layers.noise import drop, fold
from deixis.layers.padding import PaddedRegions
from deixis.localize.batched_votes import votes
from deixis.localize.box_regression import apply_offsets
from deixis.methods.reir.config import MIN_NAME, OLD_NAMES, ReirConfig
from deixis.methods.reir.phrases import PaddedPhrases
from deixis.types import Place

Repool = Callable[[Tensor, Tensor], Tensor]
"""Features ``[I, P, K, F]`` of boxes ``[I, P, K, 4]`` (fractions of the image) that were the regions ``[I, P, K]``."""


@dataclass(frozen=True)
class Matched:
    """Output of the network. Values of masked phrases are finite and have no meaning."""

    phrases: Tensor  # [I, P, D] x_q
    regions: Tensor  # [I, N, D] x_o
    phrase_projection: Tensor  # [I, P, hidden] first layer of F_cls on phrases
    region_projection: Tensor  # [I, N, hidden] and on regions
    scores: Tensor  # [I, P, N] s^c, -inf for excluded regions
    attention: Tensor  # [I, P, N] alpha^c
    confidence: Tensor  # [I, P, N] by which regions are ranked: alpha^c, or the share of the votes
    offsets: Tensor | None  # [I, P, N, 4] delta^c
    boxes: Tensor  # [I, N, 4] proposals
    sentences: Tensor  # [I, C, D] mean LSTM state of each caption
    by_votes: bool  # the confidence comes from votes and ranks the boxes of the fine stage alone
    fine: Fine | None = None

    def attended(self) -> Tensor:
        """Attended region feature of each phrase at the coarse stage, z^c ``[I, P, D]``."""
        return self.attention @ self.regions

    def fine_confidence(self) -> Tensor:
        """Confidence ``[I, P, K]`` of each box of the fine stage (Eq. 11).

        The product is taken of attention weights, which order regions as their scores do: the product of two negative
        scores would prefer the worse of two bad regions. With votes, the coarse confidence alone ranks the boxes: the
        best boxes by votes are nearly the same, and fine attention prefers parts among them.
        """
        assert self.fine is not None
        coarse = self.confidence.gather(-1, self.fine.index)
        return coarse if self.by_votes else coarse * self.fine.attention

    def predict(self) -> Prediction:
        """Select the most confident box of each phrase and move it by the regressor."""
        fine = self.fine
        if fine is None:
            best = index = self.confidence.argmax(-1, keepdim=True)
            boxes = self._proposals(index)
            offsets = None if self.offsets is None else gather_regions(self.offsets, best)
        else:
            best = self.fine_confidence().argmax(-1, keepdim=True)
            index = fine.index.gather(-1, best)
            boxes = gather_regions(fine.boxes, best)
            offsets = None if fine.offsets is None else gather_regions(fine.offsets, best)
        boxes = boxes if offsets is None else apply_offsets(boxes, offsets).clamp(0, 1)
        return Prediction(boxes.squeeze(2), self._proposals(index).squeeze(2), expected_score(self.scores))

    def _proposals(self, index: Tensor) -> Tensor:
        """Proposals ``[I, P, K, 4]`` of the indices ``[I, P, K]``."""
        return gather_regions(self.boxes.unsqueeze(1).expand(-1, index.shape[1], -1, -1), index)


@dataclass(frozen=True)
class Prediction:
    """Answer to each phrase."""

    boxes: Tensor  # [I, P, 4] after all regression
    proposals: Tensor  # [I, P, 4] the same boxes before any regression
    evidence: Tensor  # [I, P] expected score


@dataclass(frozen=True)
class Fine:
    """Output of the second stage."""

    index: Tensor  # [I, P, K] kept regions, best first
    boxes: Tensor  # [I, P, K, 4] after the regression of the first stage
    regions: Tensor  # [I, P, K, D] x'_o, with context
    scores: Tensor  # [I, P, K] s^f, -inf for excluded regions
    attention: Tensor  # [I, P, K] alpha^f
    offsets: Tensor | None  # [I, P, K, 4] delta^f

    def attended(self) -> Tensor:
        """Attended region feature of each phrase at the fine stage, z^f ``[I, P, D]``."""
        return (self.attention.unsqueeze(-1) * self.regions).sum(2)


class PairNet(nn.Module):
    """F_cls and F_reg of phrases and regions (Eq. 2); each side of their first layer is computed once."""

    def __init__(self, config: ReirConfig) -> None:
        super().__init__()
        self.config = c = config
        projected = 1 if c.similarity == "linear" else c.hidden
        self.phrase = nn.Linear(c.width, projected)
        self.region = nn.Linear(c.width, projected, bias=False)
        if c.similarity == "network":
            self.score = nn.Linear(c.hidden, 1)
        elif c.similarity == "product":
            self.scale = nn.Parameter(torch.tensor(10.0))  # unscaled cosines would give a flat softmax
        if c.regress != "none":
            self.move_region = nn.Linear(c.width, c.regress_hidden)
            self.offset = nn.Linear(c.regress_hidden, 4)
            nn.init.zeros_(self.offset.weight)  # no regression before training
            nn.init.zeros_(self.offset.bias)
        if c.regress == "phrase":
            self.move_phrase = nn.Linear(c.width, c.regress_hidden, bias=False)

    def similarity(self, phrases: Tensor, regions: Tensor) -> Tensor:
        """Scores ``[B, Q, R]`` of projected phrases ``[B, Q, hidden]`` and regions ``[B, R, hidden]`` (Eq. 2)."""
        if self.config.similarity == "product":
            return self.scale * F.normalize(phrases, dim=-1) @ F.normalize(regions, dim=-1).transpose(1, 2)
        if self.config.similarity == "linear":
            return phrases + regions.transpose(1, 2)
        return self.score(F.relu(phrases.unsqueeze(2) + regions.unsqueeze(1))).squeeze(-1)

    def offsets(self, phrases: Tensor, regions: Tensor) -> Tensor | None:
        """Offsets ``[B, Q, R, 4]`` of regions ``[B, R, D]`` for phrases ``[B, Q, D]`` (F_reg of Eq. 2, Eq. 10).

        None without regression.
        """
        if self.config.regress == "none":
            return None
        hidden = self.move_region(regions).unsqueeze(1)
        if self.config.regress == "phrase":
            hidden = hidden + self.move_phrase(phrases).unsqueeze(2)
            return self.offset(F.relu(hidden))
        return self.offset(F.relu(hidden)).expand(-1, phrases.shape[1], -1, -1)


class ReirNet(nn.Module):
    """Network from regions and sentences to a box for each phrase."""

    renamed_parts = OLD_NAMES

    def __init__(self, config: ReirConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(c.vocabulary, c.words, padding_idx=Vocabulary.pad)
        self.phrase_lstm = nn.LSTM(c.words, c.width, batch_first=True)
        if c.whiten:
            self.whiten = nn.Linear(c.features, c.whiten).requires_grad_(False)  # set once (layers.whitening)
        self.embed_regions = nn.Linear(c.whiten or c.features, c.width)
        self.embed_location = nn.Linear(5, c.width, bias=False)
        self.coarse = PairNet(c)
        if c.names in ("add", "prior"):
            self.name_share = nn.Parameter(torch.tensor(1.0))
        if c.two_stages and not c.share_stages:
            self.fine = PairNet(c)
        if c.graph != "none":
            self.message = nn.Sequential(nn.Linear(c.width, c.hidden), nn.ReLU(), nn.Linear(c.hidden, c.width))  # F_M

    def forward(
        self,
        regions: PaddedRegions,
        phrases: PaddedPhrases,
        names: Tensor | None = None,
        place: Place | None = None,
        repool: Repool | None = None,
    ) -> Matched:
        """Match the phrases of each image with its regions; ``names [I, N, E]`` are vectors of the class names.

        ``place`` overrides the box rule of the configuration. ``repool`` computes the features of moved boxes; without
        it the second stage keeps the features of the proposals.
        """
        random = regions.keys
        states = self.read_captions(phrases, random)
        x_q = self.drop(self.encode_phrases(phrases, states, random), random, 0)
        appearance = self.embed_appearance(regions.features)  # [I, N, D]
        x_o = self.drop(self.add_location(appearance, regions.boxes), random, 1)
        name_similarity = self.name_similarity(phrases.vectors, names)  # [I, P, N]
        phrase_projection, region_projection = self.coarse.phrase(x_q), self.coarse.region(x_o)
        raw = self.coarse.similarity(phrase_projection, region_projection)
        scores = self.fuse(raw, name_similarity, regions.mask.unsqueeze(1).expand_as(raw))
        attention = scores.softmax(-1)
        by_votes = (place or self.config.place) == "vote"
        detector_scores = regions.scores if self.config.detector else None
        matched = Matched(
            phrases=x_q,
            regions=x_o,
            phrase_projection=phrase_projection,
            region_projection=region_projection,
            scores=scores,
            attention=attention,
            confidence=vote_shares(regions.boxes, scores, detector_scores) if by_votes else attention,
            offsets=self.coarse.offsets(x_q, x_o),
            boxes=regions.boxes,
            sentences=self.encode_sentences(phrases, states),
            by_votes=by_votes,
        )
        if not self.config.two_stages:
            return matched
        index = matched.confidence.topk(min(self.config.keep, matched.scores.shape[-1]), -1).indices  # [I, P, K]
        boxes, kept = self._refined(matched, appearance, index, repool, random)
        return replace(matched, fine=self._fine_stage(matched, index, boxes, kept, name_similarity, phrases.related))

    def _refined(
        self, coarse: Matched, appearance: Tensor, index: Tensor, repool: Repool | None, random: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Boxes ``[I, P, K, 4]`` of the kept regions after regression, and their features x_o ``[I, P, K, D]``."""
        shape = (*coarse.scores.shape, -1)
        boxes = gather_regions(coarse.boxes.unsqueeze(1).expand(shape), index)
        moved = coarse.offsets is not None
        if coarse.offsets is not None:
            # no gradient from the matching to the position of boxes
            boxes = apply_offsets(boxes, gather_regions(coarse.offsets, index)).clamp(0, 1).detach()
        if moved and repool is not None and self.config.repool:
            kept = self.embed_appearance(repool(boxes, index))
        else:
            kept = gather_regions(appearance.unsqueeze(1).expand(shape), index)
        return boxes, self.drop(self.add_location(kept, boxes), random, 2)

    def _fine_stage(
        self, coarse: Matched, index: Tensor, boxes: Tensor, x_o: Tensor, names: Tensor | None, related: Tensor
    ) -> Fine:
        """Match the best K regions again, after regression and message passing (Eq. 5, 8, 9, 10).

        ``index [I, P, K]`` are the kept regions, ``boxes`` and ``x_o`` their boxes and features after regression.
        """
        pair = self.coarse if self.config.share_stages else self.fine
        weight = coarse.attention.gather(-1, index).unsqueeze(-1)  # [I, P, K, 1]
        if self.config.graph != "none":
            node = (weight * x_o).sum(2)  # Eq. 5
            x_o = x_o + weight * self.pass_messages(node, related).unsqueeze(2)  # Eq. 8
        x_q, flat = coarse.phrases.flatten(0, 1).unsqueeze(1), x_o.flatten(0, 1)  # a batch of phrases
        raw = pair.similarity(pair.phrase(x_q), pair.region(flat)).view(index.shape)
        possible = coarse.scores.gather(-1, index) > -torch.inf
        scores = self.fuse(raw, None if names is None else names.gather(-1, index), possible)  # Eq. 9
        offsets = pair.offsets(x_q, flat)  # Eq. 10
        offsets = None if offsets is None else offsets.view(*index.shape, 4)
        return Fine(index, boxes, x_o, scores, scores.softmax(-1), offsets)

    def embed_appearance(self, features: Tensor) -> Tensor:
        """Embed region features ``[..., F]``, whitened where the configuration says so: ``[..., D]``."""
        return self.embed_regions(self.whiten(features) if self.config.whiten else features)

    def read_captions(self, phrases: PaddedPhrases, random: Tensor | None = None) -> Tensor:
        """States ``[I, C, T, D]`` of the LSTM over each caption (Eq. 1); ``random [I]`` are random keys of dropout."""
        embedded = self.drop(self.embed(phrases.words), random, 3)  # [I, C, T, D]
        states = run_lstm(self.phrase_lstm, embedded.flatten(0, 1))  # [I C, T, D]
        return states.view(*phrases.words.shape, -1)

    def encode_sentences(self, phrases: PaddedPhrases, states: Tensor) -> Tensor:
        """Mean state ``[I, C, D]`` of the words of each caption."""
        real = (phrases.words != Vocabulary.pad).unsqueeze(-1).to(states.dtype)
        return (states * real).sum(2) / real.sum(2).clamp_min(1)

    def encode_phrases(self, phrases: PaddedPhrases, states: Tensor, random: Tensor | None = None) -> Tensor:
        """x_q ``[I, P, D]``: mean over a phrase's words of the states of an LSTM over its sentence (Eq. 1)."""
        if not self.config.context:
            words = phrases.spelling[..., 1:]  # after bos
            real = (words != Vocabulary.pad) & (words != Vocabulary.eos)
            embedded = self.drop(self.embed(words), random, 3)  # [I, P, W, D]
            states = run_lstm(self.phrase_lstm, embedded.flatten(0, 1))  # [I P, W, D]
            share = real / real.sum(-1, keepdim=True).clamp_min(1)  # [I, P, W]
            return torch.einsum("ipw,ipwd->ipd", share.to(states.dtype), states.view(*words.shape, -1))
        return phrases.members.to(states.dtype) @ states.flatten(1, 2)

    def add_location(self, appearance: Tensor, boxes: Tensor) -> Tensor:
        """x_o ``[..., D]``: appearance of a region plus its embedded corners and area, as fractions of the image."""
        size = boxes[..., 2:] - boxes[..., :2]
        return F.relu(appearance + self.embed_location(torch.cat([boxes, size.prod(-1, keepdim=True)], -1)))

    def name_similarity(self, vectors: Tensor | None, names: Tensor | None) -> Tensor | None:
        """s^a of phrases ``[..., P, E]`` and class names ``[..., N, E]`` (Eq. 3); negative values become 0.

        It is 1 for all regions, which leaves their scores as they are, where no name is similar enough.
        """
        if self.config.names == "none":
            return None
        if vectors is None or names is None:
            raise ValueError("a network with class names needs vectors of phrases and of names")
        similarity = F.relu(vectors @ names.transpose(-1, -2))
        return similarity.masked_fill(similarity.amax(-1, keepdim=True) < self.config.min_similarity, 1.0)

    def fuse(self, raw: Tensor, name_similarity: Tensor | None, possible: Tensor) -> Tensor:
        """Scores with the similarity of names (Eq. 4, 9); -inf for excluded regions.

        As in the published code, a region whose name has similarity 0 is excluded, unless all have.
        """
        if name_similarity is None:
            return raw.masked_fill(~possible, -torch.inf)
        if self.config.names == "add":
            fused = raw + self.name_share * 10 * name_similarity
        elif self.config.names == "prior":
            fused = raw + self.name_share * name_similarity.clamp_min(MIN_NAME).log()
        else:
            similar = possible & (name_similarity > 0)
            possible = torch.where(similar.any(-1, keepdim=True), similar, possible)
            fused = raw * name_similarity
        return fused.masked_fill(~possible, -torch.inf)

    def pass_messages(self, nodes: Tensor, related: Tensor) -> Tensor:
        """z' ``[I, P, D]`` of the nodes z and the relations between them ``[I, P, P]`` (Eq. 6, 7)."""
        messages = self.message(nodes)
        if self.config.graph == "uniform":
            weights = related.to(nodes.dtype)
            weights = weights / weights.sum(-1, keepdim=True).clamp_min(1)
        else:
            energy = (messages @ messages.transpose(1, 2)).masked_fill(~related, torch.finfo(nodes.dtype).min)
            weights = energy.softmax(-1).masked_fill(~related, 0)  # a phrase without relations gets no message
        return nodes + weights @ messages

    def score_phrases(
        self, matched: Matched, regions: PaddedRegions, phrases: PaddedPhrases, names: Tensor | None
    ) -> Tensor:
        """Scores ``[I, phrases]`` of each image with each phrase of the batch, by :func:`expected_score`.

        Phrases are those of the mask, in order, of all processes. Only the coarse stage is used: it is cheap enough for
        all pairs.
        """
        where = phrases.mask
        projection = gather(matched.phrase_projection[where]).unsqueeze(0).expand(len(where), -1, -1)
        raw = self.coarse.similarity(projection, matched.region_projection)  # [I, phrases, N]
        vectors = None if phrases.vectors is None else gather(phrases.vectors[where])
        name_similarity = self.name_similarity(vectors, names)
        scores = self.fuse(raw, name_similarity, regions.mask.unsqueeze(1).expand_as(raw))
        return expected_score(scores)

    def drop(self, values: Tensor, random: Tensor | None = None, purpose: int = 0) -> Tensor:
        """Apply dropout in training; ``random`` are random keys of the first dimensions."""
        return drop(values, self.config.dropout, True, fold(random, purpose)) if self.training else values


def expected_score(scores: Tensor) -> Tensor:
    """Mean ``[...]`` of scores ``[..., N]`` under their own softmax: a maximum with a gradient for all of them."""
    return (scores.softmax(-1) * scores.masked_fill(scores == -torch.inf, 0)).sum(-1)


@torch.no_grad()
def vote_shares(boxes: Tensor, scores: Tensor, detector_scores: Tensor | None = None) -> Tensor:
    """Share ``[I, P, N]`` of each region in the votes; 0 for excluded regions.

    From the coarse ``scores [I, P, N]`` and, where a detector made the boxes, its own scores ``[I, N]``.
    """
    counted = votes(boxes, scores.softmax(-1), detector_scores).masked_fill(scores == -torch.inf, 0)
    return counted / counted.sum(-1, keepdim=True).clamp_min(1e-12)


def gather_regions(values: Tensor, index: Tensor) -> Tensor:
    """Select ``index [I, P, K]`` from ``values [I, P, N, X]``: ``[I, P, K, X]``."""
    return values.gather(2, index.unsqueeze(-1).expand(*index.shape, values.shape[-1]))
