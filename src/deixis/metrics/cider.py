"""CIDEr and CIDEr-D: tf-idf agreement of a caption with the references of its image (Vedantam et al. 2015).

What the field prints as CIDEr is CIDEr-D: clipped counts and a penalty for a length that differs. :class:`CiderD`
is made for rewards: the references become numbers once, and a batch of sampled captions is scored by a few array
operations.
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
"""CIDEr-D is ten times a mean cosine."""


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """In how many images' references each n-gram stands. The basis of idf, kept apart so that it can be cached."""

    table: Table
    images_with: Values  # [G]
    images: float  # how many there are in all

    def __str__(self) -> str:
        """For the signature: how many images, and how many n-grams stand in them."""
        return f"{self.images:g}-{np.count_nonzero(self.images_with)}"

    def idf(self, table: Table) -> Values:
        """[G] the inverse document frequency of another table's n-grams; one never seen counts as seen once."""
        found = np.arange(len(table)) if table is self.table else self.table.find(table)
        frequency = np.ones(len(found))
        frequency[found >= 0] = np.maximum(1.0, self.images_with[found[found >= 0]])
        return math.log(self.images) - np.log(frequency)


def document_frequencies(references: References) -> DocumentFrequencies:
    """Document frequencies over the images of these references."""
    check_references(references)
    counts, image_of = _count_references(references)
    key = np.sort(image_of[counts.sentence] * len(counts.table) + counts.ngram)
    return _frequencies(counts.table, key, len(references))


def document_frequencies_from(counts: Mapping[tuple[Hashable, ...], float], images: float) -> DocumentFrequencies:
    """Document frequencies that were counted elsewhere: ``{("a", "dog"): 12, ...}`` over so many images."""
    numbers = np.fromiter(counts.values(), dtype=np.float64, count=len(counts))
    if not (math.isfinite(images) and images >= 1 and np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise DeixisError("Document frequencies are counts of images; one of these is not.")
    if len(numbers) and numbers.max() > images:
        raise DeixisError(f"An n-gram occurs in {numbers.max():g} images, but there are {images:g}; count again.")
    if not all(1 <= len(ngram) <= ORDERS for ngram in counts):
        raise DeixisError(f"Document frequencies are of n-grams of one to {ORDERS} words; one of these is not.")
    tokens, lengths = flatten(list(counts))
    table, positions, ngrams = number_ngrams(tokens, lengths)
    images_with = np.zeros(len(table))
    begins = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if len(lengths) else lengths
    for order in range(ORDERS):
        # The n-gram that a given n-gram is itself, and not a part of.
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
    """Read a file of :func:`save_document_frequencies`; with ``ids``, tokens written as digits become integers."""
    if not path.is_file():
        raise DeixisError(f"{path} does not exist; save_document_frequencies() writes such a file.")
    document = read_json(path)
    try:
        kind: type[int] | type[str] = int if ids else str
        counts: dict[tuple[Hashable, ...], float] = {
            tuple(kind(token) for token in ngram): float(number) for ngram, number in document["document_frequency"]
        }
        return document_frequencies_from(counts, float(document["ref_len"]))
    except (DeixisError, KeyError, TypeError, ValueError) as error:
        raise BadFile(path, f"not a file of document frequencies ({error})") from None


class CiderD:
    """CIDEr-D against fixed references, for any number of batches of captions.

    ``document_frequencies`` are those of the references unless cached ones are given. ``plain`` leaves out the
    clipping and the length penalty, which is CIDEr as its paper defines it (Eq. 2 and 3 there), without stemming and
    on the same scale.
    """

    def __init__(
        self, references: References, document_frequencies: DocumentFrequencies | None = None, plain: bool = False
    ) -> None:
        check_references(references)
        self.plain = plain
        self._number = {image: number for number, image in enumerate(references)}
        counts, image_of = _count_references(references)
        # One posting for each n-gram of each reference, sorted so that an image's postings of an n-gram are adjacent.
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
        """[B] the score of each caption against the references of its image; images may repeat."""
        return self._score(count_ngrams(*flatten(captions)), images)

    def score_ids(self, ids: npt.ArrayLike, images: Sequence[str], end: int = 0) -> Values:
        """[B] the scores of word ids ``[B, T]``.

        A caption ends with its first ``end`` token, which counts as a word: self-critical training has always scored
        it so, and it teaches the captioner to stop. The references must then hold it too.
        """
        table = np.asarray(ids)
        ended = np.cumsum(table == end, axis=1)
        kept = ended - (table == end) == 0  # up to the first end, included
        return self._score(count_ngrams(table[kept].astype(np.int64), kept.sum(1)), images)

    def _score(self, counts: Counts, images: Sequence[str]) -> Values:
        captions = len(counts.lengths)
        if len(images) != captions:
            raise ValueError(f"{captions} captions, but {len(images)} image ids")
        unknown = next((image for image in images if image not in self._number), None)
        if unknown is not None:
            raise DeixisError(f"Image {unknown} has no reference to score against.")
        image = np.array([self._number[name] for name in images], dtype=np.int64)

        order_of = counts.table.orders()
        idf = self._frequencies.idf(counts.table)
        norm = _norms(counts, counts.count * idf[counts.ngram])  # [B, ORDERS]

        # Every entry of a caption meets the postings of its n-gram in the references of its image.
        known = self._table.find(counts.table)[counts.ngram]
        entry = np.flatnonzero(known >= 0)
        key = image[counts.sentence[entry]] * len(self._table) + known[entry]
        first = np.searchsorted(self._key, key, side="left")
        meetings = np.searchsorted(self._key, key, side="right") - first
        begins = np.cumsum(meetings) - meetings
        posting = np.arange(meetings.sum()) + np.repeat(first - begins, meetings)
        entry = np.repeat(entry, meetings)
        caption, count = counts.sentence[entry], counts.count[entry]

        if self.plain:
            agreement = count * self._weight[posting]
        else:
            apart = _bigrams(counts.lengths)[caption] - self._lengths[self._reference[posting]]
            agreement = np.minimum(count, self._count[posting]) * self._weight[posting]
            agreement *= np.exp(-(apart**2) / (2 * SIGMA**2))
        length = norm[caption, order_of[counts.ngram[entry]]]
        cosine = np.divide(agreement, length, out=np.zeros(len(agreement)), where=length > 0)
        return SCALE * np.bincount(caption, cosine, captions) / (ORDERS * self._per_image[image])


def cider(
    hypotheses: Hypotheses,
    references: References,
    document_frequencies: DocumentFrequencies | None = None,
    plain: bool = False,
    tok: str = "given",
    name: str = "CIDEr",
) -> Score:
    """CIDEr as the COCO caption evaluation prints it, which is CIDEr-D; ``plain`` gives the paper's own CIDEr.

    Document frequencies come from the references, or are given. A corpus of one image scores 0: all of its n-grams
    stand in every image there is. ``tok`` names the tokeniser in the signature.
    """
    images = check_captions(hypotheses, references)
    scorer = CiderD(references, document_frequencies, plain)
    items = scorer.score([hypotheses[image] for image in images], images)
    frequencies = "corpus" if document_frequencies is None else f"cached-{document_frequencies}"
    text = signature(refs=per_image_text(references), variant="plain" if plain else "d", df=frequencies, tok=tok)
    return mean_score(name, images, items, text)


def _count_references(references: References) -> tuple[Counts, Ints]:
    """The n-grams of all references, and the image ``[R]`` of each."""
    per_image = [len(sentences) for sentences in references.values()]
    counts = count_ngrams(*flatten(list(chain.from_iterable(references.values()))))
    return counts, np.repeat(np.arange(len(references)), per_image)


def _frequencies(table: Table, key: Ints, images: int) -> DocumentFrequencies:
    """From the sorted keys (image * G + n-gram) of all references: an image counts once for each of its n-grams."""
    distinct = key[np.diff(key, prepend=-1) > 0]
    images_with = np.bincount(distinct % len(table), minlength=len(table)).astype(np.float64)
    return DocumentFrequencies(table, images_with, float(images))


def _norms(counts: Counts, weight: Values) -> Values:
    """[N, ORDERS] the Euclidean length of each sentence's tf-idf vector, by order."""
    row = counts.sentence * ORDERS + counts.table.orders()[counts.ngram]
    return np.sqrt(np.bincount(row, weight**2, len(counts.lengths) * ORDERS)).reshape(-1, ORDERS)


def _bigrams(lengths: Ints) -> Ints:
    """The length penalty of the published code counts bigrams, not words."""
    return np.maximum(0, lengths - 1)
