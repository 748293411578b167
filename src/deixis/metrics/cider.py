"""CIDEr and CIDEr-D: tf-idf product of a caption with the references of its image (Vedantam et al. 2015).

Most papers report CIDEr-D under the name CIDEr: clipped counts and a penalty for length differences. :class:`CiderD`
is fast enough for rewards: references are indexed once, and a batch of captions is scored with array operations.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.data.reading import BadFile, read_json
from deixis.errors import DeixisError
from deixis.metrics.ngrams import (
    ORDERS,
    Counts,
    Hypotheses,
    Ints,
    References,
    Sentence,
    Table,
    check_captions,
    check_references,
    count_ngrams,
    flatten,
    number_ngrams,
    per_image_text,
)
from deixis.metrics.score import Score, Values, mean_score, signature, write_json

SIGMA = 6.0
"""Width of the Gaussian length penalty of CIDEr-D."""
SCALE = 10.0
"""Factor of CIDEr-D on the mean cosine."""


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """Number of images whose references contain each n-gram; determines idf and can be cached."""

    table: Table
    images_with: Values  # [G]
    images: float  # total number of images

    def __str__(self) -> str:
        """Text for the signature: number of images, number of n-grams with a nonzero count."""
        return f"{self.images:g}-{np.count_nonzero(self.images_with)}"

    def idf(self, table: Table) -> Values:
        """Inverse document frequencies ``[G]`` of another table's n-grams; an unknown n-gram counts as 1 image."""
        found = np.arange(len(table)) if table is self.table else self.table.find(table)
        frequency = np.ones(len(found))
        frequency[found >= 0] = np.maximum(1.0, self.images_with[found[found >= 0]])
        return math.log(self.images) - np.log(frequency)


def document_frequencies(references: References) -> DocumentFrequencies:
    """Count document frequencies over the images of these references."""
    check_references(references)
    counts, image_of = _count_references(references)
    key = np.sort(image_of[counts.sentence] * len(counts.table) + counts.ngram)
    return _frequencies(counts.table, key, len(references))


def document_frequencies_from(counts: Mapping[tuple[Hashable, ...], float], images: float) -> DocumentFrequencies:
    """Build document frequencies from given counts, e.g. ``{("a", "dog"): 12}``, over a number of images."""
    numbers = np.fromiter(counts.values(), dtype=np.float64, count=len(counts))
    if not (math.isfinite(images) and images >= 1 and np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise DeixisError("Invalid document frequencies: each must be a finite count of images, at least 0.")
    if len(numbers) and numbers.max() > images:
        raise DeixisError(f"Invalid document frequencies: an n-gram is in {numbers.max():g} of {images:g} images.")
    if not all(1 <= len(ngram) <= ORDERS for ngram in counts):
        raise DeixisError(f"Invalid document frequencies: n-grams must have 1 to {ORDERS} words.")
    tokens, lengths = flatten(list(counts))
    table, positions, ngrams = number_ngrams(tokens, lengths)
    images_with = np.zeros(len(table))
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else lengths
    for order in range(ORDERS):
        # The n-gram that spans the whole entry, not one inside it.
        whole = np.flatnonzero(lengths == order + 1)
        images_with[ngrams[order][np.searchsorted(positions[order], begins[whole])]] = numbers[whole]
    return DocumentFrequencies(table, images_with, images)


def save_document_frequencies(path: Path, frequencies: DocumentFrequencies) -> None:
    """Write ``{"ref_len": images, "document_frequency": [[[tokens], count], ...]}`` as JSON."""
    words = list(frequencies.table.words)
    ngrams: list[list[Hashable]] = [[word] for word in words]
    shorter = ngrams
    for keys in frequencies.table.keys[1:]:
        first, last = np.divmod(keys, max(len(words), 1))
        shorter = [[*shorter[f], words[w]] for f, w in zip(first.tolist(), last.tolist(), strict=True)]
        ngrams = ngrams + shorter
    pairs = list(zip(ngrams, frequencies.images_with.tolist(), strict=True))
    write_json(path, {"ref_len": frequencies.images, "document_frequency": pairs})


def load_document_frequencies(path: Path, ids: bool = False) -> DocumentFrequencies:
    """Read a file of :func:`save_document_frequencies`; with ``ids``, tokens are converted to integers."""
    if not path.is_file():
        raise DeixisError(f"{path} does not exist. Write it with save_document_frequencies().")
    document = read_json(path)
    try:
        kind: type[int] | type[str] = int if ids else str
        counts: dict[tuple[Hashable, ...], float] = {
            tuple(kind(token) for token in ngram): float(number) for ngram, number in document["document_frequency"]
        }
        return document_frequencies_from(counts, float(document["ref_len"]))
    except (DeixisError, KeyError, TypeError, ValueError) as error:
        raise BadFile(path, f"invalid document frequency file ({error})") from None


class CiderD:
    """CIDEr-D scorer with fixed references, for many batches of captions.

    ``document_frequencies`` default to those of the references. ``plain`` omits the clipping and the length penalty:
    CIDEr as in Eq. 2 and 3 of its paper, without stemming, on the same scale.
    """

    def __init__(
        self, references: References, document_frequencies: DocumentFrequencies | None = None, plain: bool = False
    ) -> None:
        check_references(references)
        self.plain = plain
        self._number = {image: number for number, image in enumerate(references)}
        counts, image_of = _count_references(references)
        # Inverted index: one posting per n-gram and reference, sorted by image, then n-gram.
        key = image_of[counts.sentence] * len(counts.table) + counts.ngram
        order = np.argsort(key, kind="stable")
        self._key = key[order]
        self._reference = counts.sentence[order]
        self._count = counts.count[order]
        self._table = counts.table
        self._per_image = np.bincount(image_of)  # [I]
        self._lengths = _bigrams(counts.lengths)  # [R]

        self._frequencies = document_frequencies or _frequencies(counts.table, self._key, len(references))
        idf = self._frequencies.idf(counts.table)[counts.ngram]
        norm = _norms(counts, counts.count * idf)[counts.sentence, counts.table.orders()[counts.ngram]]
        weight = np.divide(counts.count * idf**2, norm, out=np.zeros(len(norm)), where=norm > 0)
        self._weight = weight[order]

    def score(self, captions: Sequence[Sentence], images: Sequence[str]) -> Values:
        """Score each caption against the references of its image: ``[B]``; images may repeat."""
        return self._score(count_ngrams(*flatten(captions)), images)

    def score_ids(self, ids: npt.ArrayLike, images: Sequence[str], end: int = 0) -> Values:
        """Score captions given as word ids ``[B, T]``: ``[B]``.

        A caption ends at its first ``end`` token. This token counts as a word, as in self-critical training, so that
        the reward covers the end of the caption. The references must then include it too.
        """
        table = np.asarray(ids)
        ended = np.cumsum(table == end, axis=1)
        kept = ended - (table == end) == 0  # up to and including the first end token
        return self._score(count_ngrams(table[kept].astype(np.int64), kept.sum(1)), images)

    def _score(self, counts: Counts, images: Sequence[str]) -> Values:
        captions = len(counts.lengths)
        if len(images) != captions:
            raise ValueError(f"{captions} captions, but {len(images)} image ids")
        unknown = next((image for image in images if image not in self._number), None)
        if unknown is not None:
            raise DeixisError(f"Image {unknown} has no reference caption. Add one, or remove the image.")
        image = np.array([self._number[name] for name in images], dtype=np.int64)

        order_of = counts.table.orders()
        idf = self._frequencies.idf(counts.table)
        norm = _norms(counts, counts.count * idf[counts.ngram])  # [B, ORDERS]

        # Pair each n-gram entry of a caption with its postings in the references of the image.
        known = self._table.find(counts.table)[counts.ngram]
        entry = np.flatnonzero(known >= 0)
        key = image[counts.sentence[entry]] * len(self._table) + known[entry]
        first = np.searchsorted(self._key, key, side="left")
        pairs = np.searchsorted(self._key, key, side="right") - first
        begins = np.cumsum(pairs) - pairs
        posting = np.arange(pairs.sum()) + np.repeat(first - begins, pairs)
        entry = np.repeat(entry, pairs)
        caption, count = counts.sentence[entry], counts.count[entry]

        if self.plain:
            product = count * self._weight[posting]
        else:
            length_difference = _bigrams(counts.lengths)[caption] - self._lengths[self._reference[posting]]
            product = np.minimum(count, self._count[posting]) * self._weight[posting]
            product *= np.exp(-(length_difference**2) / (2 * SIGMA**2))
        length = norm[caption, order_of[counts.ngram[entry]]]
        cosine = np.divide(product, length, out=np.zeros(len(product)), where=length > 0)
        return SCALE * np.bincount(caption, cosine, captions) / (ORDERS * self._per_image[image])


def cider(
    hypotheses: Hypotheses,
    references: References,
    document_frequencies: DocumentFrequencies | None = None,
    plain: bool = False,
    tok: str = "given",
    name: str = "CIDEr",
) -> Score:
    """Compute CIDEr as in the COCO caption evaluation (CIDEr-D); with ``plain``, the paper's CIDEr.

    Document frequencies default to those of the references. A corpus of one image scores 0, because the idf of each
    of its n-grams is 0. ``tok`` is the tokeniser's name in the signature.
    """
    images = check_captions(hypotheses, references)
    scorer = CiderD(references, document_frequencies, plain)
    items = scorer.score([hypotheses[image] for image in images], images)
    frequencies = "corpus" if document_frequencies is None else f"cached-{document_frequencies}"
    text = signature(refs=per_image_text(references), variant="plain" if plain else "d", df=frequencies, tok=tok)
    return mean_score(name, images, items, text)


def _count_references(references: References) -> tuple[Counts, Ints]:
    """Count the n-grams of all references; also return the image index ``[R]`` of each reference."""
    per_image = [len(sentences) for sentences in references.values()]
    counts = count_ngrams(*flatten(list(chain.from_iterable(references.values()))))
    return counts, np.repeat(np.arange(len(references)), per_image)


def _frequencies(table: Table, key: Ints, images: int) -> DocumentFrequencies:
    """Count the images with each n-gram, from the sorted keys ``image * G + n-gram`` of all references."""
    distinct = key[np.diff(key, prepend=-1) > 0]
    images_with = np.bincount(distinct % len(table), minlength=len(table)).astype(np.float64)
    return DocumentFrequencies(table, images_with, float(images))


def _norms(counts: Counts, weight: Values) -> Values:
    """Euclidean norms ``[N, ORDERS]`` of the tf-idf vectors of each sentence, by n-gram order."""
    row = counts.sentence * ORDERS + counts.table.orders()[counts.ngram]
    return np.sqrt(np.bincount(row, weight**2, len(counts.lengths) * ORDERS)).reshape(-1, ORDERS)


def _bigrams(lengths: Ints) -> Ints:
    """Number of bigrams, which the length penalty of the published code uses instead of words."""
    return np.maximum(0, lengths - 1)
