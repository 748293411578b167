"""Image-text matching network: SCAN and POS-SCAN (equations of the POS-SCAN paper, Sec. 3.1).

Sizes in shapes: I images, N regions, C captions, T words, D the width of the joint embedding space.

The attended vectors of Eq. 5 are never built. With the similarities s of Eq. 4 the product of a word and its attended
vector is sum(alpha * s), and the norm of that vector is sqrt(alpha' G alpha) with the Gram matrix G of the image's
regions: products of N x N instead of N x D matrices, for all captions at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.device import CPU, device_of, to_device
from deixis.language.vocabulary import Vocabulary
from deixis.layers.gru import WordTable, bidirectional
from deixis.layers.padding import PaddedRegions, pad_ragged, pad_regions
from deixis.methods.scan.config import BLOCK, SENTENCES, TINY, ScanConfig
from deixis.types import Regions


@dataclass(frozen=True)
class EncodedRegions:
    """Regions of I images in the joint embedding space."""

    vectors: Tensor  # [I, N, D] unit length; 0 where there is no region
    mask: Tensor  # [I, N]

    def gram(self) -> Tensor:
        """Inner products ``[I, N, N]`` of the regions of each image."""
        return self.vectors @ self.vectors.transpose(1, 2)


@dataclass(frozen=True)
class EncodedWords:
    """Words of sentences in the joint embedding space; leading dimensions are C (all of a batch) or I, C (by image)."""

    vectors: Tensor  # [..., T, D] unit length; 0 where there is no word
    mask: Tensor  # [..., T]
    counts: Tensor  # [..., T] words that count in the score

    def gram(self) -> Tensor:
        """Inner products ``[..., T, T]`` of the words of each sentence."""
        return self.vectors @ self.vectors.transpose(-1, -2)


class ScanNet(nn.Module):
    """Network from regions and sentences to matching scores and attention of words to regions.

    Sentences are word ids, bos first and eos last, then :attr:`Vocabulary.pad`; bos and eos are words like others, also
    in SCAN's score. ``counts``, of the same shape, marks words that count in the score (default: all). A sentence
    without any is scored by all of its words.
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

    def encode_regions(self, regions: PaddedRegions) -> EncodedRegions:
        """Embed regions (Eq. 1)."""
        vectors = F.normalize(self.embed_regions(regions.features), dim=-1, eps=TINY)
        return EncodedRegions(vectors * regions.mask.unsqueeze(-1), regions.mask)

    def encode_words(self, words: Tensor, counts: Tensor | None = None) -> EncodedWords:
        """Embed the words of sentences ``[..., T]`` (Eq. 2 and 3)."""
        mask = words != Vocabulary.pad
        flat, rows = mask.flatten(0, -2), words.flatten(0, -2)
        # without gradients a few sentences at a time: the gates of all would need far more memory than the vectors
        size = max(1, len(rows)) if torch.is_grad_enabled() else SENTENCES
        vectors: Tensor | None = None
        for start in range(0, max(1, len(rows)), size):
            table = WordTable.of(flat[start : start + size])
            inputs = self.embed(rows[start : start + size][table.sentences, table.steps])  # [W, words]
            states = F.normalize(bidirectional(self.gru, inputs, table), dim=-1, eps=TINY)
            if vectors is None:
                vectors = states.new_zeros(*flat.shape, states.shape[1])
            vectors[start + table.sentences, table.steps] = states
        assert vectors is not None
        counts = mask if counts is None else counts & mask
        counts = torch.where(counts.any(-1, keepdim=True), counts, mask)
        return EncodedWords(vectors.view(*mask.shape, vectors.shape[-1]), mask, counts)

    def scores(self, regions: EncodedRegions, words: EncodedWords, block: int = BLOCK) -> Tensor:
        """Scores ``[I, C]`` of all images with all sentences ``[C, T]``.

        At most about ``block`` similarities are in memory at once, besides the embeddings and the scores: a tile with
        about as many regions as words, so that matrix products are efficient.
        """
        images, most = regions.mask.shape
        captions, longest = words.mask.shape
        high = min(images, max(1, round(block**0.5 / most)))
        wide = min(captions, max(1, block // (most * longest * high)))
        rows = []
        for i in range(0, images, high):
            some = EncodedRegions(regions.vectors[i : i + high], regions.mask[i : i + high])
            row = []
            for c in range(0, captions, wide):
                part = slice(c, c + wide)
                others = EncodedWords(words.vectors[part], words.mask[part], words.counts[part])
                similar = some.vectors.flatten(0, 1) @ others.vectors.flatten(0, 1).T
                row.append(self._score(similar.view(*some.mask.shape, *others.mask.shape), some, others))
            rows.append(torch.cat(row, 1))
        return torch.cat(rows)

    def paired_scores(self, regions: EncodedRegions, words: EncodedWords) -> Tensor:
        """Scores ``[I, C]`` of each image with its own sentences ``[I, C, T]`` only."""
        return self._score(_similarities(regions, words), regions, words)

    def match(self, regions: PaddedRegions, words: Tensor, counts: Tensor | None = None) -> Tensor:
        """Scores ``[I, C]`` of each image with its own sentences ``[I, C, T]``: the matching reward of captioners."""
        return self.paired_scores(self.encode_regions(regions), self.encode_words(words, counts))

    def attention(self, regions: PaddedRegions, words: Tensor, counts: Tensor | None = None) -> Tensor:
        """Attention ``[I, C, T, N]`` of each word of each image's own sentences ``[I, C, T]`` (Eq. 5).

        Row t belongs to word t as given, bos at 0. The targets of a captioner, the words after bos, have the rows
        ``attention[:, :, 1:]``. Rows of padding are 0. Where ``rivals`` are the counted words, the attention of all
        other words is uniform.
        """
        return self.align(self.encode_regions(regions), self.encode_words(words, counts))[0]

    def align(self, regions: EncodedRegions, words: EncodedWords) -> tuple[Tensor, Tensor]:
        """Attention ``[I, C, T, N]`` (Eq. 5) and relevance R ``[I, C, T]`` (Eq. 6) of each word.

        Both are those of text-to-image matching, also for a network of the other direction.
        """
        similar = _similarities(regions, words)
        logits = self._word_logits(similar, words)  # [I, N, C, T]
        alpha = logits.masked_fill(~regions.mask[:, :, None, None], torch.finfo(logits.dtype).min).softmax(1)
        return alpha.permute(0, 2, 3, 1) * words.mask.unsqueeze(-1), _word_relevance(similar, alpha, regions)

    def _attention_logits(self, similar: Tensor, query: int) -> Tensor:
        """Logits of the softmax in Eq. 5: clipped similarities, normalised along the ``query`` dimension (Eq. 4)."""
        clipped = F.leaky_relu(similar, self.config.leak) if self.config.leak else similar.clamp_min(0)
        norm = torch.linalg.vector_norm(clipped, dim=query, keepdim=True)
        return clipped * (self.config.temperature / (norm + TINY))

    def _word_logits(self, similar: Tensor, words: EncodedWords) -> Tensor:
        if self.config.rivals == "counted":
            similar = similar * words.counts.unsqueeze(-3)
        return self._attention_logits(similar, 3)

    def _score(self, similar: Tensor, regions: EncodedRegions, words: EncodedWords) -> Tensor:
        """Scores ``[I, C]`` from similarities ``[I, N, C, T]`` (Eq. 4 to 6, Eq. 8).

        The norm of the attended vector cancels in its cosine, so the softmax is not normalised. Padding has vectors of
        0 and adds nothing to either sum, whatever its weight.
        """
        if self.config.direction == "text-to-image":
            weight = self._word_logits(similar, words).exp_()
            return self._aggregate(_word_relevance(similar, weight, regions), words.counts, -1)
        # the same with words and regions exchanged
        weight = self._attention_logits(similar, 1).exp_()
        across = (weight.transpose(1, 2) @ words.gram()).transpose(1, 2)
        return self._aggregate(_cosine(similar, weight, across, 3), regions.mask.unsqueeze(2), -2)  # over [I, N, C]

    def _aggregate(self, relevance: Tensor, counts: Tensor, dim: int) -> Tensor:
        """Aggregate relevance over counted words: the mean is Eq. 6 and, over nouns, Eq. 8."""
        match self.config.aggregation:
            case "mean":
                return (relevance * counts).sum(dim) / counts.sum(dim).clamp_min(1)
            case "sum":
                return (relevance * counts).sum(dim)
            case "max":
                return relevance.masked_fill(~counts, -1).amax(dim)
            case "logsumexp":
                sharp = self.config.sharpness
                return (relevance * sharp).masked_fill(~counts, -torch.inf).logsumexp(dim) / sharp


def _similarities(regions: EncodedRegions, words: EncodedWords) -> Tensor:
    """Cosine similarities ``[I, N, C, T]`` of each image with its own sentences (Eq. 4)."""
    similar = regions.vectors @ words.vectors.flatten(1, 2).transpose(1, 2)
    return similar.view(*regions.mask.shape, *words.mask.shape[1:])


def _word_relevance(similar: Tensor, weight: Tensor, regions: EncodedRegions) -> Tensor:
    """R ``[I, C, T]`` of words that attend to regions with ``weight [I, N, C, T]`` (Eq. 6)."""
    across = (regions.gram() @ weight.flatten(2)).view_as(weight)
    return _cosine(similar, weight, across, 1)


def _cosine(similar: Tensor, weight: Tensor, across: Tensor, context: int) -> Tensor:
    """R of Eq. 6: cosine of a unit vector and its attended vector; ``across`` = G ``weight``."""
    norm = (weight * across).sum(context).clamp_min(TINY**2).sqrt()
    return (weight * similar).sum(context) / norm


def pad_words(
    ids: Sequence[Sequence[int]], counts: Sequence[Sequence[bool]], device: torch.device = CPU
) -> tuple[Tensor, Tensor]:
    """Ragged sentences and their counts as two tensors ``[C, T]``."""
    words, counted = pad_ragged([ids], Vocabulary.pad)[0], pad_ragged([counts], 0)[0].bool()
    return words.to(device), counted.to(device)


def encode_regions(matcher: ScanNet, regions: Sequence[Regions]) -> EncodedRegions:
    """Embed the regions of several images on the matcher's device."""
    return matcher.encode_regions(to_device(pad_regions(regions), device_of(matcher)))
