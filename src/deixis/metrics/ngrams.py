"""Captions as counts of integer n-grams: the ground that BLEU and CIDEr stand on.

An n-gram of order k is its first k - 1 words, already a number, and one word more. So each order is one sort of
integers over all sentences at once, and no tuple of strings is ever made.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError

ORDERS = 4
"""Both metrics count n-grams of one to four words."""

Sentence = Sequence[Hashable]  # words, or word ids
Hypotheses = Mapping[str, Sentence]  # image id -> one caption
References = Mapping[str, Sequence[Sentence]]  # image id -> the captions that people wrote
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """A number for every n-gram of some sentences: orders follow one another, each sorted by its key."""

    words: dict[Hashable, int]  # token -> id, also the number of its 1-gram
    keys: tuple[Ints, ...]  # by order: sorted (number within order k - 1 of the first words) * len(words) + last word

    def __len__(self) -> int:
        return sum(map(len, self.keys))

    def orders(self) -> Ints:
        """[G] the order of each n-gram, from 0."""
        return np.repeat(np.arange(ORDERS), [len(keys) for keys in self.keys])

    def find(self, other: Table) -> Ints:
        """[G of other] the number here of each n-gram there; -1 for one that is not here."""
        word = np.array([self.words.get(token, -1) for token in other.words], dtype=np.int64)
        within, offset = word, 0
        found = [word]
        for mine, theirs, shorter in zip(self.keys[1:], other.keys[1:], self.keys, strict=False):
            first, last = np.divmod(theirs, max(len(word), 1))
            first, last = within[first], word[last]
            key = first * len(self.words) + last
            place = np.searchsorted(mine, key)
            hit = (first >= 0) & (last >= 0) & (place < len(mine))
            hit[hit] = mine[place[hit]] == key[hit]
            within = np.where(hit, place, -1)
            offset += len(shorter)
            found.append(np.where(hit, place + offset, -1))
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each n-gram stands in each sentence. Entries are sorted by sentence, then n-gram."""

    table: Table
    sentence: Ints  # [E]
    ngram: Ints  # [E]
    count: Ints  # [E]
    lengths: Ints  # [N] words of each sentence


def flatten(sentences: Sequence[Sentence]) -> tuple[list[Hashable], Ints]:
    """All tokens in a row, and the length of each sentence ``[N]``."""
    return list(chain.from_iterable(sentences)), np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))


def number_ngrams(tokens: Sequence[Hashable] | Ints, lengths: Ints) -> tuple[Table, list[Ints], list[Ints]]:
    """Number the n-grams of sentences that lie in a row.

    Also, for each order: the positions ``[P]`` in the row at which an n-gram begins, and its number ``[P]``.
    """
    if isinstance(tokens, np.ndarray):
        distinct, word = np.unique(tokens, return_inverse=True)
        words: dict[Hashable, int] = dict(zip(distinct.tolist(), range(len(distinct)), strict=True))
    else:
        seen: defaultdict[Hashable, int] = defaultdict()
        seen.default_factory = seen.__len__  # a new token takes the next number
        word = np.fromiter(map(seen.__getitem__, tokens), dtype=np.int64, count=len(tokens))
        words = dict(seen)

    end = np.repeat(np.cumsum(lengths), lengths)  # [T] where the sentence of each token ends
    position, within = np.arange(len(word)), word
    keys, positions, numbers = [np.arange(len(words))], [position], [within]
    offset = 0
    for order in range(1, ORDERS):
        fits = position + order < end[position]
        position = position[fits]
        distinct, within = np.unique(within[fits] * len(words) + word[position + order], return_inverse=True)
        offset += len(keys[-1])
        keys.append(distinct)
        positions.append(position)
        numbers.append(within + offset)
    return Table(words, tuple(keys)), positions, numbers


def count_ngrams(tokens: Sequence[Hashable] | Ints, lengths: Ints) -> Counts:
    """The n-grams of sentences that lie in a row (see :func:`flatten`), counted per sentence."""
    table, positions, numbers = number_ngrams(tokens, lengths)
    owner = np.repeat(np.arange(len(lengths)), lengths)  # [T]
    size = max(len(table), 1)
    pair, count = np.unique(owner[np.concatenate(positions)] * size + np.concatenate(numbers), return_counts=True)
    sentence, ngram = np.divmod(pair, size)
    return Counts(table, sentence, ngram, count, lengths)


def check_captions(hypotheses: Hypotheses, references: References) -> list[str]:
    """The image ids in the order of the references, when every image has one hypothesis and a reference with words.

    A reference without words beside others is let through, as the published evaluators do; a hypothesis may be
    empty.
    """
    check_references(references)
    missing = [image for image in references if image not in hypotheses]
    if missing:
        raise DeixisError(f"{_named(missing)} no caption to score; give one for every image of the reference.")
    unknown = [image for image in hypotheses if image not in references]
    if unknown:
        raise DeixisError(f"{_named(unknown)} no reference; score only images that the reference describes.")
    if any(isinstance(sentence, str) for sentence in hypotheses.values()):
        raise TypeError("captions are sequences of tokens here; caption_scores() takes plain text")
    return list(references)


def check_references(references: References) -> None:
    """Refuse references that no score can rest on."""
    if not references:
        raise DeixisError("The reference holds no image; check its path and split.")
    empty = [image for image, sentences in references.items() if not any(len(s) for s in sentences)]
    if empty:
        raise DeixisError(f"{_named(empty)} an empty reference; give at least one sentence with words.")
    if any(isinstance(sentence, str) for sentences in references.values() for sentence in sentences):
        raise TypeError("captions are sequences of tokens here; caption_scores() takes plain text")


def per_image_text(references: References) -> str:
    """How many references an image has, for the signature: ``"5"``, or ``"4-5"`` where images differ."""
    numbers = set(map(len, references.values()))
    return "-".join(str(number) for number in sorted({min(numbers), max(numbers)}))


def _named(images: Sequence[str]) -> str:
    shown = ", ".join(images[:3]) + (f" and {len(images) - 3} more" if len(images) > 3 else "")
    return f"Image {shown} has" if len(images) == 1 else f"Images {shown} have"
