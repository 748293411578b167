"""Phrases find their boxes in two stages: all regions coarsely, then the best few finely, with their neighbours' help.

Relation-aware Instance Refinement for Weakly Supervised Visual Grounding (ReIR); equation numbers are the paper's.

Sizes in shapes: I images, N regions of an image, P phrases of all its captions, K regions that are kept for a phrase,
C captions, D the width that words and regions share. All phrases of all images go through at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.language.vocabulary import Vocabulary
from deixis.layers.lstm import run_lstm
from deixis.layers.padding import PaddedRegions
from deixis.localize.box_regression import move
from deixis.localize.votes import votes
from deixis.methods.reir.phrases import PaddedPhrases
from deixis.types import Place


@dataclass(frozen=True)
class ReirConfig:
    """The refiner's sizes, and the switches of the paper's Table 2."""

    vocabulary: int
    features: int  # width of a region feature
    whiten: int = 0  # region features are whitened and cut to so many dimensions first; 0: they are taken as they are
    words: int = 300  # word embedding
    width: int = 1024  # D, which the paper does not give apart from the backbone's 2048
    hidden: int = 512  # of F_cls, F_reg and F_M
    dropout: float = 0.0
    context: bool = True  # the LSTM reads a phrase within its sentence (Eq. 1); False: by itself
    keep: int = 5  # K (Table 3)
    two_stages: bool = True  # TSD: the best K regions are matched again
    regress: Literal["phrase", "region", "none"] = "phrase"  # STR: boxes move; "region": without x_q in Eq. 2 and 10
    graph: Literal["attention", "uniform", "none"] = "attention"  # VOGN; "uniform": without the weights of Eq. 7
    similarity: Literal["network", "product"] = "network"  # F_cls: a network of the pair, or a product of two of one
    names: Literal["multiply", "add", "none"] = "multiply"  # s^a: Eq. 4, or a learnt share of it added, or not used
    place: Place = (
        "attention"  # regions are ranked by their own attention, or by the votes of all (see `models.voting`)
    )
    detector: bool = False  # the scores of regions are a detector's, and count in the votes; filled in from the data
    top_names: int = 1  # how many classes of a region count for s^a, by probability; the paper has the best; 0: all

    def __post_init__(self) -> None:
        if self.graph != "none" and not self.two_stages:
            raise ValueError("the graph feeds the second stage: a refiner with one stage has graph 'none'")


@dataclass(frozen=True)
class Matched:
    """What a pass gives. Masked phrases have finite values that mean nothing."""

    phrases: Tensor  # [I, P, D] x_q
    regions: Tensor  # [I, N, D] x_o
    asked: Tensor  # [I, P, hidden] phrases as the first layer of F_cls projects them
    offered: Tensor  # [I, N, hidden] regions likewise
    scores: Tensor  # [I, P, N] s^c, -inf where a region is out of the question
    attention: Tensor  # [I, P, N] alpha^c
    confidence: Tensor  # [I, P, N] that a region is the whole of what is meant: alpha^c, or its share of the votes
    moves: Tensor | None  # [I, P, N, 4] delta^c
    boxes: Tensor  # [I, N, 4] as they were proposed
    voted: bool  # the confidence is that of votes, and decides alone which box it is
    fine: Fine | None = None

    def seen(self) -> Tensor:
        """What each phrase sees at the coarse stage, z^c ``[I, P, D]``."""
        return self.attention @ self.regions

    def sure(self) -> Tensor:
        """How sure a phrase is of each box of the fine stage, ``[I, P, K]``.

        Eq. 11 on the attention weights, which order regions as their scores do: of two bad regions the product of the
        scores themselves, both negative, would prefer the worse. Votes are not overruled: their best boxes are nearly
        the same, and of these the fine attention likes the one that is a part.
        """
        assert self.fine is not None
        coarse = self.confidence.gather(-1, self.fine.chosen)
        return coarse if self.voted else coarse * self.fine.attention

    def answer(self) -> tuple[Tensor, Tensor]:
        """The box of each phrase ``[I, P, 4]``, and the :func:`expected` coarse score as evidence for it."""
        fine = self.fine
        if fine is None:
            best = self.confidence.argmax(-1, keepdim=True)
            boxes = pick(self.boxes.unsqueeze(1).expand(-1, best.shape[1], -1, -1), best)
            moves = None if self.moves is None else pick(self.moves, best)
        else:
            at = self.sure().argmax(-1, keepdim=True)
            boxes = pick(fine.boxes, at)
            moves = None if fine.moves is None else pick(fine.moves, at)
        boxes = boxes if moves is None else move(boxes, moves).clamp(0, 1)
        return boxes.squeeze(2), expected(self.scores)


@dataclass(frozen=True)
class Fine:
    """The second stage."""

    chosen: Tensor  # [I, P, K] indices of regions, best first
    boxes: Tensor  # [I, P, K, 4] as the first stage refined them
    regions: Tensor  # [I, P, K, D] x'_o, with their context
    scores: Tensor  # [I, P, K] s^f, -inf where a region is out of the question
    attention: Tensor  # [I, P, K] alpha^f
    moves: Tensor | None  # [I, P, K, 4] delta^f

    def seen(self) -> Tensor:
        """What each phrase sees at the fine stage, z^f ``[I, P, D]``."""
        return (self.attention.unsqueeze(-1) * self.regions).sum(2)


class Pair(nn.Module):
    """F_cls and F_reg of phrases and regions. Their first layer is taken apart: each side is projected once."""

    def __init__(self, config: ReirConfig) -> None:
        super().__init__()
        self.config = c = config
        self.phrase = nn.Linear(c.width, c.hidden)
        self.region = nn.Linear(c.width, c.hidden, bias=False)
        if c.similarity == "network":
            self.judge = nn.Linear(c.hidden, 1)
        else:
            self.scale = nn.Parameter(torch.tensor(10.0))  # cosines are too near each other for a softmax
        if c.regress != "none":
            self.move_region = nn.Linear(c.width, c.hidden)
            self.offset = nn.Linear(c.hidden, 4)
            nn.init.zeros_(self.offset.weight)  # boxes stay where they are until something is learnt
            nn.init.zeros_(self.offset.bias)
        if c.regress == "phrase":
            self.move_phrase = nn.Linear(c.width, c.hidden, bias=False)

    def similarity(self, asked: Tensor, offered: Tensor) -> Tensor:
        """Scores ``[B, Q, R]`` of projected phrases ``[B, Q, hidden]`` and regions ``[B, R, hidden]``."""
        if self.config.similarity == "product":
            return self.scale * F.normalize(asked, dim=-1) @ F.normalize(offered, dim=-1).transpose(1, 2)
        return self.judge(F.relu(asked.unsqueeze(2) + offered.unsqueeze(1))).squeeze(-1)

    def moves(self, phrases: Tensor, regions: Tensor) -> Tensor | None:
        """Offsets ``[B, Q, R, 4]`` of regions ``[B, R, D]`` for phrases ``[B, Q, D]``; None without regression."""
        if self.config.regress == "none":
            return None
        hidden = self.move_region(regions).unsqueeze(1)
        if self.config.regress == "phrase":
            hidden = hidden + self.move_phrase(phrases).unsqueeze(2)
            return self.offset(F.relu(hidden))
        return self.offset(F.relu(hidden)).expand(-1, phrases.shape[1], -1, -1)


class ReirNet(nn.Module):
    """Photographs and sentences in, a box for each phrase out."""

    def __init__(self, config: ReirConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed = nn.Embedding(c.vocabulary, c.words, padding_idx=Vocabulary.pad)
        self.read = nn.LSTM(c.words, c.width, batch_first=True)
        if c.whiten:
            self.whiten = nn.Linear(c.features, c.whiten).requires_grad_(False)  # set once by fit_whitening
        self.see = nn.Linear(c.whiten or c.features, c.width)
        self.locate = nn.Linear(5, c.width, bias=False)
        self.coarse = Pair(c)
        if c.names == "add":
            self.name_share = nn.Parameter(torch.tensor(1.0))
        if c.two_stages:
            # only of the decoder does the paper say that both stages share it: each stage has a matcher of its own
            self.fine = Pair(c)
        if c.graph != "none":
            self.message = nn.Sequential(nn.Linear(c.width, c.hidden), nn.ReLU(), nn.Linear(c.hidden, c.width))  # F_M

    def forward(
        self, regions: PaddedRegions, phrases: PaddedPhrases, names: Tensor | None = None, place: Place | None = None
    ) -> Matched:
        """Match the phrases of each image with its regions; ``names [I, N, E]`` are vectors of the regions' classes.

        ``place`` overrides the box rule of the configuration.
        """
        said = self.drop(self.read_phrases(phrases))
        features = self.whiten(regions.features) if self.config.whiten else regions.features
        looks = self.see(features)  # [I, N, D], without the place
        seen = self.drop(self.place(looks, regions.boxes))
        likeness = self.likeness(phrases.vectors, names)  # [I, P, N]
        asked, offered = self.coarse.phrase(said), self.coarse.region(seen)
        raw = self.coarse.similarity(asked, offered)
        scores = self.fuse(raw, likeness, regions.mask.unsqueeze(1).expand_as(raw))
        moves = self.coarse.moves(said, seen)
        attention = scores.softmax(-1)
        voted, likely = (place or self.config.place) == "vote", regions.scores if self.config.detector else None
        confidence = elected(regions.boxes, scores, likely) if voted else attention
        matched = Matched(said, seen, asked, offered, scores, attention, confidence, moves, regions.boxes, voted)
        if not self.config.two_stages:
            return matched
        return replace(matched, fine=self._refine(matched, looks, likeness, phrases.related))

    def _refine(self, coarse: Matched, looks: Tensor, likeness: Tensor | None, related: Tensor) -> Fine:
        images, count, regions = coarse.scores.shape
        chosen = coarse.confidence.topk(min(self.config.keep, regions), -1).indices  # [I, P, K]
        shape = (images, count, regions, -1)
        boxes = pick(coarse.boxes.unsqueeze(1).expand(shape), chosen)
        if coarse.moves is not None:
            # where a box lies is not what the matching is to be taught by: no gradient passes here
            boxes = move(boxes, pick(coarse.moves, chosen)).clamp(0, 1).detach()
        seen = self.drop(self.place(pick(looks.unsqueeze(1).expand(shape), chosen), boxes))  # [I, P, K, D]
        weight = coarse.attention.gather(-1, chosen).unsqueeze(-1)  # [I, P, K, 1]
        if self.config.graph != "none":
            node = (weight * seen).sum(2)  # Eq. 5
            seen = seen + weight * self.pass_messages(node, related).unsqueeze(2)  # Eq. 8
        asked, flat = coarse.phrases.flatten(0, 1).unsqueeze(1), seen.flatten(0, 1)  # a batch of phrases
        raw = self.fine.similarity(self.fine.phrase(asked), self.fine.region(flat)).view(chosen.shape)
        possible = coarse.scores.gather(-1, chosen) > -torch.inf
        scores = self.fuse(raw, None if likeness is None else likeness.gather(-1, chosen), possible)
        moves = self.fine.moves(asked, flat)
        moves = None if moves is None else moves.view(*chosen.shape, 4)
        return Fine(chosen, boxes, seen, scores, scores.softmax(-1), moves)

    def read_phrases(self, phrases: PaddedPhrases) -> Tensor:
        """x_q ``[I, P, D]``: the mean over a phrase's words of the states of an LSTM over its sentence (Eq. 1)."""
        if not self.config.context:
            words = phrases.spelling[..., 1:]  # behind the begin
            real = (words != Vocabulary.pad) & (words != Vocabulary.eos)
            states = run_lstm(self.read, self.drop(self.embed(words.flatten(0, 1))))  # [I P, W, D]
            share = real / real.sum(-1, keepdim=True).clamp_min(1)  # [I, P, W]
            return torch.einsum("ipw,ipwd->ipd", share.to(states.dtype), states.view(*words.shape, -1))
        states = run_lstm(self.read, self.drop(self.embed(phrases.words.flatten(0, 1))))  # [I C, T, D]
        return phrases.members.to(states.dtype) @ states.reshape(len(phrases.words), -1, states.shape[-1])

    def place(self, looks: Tensor, boxes: Tensor) -> Tensor:
        """x_o ``[..., D]``: how a region looks, fused with its corners and its area as shares of the image."""
        size = boxes[..., 2:] - boxes[..., :2]
        return F.relu(looks + self.locate(torch.cat([boxes, size.prod(-1, keepdim=True)], -1)))

    def likeness(self, vectors: Tensor | None, names: Tensor | None) -> Tensor | None:
        """s^a of phrases ``[..., P, E]`` and regions ``[..., N, E]`` (Eq. 3); below 0 it means nothing and is 0."""
        if self.config.names == "none":
            return None
        if vectors is None or names is None:
            raise ValueError("this refiner compares phrases with the names of regions and was not given both")
        return F.relu(vectors @ names.transpose(-1, -2))

    def fuse(self, raw: Tensor, likeness: Tensor | None, possible: Tensor) -> Tensor:
        """Scores with the names' share (Eq. 4, 9), and -inf where a region is out of the question.

        As in the published code, a region whose name has nothing to do with the phrase is; unless all are.
        """
        if likeness is not None and self.config.names == "add":
            raw = raw + self.name_share * 10 * likeness
        elif likeness is not None:
            alike = possible & (likeness > 0)
            possible = torch.where(alike.any(-1, keepdim=True), alike, possible)
            raw = raw * likeness
        return raw.masked_fill(~possible, -torch.inf)

    def pass_messages(self, nodes: Tensor, related: Tensor) -> Tensor:
        """z' ``[I, P, D]`` of the nodes z and the relations between them ``[I, P, P]`` (Eq. 6, 7)."""
        messages = self.message(nodes)
        if self.config.graph == "uniform":
            weights = related.to(nodes.dtype)
            weights = weights / weights.sum(-1, keepdim=True).clamp_min(1)
        else:
            energy = (messages @ messages.transpose(1, 2)).masked_fill(~related, torch.finfo(nodes.dtype).min)
            weights = energy.softmax(-1).masked_fill(~related, 0)  # nobody speaks to a phrase without relations
        return nodes + weights @ messages

    @torch.no_grad()
    def fit_whitening(self, features: Tensor) -> None:
        """Let the regions of the training set ``[R, features]`` decide what is whitened away.

        Features of a classifier share a large mean and a few large directions, which say little of the region and take
        a small network long to undo.
        """
        rows = features.double()
        middle = rows.mean(0)
        variance, directions = torch.linalg.eigh((rows - middle).T @ (rows - middle) / len(rows))
        kept = slice(-self.config.whiten, None)
        turn = directions[:, kept] / variance[kept].clamp_min(1e-8).sqrt()  # [features, whiten]
        self.whiten.weight.copy_(turn.T)
        self.whiten.bias.copy_(-middle @ turn)

    def compare(self, matched: Matched, regions: PaddedRegions, phrases: PaddedPhrases, names: Tensor | None) -> Tensor:
        """How well each image fits each phrase of the batch, ``[I, phrases]``: the score it expects of its regions.

        Phrases are those of the mask, in order. Only the coarse stage is asked: it is what can be had for all pairs.
        """
        where = phrases.mask
        asked = matched.asked[where].unsqueeze(0).expand(len(where), -1, -1)
        raw = self.coarse.similarity(asked, matched.offered)  # [I, phrases, N]
        likeness = self.likeness(None if phrases.vectors is None else phrases.vectors[where], names)
        scores = self.fuse(raw, likeness, regions.mask.unsqueeze(1).expand_as(raw))
        return expected(scores)

    def drop(self, values: Tensor) -> Tensor:
        """Dropout while training."""
        return F.dropout(values, self.config.dropout, self.training)


def expected(scores: Tensor) -> Tensor:
    """The mean ``[...]`` of scores ``[..., N]`` under their own softmax: a maximum with a gradient for all of them."""
    return (scores.softmax(-1) * scores.masked_fill(scores == -torch.inf, 0)).sum(-1)


@torch.no_grad()
def elected(boxes: Tensor, scores: Tensor, likely: Tensor | None = None) -> Tensor:
    """The share ``[I, P, N]`` of each region in the votes of all, where it may be chosen.

    From the coarse ``scores [I, P, N]`` and, where a detector made the boxes, from its own ``[I, N]``.
    """
    cast = votes(boxes, scores.softmax(-1), likely).masked_fill(scores == -torch.inf, 0)
    return cast / cast.sum(-1, keepdim=True).clamp_min(1e-12)


def pick(values: Tensor, index: Tensor) -> Tensor:
    """Of ``values [I, P, N, X]`` those of ``index [I, P, K]``: ``[I, P, K, X]``."""
    return values.gather(2, index.unsqueeze(-1).expand(*index.shape, values.shape[-1]))
