"""Calls of the matcher during inference: on NumPy arrays, or in torch behind the same interface.

:class:`ArrayScan` has the equations of :class:`~deixis.methods.scan.network.ScanNet` on weights that are read from a
model folder; it needs no torch. The words of all sentences are rows of one table without padding, and the vectors of a
sentence are kept for the next photographs.

Sizes in shapes: I images, N regions of one image, C sentences, W words of all sentences, T words of one sentence, D the
width of the joint embedding space.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from deixis.language.vocabulary import Vocabulary
from deixis.layers.arrays import BLOCK, Array, Weights, linear, named_linear, sigmoid, softmax, unit
from deixis.layers.padded import RegionArrays, pad_ids
from deixis.methods.scan.config import SENTENCES, TINY, ScanConfig

if TYPE_CHECKING:
    from deixis.methods.scan.network import ScanNet

KEPT = 1 << 22
"""Numbers in the vectors of sentences that are kept (16 MB)."""

Alignment = tuple[list[Array], list[Array]]
"""Of each sentence: attention ``[T, N]`` and relevance ``[T]`` of its words."""


@dataclass(frozen=True)
class Sentences:
    """Word ids of sentences, and which words count in the score."""

    ids: list[tuple[int, ...]]  # bos first, eos last
    counts: list[tuple[bool, ...]]


class ScanCalls(Protocol):
    """What the grounder calls; ``Any`` are an implementation's own encodings of an image and of sentences."""

    config: ScanConfig
    backend: str

    def encode(self, regions: RegionArrays, sizes: Sequence[int]) -> list[Any]:
        """Embed the regions of several images, of which each has ``sizes [I]`` (Eq. 1)."""

    def read(self, sentences: Sentences) -> Any:
        """Embed the words of sentences (Eq. 2, 3)."""

    def scores(self, image: Any, sentences: Any) -> Array:
        """Match scores ``[C]`` of an image with sentences (Eq. 6, 8)."""

    def align(self, image: Any, sentences: Any) -> Alignment:
        """Attention (Eq. 5) and relevance (Eq. 6) of the words of each sentence."""


# NumPy ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EncodedImage:
    """Regions of one image in the joint embedding space."""

    vectors: Array  # [N, D] unit length; 0 for a region that is not in use
    mask: Array  # [N] regions in use

    @cached_property
    def gram(self) -> Array:
        """Inner products ``[N, N]`` of the regions."""
        return self.vectors @ self.vectors.T


@dataclass(frozen=True, eq=False)
class WordRows:
    """Words of sentences in the joint embedding space, one sentence after the other."""

    vectors: Array  # [W, D] unit length
    counts: Array  # [W] words that count in the score
    lengths: Array  # [C]

    @cached_property
    def starts(self) -> Array:
        """First row ``[C]`` of each sentence."""
        return np.cumsum(self.lengths) - self.lengths

    def blocks(self, columns: int) -> list[WordRows]:
        """Split into parts of at most about ``BLOCK`` similarities with ``columns`` regions."""
        most = max(1, BLOCK // columns)
        parts, first = [], 0
        ends = (self.starts + self.lengths).tolist()
        for c, end in enumerate(ends):
            last = c + 1 == len(ends)
            if last or ends[c + 1] - self.starts[first] > most:
                rows = slice(self.starts[first], end)
                parts.append(WordRows(self.vectors[rows], self.counts[rows], self.lengths[first : c + 1]))
                first = c + 1
        return parts


class ArrayScan:
    """The matcher on NumPy arrays; ``weights`` have the names of :func:`weight_shapes`."""

    backend = "numpy"

    def __init__(self, config: ScanConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
        self._kept: OrderedDict[tuple[int, ...], Array] = OrderedDict()  # ids -> vectors [T, D]
        self._size = 0

    def state_dict(self) -> Weights:
        """Weights by name."""
        return self.weights

    def encode(self, regions: RegionArrays, sizes: Sequence[int]) -> list[EncodedImage]:
        """Embed the regions of several images (Eq. 1)."""
        vectors = unit(named_linear(regions.features, self.weights, "embed_regions"), TINY) * regions.mask[..., None]
        rows = zip(vectors, regions.mask, sizes, strict=True)
        return [EncodedImage(each[:size].copy(), mask[:size]) for each, mask, size in rows]

    def read(self, sentences: Sentences) -> WordRows:
        """Embed the words of sentences (Eq. 2, 3); a sentence without counted words is scored by all of them."""
        found = {one: self._kept[one] for one in sentences.ids if one in self._kept}
        missing = sorted({one for one in sentences.ids if one not in found}, key=len, reverse=True)
        for start in range(0, len(missing), SENTENCES):
            some = missing[start : start + SENTENCES]
            found |= dict(zip(some, self._states(some), strict=True))
        for one in dict.fromkeys(sentences.ids):
            if one in self._kept:
                self._kept.move_to_end(one)
            else:
                self._keep(one, found[one])
        counts = [marks if any(marks) else (True,) * len(marks) for marks in sentences.counts]
        return WordRows(
            np.concatenate([found[one] for one in sentences.ids]),
            np.concatenate([np.array(marks, bool) for marks in counts]),
            np.array([len(one) for one in sentences.ids]),
        )

    def _keep(self, ids: tuple[int, ...], vectors: Array) -> None:
        """Remember the vectors of a sentence; those that were not used for the longest time are forgotten."""
        self._kept[ids] = vectors
        self._size += vectors.size
        while self._size > KEPT and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1].size

    def _states(self, ids: Sequence[tuple[int, ...]]) -> list[Array]:
        """Vectors ``[T, D]`` of sentences, the longest first: mean of both directions of a GRU."""
        lengths = [len(one) for one in ids]
        words, row = np.unique(np.concatenate([np.array(one) for one in ids]), return_inverse=True)
        starts = np.cumsum(lengths) - lengths
        embedded = self.weights["embed.weight"][words]
        ahead = self._recurrence(embedded, [row[s : s + n] for s, n in zip(starts, lengths, strict=True)], "l0")
        turned = [row[s : s + n][::-1] for s, n in zip(starts, lengths, strict=True)]
        back = self._recurrence(embedded, turned, "l0_reverse")
        return [unit(np.float32(0.5) * (a + b[::-1]), TINY) for a, b in zip(ahead, back, strict=True)]

    def _recurrence(self, embedded: Array, rows: Sequence[Array], name: str) -> list[Array]:
        """States ``[T, D]`` of one direction; ``rows`` are the words of each sentence, the longest sentence first."""
        w, width = self.weights, self.config.embed
        gates = linear(embedded, w[f"gru.weight_ih_{name}"], w[f"gru.bias_ih_{name}"])  # of each different word
        recurrent, bias = w[f"gru.weight_hh_{name}"], w[f"gru.bias_hh_{name}"]
        states = np.zeros((len(rows), len(rows[0]), width), np.float32)
        before = np.zeros((len(rows), width), np.float32)
        for step in range(len(rows[0])):
            words = np.array([each[step] for each in rows if len(each) > step])
            own, before = gates[words], before[: len(words)]
            from_h = linear(before, recurrent, bias)
            both = sigmoid(own[:, : 2 * width] + from_h[:, : 2 * width])
            new = np.tanh(own[:, 2 * width :] + both[:, :width] * from_h[:, 2 * width :])
            before = new + both[:, width:] * (before - new)
            states[: len(words), step] = before
        return [each[: len(row)] for each, row in zip(states, rows, strict=True)]

    def scores(self, image: EncodedImage, sentences: WordRows) -> Array:
        """Match scores ``[C]`` (Eq. 6, 8); the norm of the attended vector cancels in its cosine."""
        score = self._by_words if self.config.direction == "text-to-image" else self._by_regions
        return np.concatenate([score(image, part) for part in sentences.blocks(len(image.vectors))])

    def align(self, image: EncodedImage, sentences: WordRows) -> Alignment:
        """Attention and relevance of text-to-image matching, also for a network of the other direction."""
        similar = image.vectors @ sentences.vectors.T  # [N, W]
        logits = np.where(image.mask[:, None], self._word_logits(similar, sentences), np.finfo(np.float32).min)
        alpha = softmax(np.ascontiguousarray(logits.T))  # [W, N]
        near = _relevance(similar, np.ascontiguousarray(alpha.T), image.gram)
        ends = sentences.starts[1:]
        return np.split(alpha, ends), np.split(near, ends)

    def _by_words(self, image: EncodedImage, words: WordRows) -> Array:
        similar = image.vectors @ words.vectors.T  # [N, W]
        weight = self._word_logits(similar, words)
        np.exp(weight, out=weight)
        near = _relevance(similar, weight, image.gram)
        return self._aggregate(near[None], words.counts[None], words.starts)[0]

    def _word_logits(self, similar: Array, words: WordRows) -> Array:
        """Logits ``[N, W]`` of Eq. 5: clipped similarities, normalised over the words of a sentence (Eq. 4)."""
        clipped = self._clipped(similar)
        if self.config.rivals == "counted":
            clipped *= words.counts
        norm = np.sqrt(np.add.reduceat(clipped * clipped, words.starts, 1))  # [N, C]
        clipped *= np.repeat(np.float32(self.config.temperature) / (norm + np.float32(TINY)), words.lengths, 1)
        return clipped

    def _by_regions(self, image: EncodedImage, words: WordRows) -> Array:
        """The same with words and regions exchanged: regions attend to the words of each sentence."""
        similar = image.vectors @ words.vectors.T
        weight = self._clipped(similar)
        weight *= np.float32(self.config.temperature) / (np.sqrt((weight * weight).sum(0)) + np.float32(TINY))
        np.exp(weight, out=weight)
        near = []
        for start, length in zip(words.starts, words.lengths, strict=True):
            rows = slice(start, start + length)
            gram = words.vectors[rows] @ words.vectors[rows].T
            near.append(_relevance(similar[:, rows].T, weight[:, rows].T, gram))
        return self._aggregate(np.stack(near), image.mask[None], np.zeros(1, int))[:, 0]

    def _clipped(self, similar: Array) -> Array:
        return np.maximum(similar, similar * np.float32(self.config.leak))

    def _aggregate(self, relevance: Array, counts: Array, starts: Array) -> Array:
        """Scores ``[..., C]`` of relevances ``[..., W]`` over the counted ones from each of ``starts`` on."""
        match self.config.aggregation:
            case "max":
                return np.maximum.reduceat(np.where(counts, relevance, -1), starts, -1).astype(np.float32)
            case "logsumexp":
                sharp = self.config.sharpness
                powers = np.where(counts, np.exp(sharp * relevance.astype(np.float64)), 0)
                return (np.log(np.add.reduceat(powers, starts, -1)) / sharp).astype(np.float32)
        total = np.add.reduceat(np.where(counts, relevance, 0), starts, -1)
        if self.config.aggregation == "sum":
            return total
        return total / np.maximum(np.add.reduceat(counts, starts, -1, dtype=int), 1).astype(np.float32)


def _relevance(similar: Array, weight: Array, gram: Array) -> Array:
    """R ``[W]`` of Eq. 6: cosine of each word and the sum of regions with ``weight [N, W]``."""
    norm = np.sqrt(np.maximum(np.einsum("nw,nw->w", weight, gram @ weight), np.float32(TINY**2)))
    return np.einsum("nw,nw->w", weight, similar) / norm


def weight_shapes(c: ScanConfig) -> Mapping[str, tuple[int, ...]]:
    """Names and shapes of the weights of a matcher."""
    shapes: dict[str, tuple[int, ...]] = {
        "embed_regions.weight": (c.embed, c.features),
        "embed_regions.bias": (c.embed,),
        "embed.weight": (c.vocabulary, c.words),
    }
    for name in ("l0", "l0_reverse"):
        shapes |= {
            f"gru.weight_ih_{name}": (3 * c.embed, c.words),
            f"gru.weight_hh_{name}": (3 * c.embed, c.embed),
            f"gru.bias_ih_{name}": (3 * c.embed,),
            f"gru.bias_hh_{name}": (3 * c.embed,),
        }
    return shapes


# torch ---------------------------------------------------------------------------------------------------------------


class TorchScan:
    """A network of torch behind the same interface."""

    backend = "torch"

    def __init__(self, network: ScanNet) -> None:
        self.network, self.config = network, network.config

    def encode(self, regions: RegionArrays, sizes: Sequence[int]) -> list[Any]:
        """Embed regions in one pass."""
        import torch

        from deixis.device import device_of, to_device
        from deixis.layers.padding import as_tensors

        with torch.no_grad():
            encoded = self.network.encode_regions(to_device(as_tensors(regions), device_of(self.network)))
        return [
            replace(encoded, vectors=encoded.vectors[i : i + 1, :size], mask=encoded.mask[i : i + 1, :size])
            for i, size in enumerate(sizes)
        ]

    def read(self, sentences: Sentences) -> Any:
        """Embed words; the encoding is that of sentences ``[C, T]``, with their lengths."""
        import torch

        from deixis.device import device_of

        device = device_of(self.network)
        words, counts = (
            torch.from_numpy(pad_ids([rows], value)[0]).to(device)
            for rows, value in ((sentences.ids, Vocabulary.pad), (sentences.counts, 0))
        )
        with torch.no_grad():
            return self.network.encode_words(words, counts.bool()), [len(one) for one in sentences.ids]

    def scores(self, image: Any, sentences: Any) -> Array:
        """Match scores ``[C]``."""
        import torch

        with torch.no_grad():
            return self.network.scores(image, sentences[0])[0].float().cpu().numpy()

    def align(self, image: Any, sentences: Any) -> Alignment:
        """Attention and relevance of each word."""
        import torch

        words, lengths = sentences
        own = replace(words, vectors=words.vectors[None], mask=words.mask[None], counts=words.counts[None])
        with torch.no_grad():
            attention, relevance = (part[0].float().cpu().numpy() for part in self.network.align(image, own))
        return (
            [each[:length] for each, length in zip(attention, lengths, strict=True)],
            [each[:length] for each, length in zip(relevance, lengths, strict=True)],
        )
