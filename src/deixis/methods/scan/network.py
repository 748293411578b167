"""The matcher: how well a sentence fits a photograph, and which region each word means (SCAN and POS-SCAN).

Equations are those of the POS-SCAN paper, Sec. 3.1. Sizes in shapes: I images, N regions, C captions, T words, D the
width of the common space.

The attended vectors of Eq. 5 are never built. With the similarities s of Eq. 4 the product of a word and its attended
vector is a sum of alpha * s, and the length of that vector is the root of alpha' G alpha with the Gram matrix G of the
image's regions: a product of N x N matrices instead of N x D ones, for all captions at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.language.vocabulary import Vocabulary
from deixis.layers.gru import Table, bidirectional
from deixis.layers.padding import PaddedRegions

BLOCK = 2**21
"""Similarities of regions and words that are held at once when all pairs are scored: 8 MB, a few times over."""

_TINY = 1e-8  # as in SCAN's code


@dataclass(frozen=True)
class ScanConfig:
    """The matcher's sizes, and the choices in which SCAN's variants differ."""

    vocabulary: int
    features: int  # width of a region feature
    words: int = 300  # word embedding (POS-SCAN Sec. 4.2)
    embed: int = 1024  # d_1, the common space, and the state of the GRU (POS-SCAN Sec. 4.2)
    direction: Literal["text-to-image", "image-to-text"] = "text-to-image"  # words look at regions, or the reverse
    temperature: float = 9.0  # tau of Eq. 5, the inverse temperature; SCAN takes 4 for image-to-text
    aggregation: Literal["mean", "logsumexp", "max", "sum"] = "mean"  # Eq. 6 is the mean
    sharpness: float = 6.0  # lambda of logsumexp; SCAN takes 6 for text-to-image, 5 for image-to-text
    leak: float = 0.0  # slope of the clipped similarities below 0: the papers clip, the published code leaks .1
    rivals: Literal["all", "counted"] = (
        "all"  # words that share a region (Eq. 4: all n); in the published code: counted
    )
    count: str = "all"  # words in the score: "all" (SCAN), "nouns" (POS-SCAN Eq. 8), or parts of speech: "NOUN+ADJ"

    def __post_init__(self) -> None:
        if not 0 < self.temperature <= 32:
            raise ValueError(
                f"an inverse temperature of {self.temperature} is outside 0 to 32"
            )  # exp must not overflow
        if self.direction == "image-to-text" and self.count != "all":
            raise ValueError("only the words of text-to-image matching can be counted selectively")


@dataclass(frozen=True)
class Seen:
    """The regions of I images in the common space."""

    vectors: Tensor  # [I, N, D] unit length; 0 where there is no region
    mask: Tensor  # [I, N]

    def gram(self) -> Tensor:
        """Products ``[I, N, N]`` of the regions of each image."""
        return self.vectors @ self.vectors.transpose(1, 2)


@dataclass(frozen=True)
class Heard:
    """Sentences in the common space; leading dimensions are C for all of a batch, or I, C for those of each image."""

    vectors: Tensor  # [..., T, D] unit length; 0 where there is no word
    mask: Tensor  # [..., T]
    counts: Tensor  # [..., T] the words that count in the score

    def gram(self) -> Tensor:
        """Products ``[..., T, T]`` of the words of each sentence."""
        return self.vectors @ self.vectors.transpose(-1, -2)


class ScanNet(nn.Module):
    """Regions and sentences in, scores and the attention between words and regions out.

    Sentences are word ids, bos first and eos last, with :attr:`Vocabulary.pad` behind; bos and eos are words like
    others, also in SCAN's score. ``counts``, of the same shape, says which words count in the score (all if it is not
    given). A sentence in which none counts is scored by all of its words.
    """

    def __init__(self, config: ScanConfig) -> None:
        super().__init__()
        self.config = c = config
        self.embed_regions = nn.Linear(c.features, c.embed)  # Eq. 1
        nn.init.xavier_uniform_(self.embed_regions.weight)
        nn.init.zeros_(self.embed_regions.bias)
        self.embed = nn.Embedding(c.vocabulary, c.words)  # Eq. 2
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)
        self.gru = nn.GRU(c.words, c.embed, bidirectional=True)

    def see(self, regions: PaddedRegions) -> Seen:
        """The regions of images in the common space (Eq. 1)."""
        vectors = F.normalize(self.embed_regions(regions.features), dim=-1, eps=_TINY)
        return Seen(vectors * regions.mask.unsqueeze(-1), regions.mask)

    def hear(self, words: Tensor, counts: Tensor | None = None) -> Heard:
        """Sentences ``[..., T]`` in the common space (Eq. 2 and 3)."""
        mask = words != Vocabulary.pad
        flat = mask.flatten(0, -2)
        table = Table.of(flat)
        inputs = self.embed(words.flatten(0, -2)[table.sentences, table.steps])  # [W, words]
        states = F.normalize(bidirectional(self.gru, inputs, table), dim=-1, eps=_TINY)
        vectors = states.new_zeros(*flat.shape, states.shape[1])
        vectors[table.sentences, table.steps] = states
        counts = mask if counts is None else counts & mask
        counts = torch.where(counts.any(-1, keepdim=True), counts, mask)
        return Heard(vectors.view(*mask.shape, states.shape[1]), mask, counts)

    def scores(self, seen: Seen, heard: Heard, block: int = BLOCK) -> Tensor:
        """Scores ``[I, C]`` of all images with all sentences ``[C, T]``.

        At most about ``block`` similarities are held at once, beside the embeddings and the scores.
        """
        images, regions = seen.mask.shape
        captions, words = heard.mask.shape
        wide = min(captions, max(1, block // (regions * words)))
        high = max(1, block // (regions * words * wide))
        rows = []
        for i in range(0, images, high):
            some = Seen(seen.vectors[i : i + high], seen.mask[i : i + high])
            row = []
            for c in range(0, captions, wide):
                part = slice(c, c + wide)
                said = Heard(heard.vectors[part], heard.mask[part], heard.counts[part])
                similar = some.vectors.flatten(0, 1) @ said.vectors.flatten(0, 1).T
                row.append(self._score(similar.view(*some.mask.shape, *said.mask.shape), some, said))
            rows.append(torch.cat(row, 1))
        return torch.cat(rows)

    def pairs(self, seen: Seen, heard: Heard) -> Tensor:
        """Scores ``[I, C]`` of each image with its own sentences ``[I, C, T]`` only."""
        return self._score(_similarities(seen, heard), seen, heard)

    def match(self, regions: PaddedRegions, words: Tensor, counts: Tensor | None = None) -> Tensor:
        """:meth:`pairs` of regions and words ``[I, C, T]``: the score ``[I, C]`` that a captioner is rewarded with."""
        return self.pairs(self.see(regions), self.hear(words, counts))

    def attention(self, regions: PaddedRegions, words: Tensor, counts: Tensor | None = None) -> Tensor:
        """Where each word of each image's own sentences ``[I, C, T]`` looks (Eq. 5), ``[I, C, T, N]``.

        Row t belongs to word t as given, bos at 0. A captioner's target words, those behind bos, have the rows from 1
        on: ``attention[:, :, 1:]``. Rows of padding are 0. Where ``rivals`` are the
        words that count, those that do not count look everywhere alike.
        """
        return self.align(self.see(regions), self.hear(words, counts))[0]

    def align(self, seen: Seen, heard: Heard) -> tuple[Tensor, Tensor]:
        """:meth:`attention` and, beside it, R of Eq. 6 for each word ``[I, C, T]``: how much it is there at all.

        Both are those of text-to-image matching, also for a matcher of the other direction.
        """
        similar = _similarities(seen, heard)
        warmth = self._words_warmth(similar, heard)  # [I, N, C, T]
        alpha = warmth.masked_fill(~seen.mask[:, :, None, None], torch.finfo(warmth.dtype).min).softmax(1)
        return alpha.permute(0, 2, 3, 1) * heard.mask.unsqueeze(-1), _word_relevance(similar, alpha, seen)

    def _warmth(self, similar: Tensor, query: int) -> Tensor:
        """What the softmax of Eq. 5 takes: clipped similarities, shared along the ``query`` dimension (Eq. 4)."""
        clipped = F.leaky_relu(similar, self.config.leak) if self.config.leak else similar.clamp_min(0)
        length = torch.linalg.vector_norm(clipped, dim=query, keepdim=True)
        return clipped * (self.config.temperature / (length + _TINY))

    def _words_warmth(self, similar: Tensor, heard: Heard) -> Tensor:
        if self.config.rivals == "counted":
            similar = similar * heard.counts.unsqueeze(-3)
        return self._warmth(similar, 3)

    def _score(self, similar: Tensor, seen: Seen, heard: Heard) -> Tensor:
        """Scores ``[I, C]`` from similarities ``[I, N, C, T]`` (Eq. 4 to 6, Eq. 8).

        The length of the attended vector cancels in its cosine, so the softmax is not normalised. What is padding has
        vectors of 0 and adds nothing to either sum, whatever its weight.
        """
        if self.config.direction == "text-to-image":
            weight = self._words_warmth(similar, heard).exp_()
            return self._aggregate(_word_relevance(similar, weight, seen), heard.counts, -1)
        # the same with words and regions in each other's place
        weight = self._warmth(similar, 1).exp_()
        across = (weight.transpose(1, 2) @ heard.gram()).transpose(1, 2)
        return self._aggregate(_cosine(similar, weight, across, 3), seen.mask.unsqueeze(2), -2)  # over [I, N, C]

    def _aggregate(self, relevance: Tensor, counts: Tensor, dim: int) -> Tensor:
        match self.config.aggregation:
            case "mean":  # Eq. 6, Eq. 8
                return (relevance * counts).sum(dim) / counts.sum(dim).clamp_min(1)
            case "sum":
                return (relevance * counts).sum(dim)
            case "max":
                return relevance.masked_fill(~counts, -1).amax(dim)
            case "logsumexp":
                sharp = self.config.sharpness
                return (relevance * sharp).masked_fill(~counts, -torch.inf).logsumexp(dim) / sharp


def _similarities(seen: Seen, heard: Heard) -> Tensor:
    """``[I, N, C, T]`` of each image with its own sentences (Eq. 4)."""
    similar = seen.vectors @ heard.vectors.flatten(1, 2).transpose(1, 2)
    return similar.view(*seen.mask.shape, *heard.mask.shape[1:])


def _word_relevance(similar: Tensor, weight: Tensor, seen: Seen) -> Tensor:
    """R ``[I, C, T]`` of words that attend to regions with ``weight [I, N, C, T]``."""
    across = (seen.gram() @ weight.flatten(2)).view_as(weight)
    return _cosine(similar, weight, across, 1)


def _cosine(similar: Tensor, weight: Tensor, across: Tensor, context: int) -> Tensor:
    """R of Eq. 6: the cosine of a thing of unit length and what it attends to; ``across`` = G ``weight``."""
    length = (weight * across).sum(context).clamp_min(_TINY**2).sqrt()
    return (weight * similar).sum(context) / length
