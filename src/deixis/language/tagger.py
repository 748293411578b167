"""Dependency parser of captions: a small convolutional network in NumPy, learnt from spaCy's parses of captions.

A token is described by its word, its last letters and its kind. Five convolutions of width 3 give each token a vector.
Linear layers of these vectors give the tag, the part of speech, the place in a noun chunk, the head and the dependency
label. ``tools/train_tagger.py`` learns the weights, which are stored in 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.language.tokenise import PUNCTUATION

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

WEIGHTS = Path(__file__).with_name("tagger.npz")
DILATIONS = (1, 1, 2, 2, 1)
"""Distance of the neighbours that each convolution reads."""
REACH = 8
"""Distances to a head that are told apart, in each direction."""
BATCH = 64  # sentences
LONGEST = 128  # tokens that are parsed together; a longer text is parsed in parts
OUTSIDE, BEGIN, INSIDE = 0, 1, 2
"""Place of a token in a noun chunk."""
ROOT = "ROOT"
_KINDS = 6


@dataclass(frozen=True)
class Tagged:
    """What the network finds in a sentence, one entry per token."""

    tags: list[str]
    pos: list[str]
    chunks: list[int]  # OUTSIDE, BEGIN or INSIDE
    heads: list[int]  # a root is its own head
    labels: list[str]


@dataclass(frozen=True, eq=False)
class Tagger:
    """Weights of the network, its vocabulary and the rules of lemmas."""

    words: dict[str, int]  # word -> row of its embedding; 0: unknown
    suffixes: dict[str, int]  # last three or two letters -> row; 0: unknown
    tags: tuple[str, ...]
    pos: tuple[str, ...]
    labels: tuple[str, ...]
    lemmas: dict[tuple[str, str], tuple[int, str]]  # (tag, end of the word) -> letters to remove, ending to add
    weights: dict[str, Floats]

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> Tagger:
        """Read a file of ``tools/train_tagger.py``."""
        with np.load(path, allow_pickle=False) as stored:
            arrays = dict(stored)
        texts = {name: arrays.pop(f"text.{name}").tobytes().decode("utf-8").split("\n") for name in _TEXTS}
        weights = {
            name: (array.astype(np.float32) * arrays[f"{name}.scale"].astype(np.float32))
            if array.dtype == np.int8
            else array.astype(np.float32)
            for name, array in arrays.items()
            if not name.endswith(".scale")
        }
        rules = [line.split("\t") for line in texts["lemmas"]]
        return cls(
            words={word: row for row, word in enumerate(texts["words"], 1)},
            suffixes={suffix: row for row, suffix in enumerate(texts["suffixes"], 1)},
            tags=tuple(texts["tags"]),
            pos=tuple(texts["pos"]),
            labels=tuple(texts["labels"]),
            lemmas={(tag, suffix): (int(remove), add) for tag, suffix, remove, add in rules},
            weights=weights,
        )

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[Tagged]:
        """Parse sentences, given as lower-case tokens with punctuation; punctuation is no head."""
        parts = [(i, at) for i, sentence in enumerate(sentences) for at in range(0, len(sentence), LONGEST)]
        words = {(i, at): sentences[i][at : at + LONGEST] for i, at in parts}
        lengths = [len(words[part]) for part in parts]
        order = [parts[i] for i in np.argsort(lengths, kind="stable")]
        done: dict[tuple[int, int], Tagged] = {}
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            done |= dict(zip(some, self._batch([words[part] for part in some]), strict=True))
        found = [Tagged([], [], [], [], []) for _ in sentences]
        for i, at in parts:
            one, whole = done[i, at], found[i]
            whole.tags.extend(one.tags)
            whole.pos.extend(one.pos)
            whole.chunks.extend(one.chunks)
            whole.heads.extend(head + at for head in one.heads)
            whole.labels.extend(one.labels)
        return found

    def lemma(self, word: str, tag: str) -> str:
        """Return the lemma of a lower-case word with this tag."""
        for start in range(-1, len(word) + 1):  # the whole word is "^word"; then its ends, the longest first
            suffix = f"^{word}" if start < 0 else word[start:]
            rule = self.lemmas.get((tag, suffix))
            if rule is not None and (len(word) > rule[0] or rule[1]):  # no lemma is empty
                return word[: len(word) - rule[0]] + rule[1]
        return word

    def features(self, word: str) -> tuple[int, int, int, int]:
        """Return the rows of a word: itself, its last three letters, its last two letters, and its kind."""
        last3, last2 = self.suffixes.get(word[-3:], 0), self.suffixes.get(word[-2:], 0)
        return self.words.get(word, 0), last3, last2, kind(word)

    def _batch(self, sentences: list[Sequence[str]]) -> list[Tagged]:
        rows = np.zeros((len(sentences), max(map(len, sentences)), 4), np.int64)
        there = np.zeros(rows.shape[:2], bool)
        for row, mask, sentence in zip(rows, there, sentences, strict=True):
            row[: len(sentence)] = [self.features(word) for word in sentence]
            mask[: len(sentence)] = True
        is_head = there.copy()
        for mask, sentence in zip(is_head, sentences, strict=True):
            mask[: len(sentence)] = [word not in PUNCTUATION for word in sentence]
        vectors = encode(self.weights, rows, there)
        scores = head_scores(self.weights, vectors, is_head)
        tags, pos, chunks = (
            (vectors @ self.weights[name] + self.weights[f"{name}.bias"]).argmax(-1) for name in ("tag", "pos", "chunk")
        )
        heads = np.array([_heads(score, len(sentence)) for score, sentence in zip(scores, sentences, strict=True)])
        labels = self._labels(label_scores(self.weights, vectors, heads), heads)
        return [
            Tagged(
                tags=[self.tags[k] for k in tags[i, :n]],
                pos=[self.pos[k] for k in pos[i, :n]],
                chunks=chunks[i, :n].tolist(),
                heads=heads[i, :n].tolist(),
                labels=[self.labels[k] for k in labels[i, :n]],
            )
            for i, n in enumerate(map(len, sentences))
        ]

    def _labels(self, scores: Floats, heads: Ids) -> Ids:
        """Return the best label of each token: that of a root where it is its own head, and only there."""
        root = self.labels.index(ROOT)
        is_root = heads == np.arange(heads.shape[1])
        scores[..., root] = -np.inf
        return np.where(is_root, root, scores.argmax(-1))


_TEXTS = ("words", "suffixes", "tags", "pos", "labels", "lemmas")


@lru_cache(maxsize=1)
def tagger() -> Tagger:
    """Return the parser of the package."""
    return Tagger.load()


def kind(word: str) -> int:
    """Return the kind of a word: letters, hyphenated, number, with a number, punctuation, or other."""
    if word.isalpha():
        return 0
    if word.replace(".", "").replace(",", "").isdigit():
        return 2
    if any(letter.isdigit() for letter in word):
        return 3
    if not any(letter.isalpha() for letter in word):
        return 4
    return 1 if "-" in word else 5


# The network, for arrays [sentences, tokens, ...] -------------------------------------------------------------------


def encode(weights: dict[str, Floats], rows: Ids, there: npt.NDArray[np.bool_]) -> Floats:
    """Return the vector of each token, from the rows of :meth:`Tagger.features`; padding has zeros."""
    parts = [weights["word"][rows[..., 0]], weights["suffix"][rows[..., 1]], weights["suffix"][rows[..., 2]]]
    known = np.concatenate([*parts, np.eye(_KINDS, dtype=np.float32)[rows[..., 3]]], -1)
    mask = there[..., None].astype(np.float32)
    x = (known @ weights["input"] + weights["input.bias"]) * mask
    for number, step in enumerate(DILATIONS):
        normal = _normalised(x) * mask
        near = np.concatenate([_shifted(normal, step), normal, _shifted(normal, -step)], -1)
        x = (x + np.maximum(near @ weights[f"conv{number}"] + weights[f"conv{number}.bias"], 0)) * mask
    return _normalised(x) * mask


def head_scores(weights: dict[str, Floats], vectors: Floats, is_head: npt.NDArray[np.bool_]) -> Floats:
    """Return ``[sentences, tokens, tokens]``: the score of each token (last axis) as the head of each token.

    The score of a token as its own head is that of a root. Scores depend on both vectors, and on the distance.
    """
    below = np.maximum(vectors @ weights["below"] + weights["below.bias"], 0)
    above = np.maximum(vectors @ weights["above"] + weights["above.bias"], 0)
    far = vectors @ weights["distance"] + weights["distance.bias"]  # [S, T, 2 REACH + 1]
    steps = np.arange(vectors.shape[1])
    distance = np.clip(steps - steps[:, None], -REACH, REACH) + REACH
    scores = (below @ weights["pair"]) @ above.transpose(0, 2, 1) + far[:, steps[:, None], distance]
    return np.where(is_head[:, None], scores, -1e9)


def label_scores(weights: dict[str, Floats], vectors: Floats, heads: Ids) -> Floats:
    """Return the scores of the dependency labels, given the heads."""
    above = np.take_along_axis(vectors, heads[..., None], 1)
    hidden = vectors @ weights["label.below"] + above @ weights["label.above"] + weights["label.below.bias"]
    return np.maximum(hidden, 0) @ weights["label"] + weights["label.bias"]


def _normalised(x: Floats) -> Floats:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def _shifted(x: Floats, step: int) -> Floats:
    """Move tokens by a number of places, to the right where it is positive; fill with zeros."""
    moved = np.zeros_like(x)
    if abs(step) < x.shape[1]:
        if step > 0:
            moved[:, step:] = x[:, :-step]
        else:
            moved[:, :step] = x[:, -step:]
    return moved


def _heads(scores: Floats, count: int) -> list[int]:
    """Return the best head of each token; a cycle is broken where another head costs least."""
    own = scores[:count, :count].copy()
    heads: list[int] = own.argmax(1).tolist()
    while cycle := _cycle(heads):
        other = own[cycle]
        other[:, cycle] = -np.inf  # a head outside the cycle, or the token as a root
        other[range(len(cycle)), cycle] = own[cycle, cycle]
        best = other.argmax(1)
        cost = own[cycle, [heads[i] for i in cycle]] - other[range(len(cycle)), best]
        at = int(cost.argmin())
        own[cycle[at]], heads[cycle[at]] = other[at], int(best[at])
    heads += [0] * (len(scores) - count)
    return heads


def _cycle(heads: list[int]) -> list[int]:
    """Return the tokens of a cycle of heads; empty if there is none."""
    state = [0] * len(heads)  # 1: on the present way up, 2: leads to a root
    for start in range(len(heads)):
        way, token = [], start
        while not state[token]:
            state[token] = 1
            way.append(token)
            if heads[token] == token:
                break
            token = heads[token]
        else:
            if state[token] == 1 and token in way:
                return way[way.index(token) :]
        for each in way:
            state[each] = 2
    return []
