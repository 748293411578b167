"""Counts of n-grams as integers, for BLEU and CIDEr.

The key of an n-gram of order k combines the number of its first k - 1 words with its last word. Each order then needs
one sort of integers over all sentences, and no tuples of strings.
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
"""Maximum n-gram length of both metrics."""

Sentence = Sequence[Hashable]  # words, or word ids
Hypotheses = Mapping[str, Sentence]  # image id -> one caption
References = Mapping[str, Sequence[Sentence]]  # image id -> reference captions
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """Numbering of the n-grams of some sentences: by order, then by key."""

    words: dict[Hashable, int]  # token -> id, which is also the number of its 1-gram
    keys: tuple[
        Ints, ...
    ]  # per order: sorted (number of the first k - 1 words in their order) * len(words) + last word

    def __len__(self) -> int:
        return sum(map(len, self.keys))

    def orders(self) -> Ints:
        """Order of each n-gram ``[G]``, from 0."""
        return np.repeat(np.arange(ORDERS), [len(keys) for keys in self.keys])

    def find(self, other: Table) -> Ints:
        """Number in this table of each n-gram of ``other``, ``[G of other]``; -1 if absent."""
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
    """Count of each n-gram in each sentence. Entries are sorted by sentence, then n-gram."""

    table: Table
    sentence: Ints  # [E]
    ngram: Ints  # [E]
    count: Ints  # [E]
    lengths: Ints  # [N] number of words of each sentence


def flatten(sentences: Sequence[Sentence]) -> tuple[list[Hashable], Ints]:
    """Concatenate the tokens of all sentences; also return the sentence lengths ``[N]``."""
    return list(chain.from_iterable(sentences)), np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))


def number_ngrams(tokens: Sequence[Hashable] | Ints, lengths: Ints) -> tuple[Table, list[Ints], list[Ints]]:
    """Number the n-grams of concatenated sentences.

    Also return, for each order, the start positions ``[P]`` of the n-grams and their numbers ``[P]``.
    """
    if isinstance(tokens, np.ndarray):
        distinct, word = np.unique(tokens, return_inverse=True)
        words: dict[Hashable, int] = dict(zip(distinct.tolist(), range(len(distinct)), strict=True))
    else:
        seen: defaultdict[Hashable, int] = defaultdict()
        seen.default_factory = seen.__len__  # a new token gets the next number
        word = np.fromiter(map(seen.__getitem__, tokens), dtype=np.int64, count=len(tokens))
        words = dict(seen)

    end = np.repeat(np.cumsum(lengths), lengths)  # [T] end of the sentence of each token
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
    """Count the n-grams of concatenated sentences (see :func:`flatten`), per sentence."""
    table, positions, numbers = number_ngrams(tokens, lengths)
    owner = np.repeat(np.arange(len(lengths)), lengths)  # [T]
    size = max(len(table), 1)
    pair, count = np.unique(owner[np.concatenate(positions)] * size + np.concatenate(numbers), return_counts=True)
    sentence, ngram = np.divmod(pair, size)
    return Counts(table, sentence, ngram, count, lengths)


def check_captions(hypotheses: Hypotheses, references: References) -> list[str]:
    """Check that each image has a hypothesis and a nonempty reference; return the image ids in reference order.

    An empty reference next to a nonempty one is accepted, as in the published evaluators. A hypothesis may be empty.
    """
    check_references(references)
    missing = [image for image in references if image not in hypotheses]
    if missing:
        raise DeixisError(f"{_listed(missing)} no caption in the predictions. Add one for each image of the reference.")
    unknown = [image for image in hypotheses if image not in references]
    if unknown:
        raise DeixisError(f"{_listed(unknown)} no reference caption. Remove these images from the predictions.")
    if any(isinstance(sentence, str) for sentence in hypotheses.values()):
        raise TypeError("captions must be sequences of tokens; use caption_scores() for plain text")
    return list(references)


def check_references(references: References) -> None:
    """Raise an error if an image has no reference caption with words."""
    if not references:
        raise DeixisError("The reference has no images. Check its path and split.")
    empty = [image for image, sentences in references.items() if not any(len(s) for s in sentences)]
    if empty:
        raise DeixisError(f"{_listed(empty)} only empty reference captions. Add at least one caption with words.")
    if any(isinstance(sentence, str) for sentences in references.values() for sentence in sentences):
        raise TypeError("captions must be sequences of tokens; use caption_scores() for plain text")


def per_image_text(references: References) -> str:
    """Number of references per image, for the signature: ``"5"``, or a range such as ``"4-5"``."""
    numbers = set(map(len, references.values()))
    return "-".join(str(number) for number in sorted({min(numbers), max(numbers)}))


def _listed(images: Sequence[str]) -> str:
    shown = ", ".join(images[:3]) + (f" and {len(images) - 3} more" if len(images) > 3 else "")
    return f"Image {shown} has" if len(images) == 1 else f"Images {shown} have"
