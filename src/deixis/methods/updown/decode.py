"""Sentences from a decoder: by beam search, or forced to given words; a batch of images at once, on NumPy arrays.

Several branches vote for each word (Distributed Attention, Sec. 3.3): the word that most branches predict is taken; a
tie goes to the higher summed probability. The box of a word comes from the branches that predicted it
(:mod:`deixis.localize.branches`). The decoder is one of :mod:`deixis.methods.updown.inference`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deixis.fields import from_dict
from deixis.language.vocabulary import Vocabulary
from deixis.layers.arrays import Array, logsumexp, top
from deixis.methods.updown.inference import DecoderCalls
from deixis.types import Place

BOS, EOS, PAD = Vocabulary.bos, Vocabulary.eos, Vocabulary.pad
FORBIDDEN = (Vocabulary.pad, Vocabulary.bos)
"""Words that are never generated."""

OLD_FIELDS = {"judged": "rerank_beam", "echoes": "allow_repeated_words", "repeats": "allow_adjacent_repeats"}
"""Names of fields in configurations of version 0.1 -> names now."""

BOUNDS = {
    **{"beam": (1, 100), "rerank_beam": (0, 100), "length_power": (0, 10)},
    **{"max_words": (1, 1000), "min_words": (0, 1000), "branches": (1, 64), "frame_threshold": (0, 1)},
}
"""Bounds of a stored configuration."""


@dataclass(frozen=True)
class GenerationConfig:
    """How sentences are generated, and how their words get boxes."""

    beam: int = 1
    rerank_beam: int = 0  # beam width where a grounder reranks the sentences; 0: the same as beam
    length_power: float = 0.0  # beam sentences are ranked by log-probability / length ** length_power
    allow_repeated_words: bool = True  # False: a beam sentence that repeats a word is ranked last
    max_words: int = 20
    min_words: int = 0
    allow_adjacent_repeats: bool = False  # whether a word may follow itself
    allow_unknown: bool = False  # whether the unknown word may be generated
    branches: int | None = None  # number of the decoder's branches in use; None: all
    place: Place = "attention"  # rule for the box of a word
    frame_threshold: float = 0.5  # of a clip: people see the frames with at least this share of the best frame's score

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Words that are not generated."""
        return FORBIDDEN if self.allow_unknown else (*FORBIDDEN, Vocabulary.unk)

    def mark(self, beam: int, branches: int) -> str:
        """Describe the rules in a signature, for a beam of this width and a network with this many branches."""
        repeats = "none" if not self.allow_repeated_words else "any" if self.allow_adjacent_repeats else "apart"
        power = f"|length_power:{self.length_power:g}" if beam > 1 else ""
        unknown = "|unknown:yes" if self.allow_unknown else ""
        used = min(branches, self.branches or branches)
        return (
            f"beam:{beam}|branches:{used}|sentence:{self.min_words}-{self.max_words}|repeats:{repeats}{power}{unknown}"
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GenerationConfig:
        """Read a stored configuration, also one of version 0.1 (:data:`OLD_FIELDS`, place "best")."""
        fields = {OLD_FIELDS.get(name, name): field for name, field in value.items()}
        if fields.get("place") == "best":
            fields["place"] = "attention"
        return from_dict(cls, fields, BOUNDS)


@dataclass(frozen=True, eq=False)
class Sentences:
    """S sentences for each of I images, at most T words each; everything after the end token is empty."""

    words: Array  # [I, S, T] with eos where it was reached, then pad
    logprobs: Array  # [I, S, T] of each word: log of the branches' mean probability
    attention: Array  # [I, S, T, K, N]
    branch_mask: Array  # [I, S, T, K] branches that predicted the word; at least one for each word

    @property
    def scores(self) -> Array:
        """Log-probability ``[I, S]`` of each sentence, the end token included; -inf: fewer sentences exist."""
        return self.logprobs.sum(-1, dtype=np.float32)


# Votes of the branches ----------------------------------------------------------------------------------------------


def vote_scores(logprobs: Array) -> Array:
    """Scores ``[..., V]`` of words from ``[..., K, V]``: the number of votes, then the summed probability."""
    branches = logprobs.shape[-2]
    if branches == 1:
        return logprobs[..., 0, :]
    votes = np.zeros_like(logprobs)
    np.put_along_axis(votes, logprobs.argmax(-1)[..., None], 1, -1)
    # the sum of probabilities never reaches branches + 1
    return votes.sum(-2) * np.float32(branches + 1) + np.exp(logprobs).sum(-2)


def voting_branches(logprobs: Array, words: Array) -> Array:
    """Branches ``[..., K]`` that predicted ``words [...]``; if none did, the branch with the highest probability."""
    branches = logprobs.shape[-2]
    if branches == 1:
        return np.ones((*words.shape, 1), bool)
    predicted = logprobs.argmax(-1) == words[..., None]
    own = np.take_along_axis(logprobs, words[..., None, None], -1)[..., 0]  # [..., K]
    fallback = np.arange(branches) == own.argmax(-1)[..., None]
    return np.where(predicted.any(-1, keepdims=True), predicted, fallback)


def mean_logprobs(logprobs: Array) -> Array:
    """Log of the branches' mean probability ``[..., V]`` from ``[..., K, V]``."""
    if logprobs.shape[-2] == 1:
        return logprobs[..., 0, :]
    return logsumexp(logprobs, -2) - np.float32(np.log(logprobs.shape[-2]))


def mask_forbidden(logprobs: Array, previous: Array, step: int, generation: GenerationConfig) -> Array:
    """Set log-probabilities ``[R, K, V]`` of words that are not allowed at a step to -inf, in place.

    ``previous [R]`` are the words of the step before.
    """
    logprobs[..., list(generation.forbidden)] = -np.inf
    if step < generation.min_words:
        logprobs[..., EOS] = -np.inf
    if not generation.allow_adjacent_repeats and step > 0:
        logprobs[np.arange(len(previous)), :, previous] = -np.inf
    return logprobs


class _Words:
    """Distributions over the next word of R open sentences, without the forbidden words.

    The probabilities are normalised before words are forbidden. For one branch the log-probabilities of all words are
    never computed: their order is that of the logits.
    """

    def __init__(self, logits: Array, previous: Array, step: int, generation: GenerationConfig) -> None:
        normaliser = logsumexp(logits)  # [R, K]
        self.single = logits.shape[1] == 1
        if not self.single:
            logits -= normaliser[..., None]
        self.normaliser = normaliser[:, 0]
        self.values = mask_forbidden(logits, previous, step, generation)  # [R, K, V]

    def best(self, count: int) -> tuple[Array, Array]:
        """The ``count`` best words ``[R, count]`` by :func:`vote_scores`, and their log-probabilities."""
        words = top(vote_scores(self.values), count)
        return words, self.logprobs(words)

    def logprobs(self, words: Array) -> Array:
        """Log-probabilities ``[R, n]`` of ``words [R, n]``."""
        if self.single:
            return np.take_along_axis(self.values[:, 0], words, 1) - self.normaliser[:, None]
        return mean_logprobs(np.take_along_axis(self.values, words[:, None], 2))

    def branches(self, rows: Array, words: Array) -> Array:
        """Branches ``[n, K]`` that predicted ``words [n]`` after the open sentences ``rows [n]``."""
        return np.ones((len(words), 1), bool) if self.single else voting_branches(self.values[rows], words)


# Decoding -----------------------------------------------------------------------------------------------------------


def beam_search(decoder: DecoderCalls, encoded: Any, generation: GenerationConfig) -> Sentences:
    """Beam search of width ``generation.beam``; the sentences of each image, best first. Width 1 is greedy decoding.

    Each open sentence is extended by its ``beam`` best words (:func:`vote_scores`). Of all extensions the ``beam`` with
    the best summed log-probability / length ** ``length_power`` are kept. Finished sentences and images cost nothing.
    """
    width, power = generation.beam, generation.length_power
    count = min(width, decoder.config.vocabulary)
    branches = generation.branches or decoder.config.branches
    images = len(encoded.image)
    state = decoder.start(encoded, width, branches)
    record = _Record(images, width, branches, encoded.mask.shape[1])
    word = np.full((images, width), BOS)
    total = np.full((images, width), -np.inf, np.float32)
    total[:, 0] = 0  # all beams are equal at first: only one is extended
    open_ = total == 0
    length = np.zeros((images, width), np.float32)
    rows = np.arange(images)  # images that are not finished
    for t in range(generation.max_words):
        state, logits, alpha = decoder.step(encoded, word, state, open_)
        found = _Words(logits, word[open_], t, generation)
        words, gain = np.full((*open_.shape, count), PAD), np.full((*open_.shape, count), -np.inf, np.float32)
        gain[..., 0] = 0  # a finished sentence has one extension: padding, with log-probability 0
        words[open_], gain[open_] = found.best(count)
        sums = total[rows, :, None] + gain  # [i, width, count]
        scores = sums / np.maximum(length[rows] + open_, 1)[..., None] ** np.float32(power)
        best = top(scores.reshape(len(rows), -1), width)  # [i, width]
        parent = best // count
        total[rows] = np.take_along_axis(sums.reshape(len(rows), -1), best, 1)
        word = np.take_along_axis(words.reshape(len(rows), -1), best, 1)
        was_open = np.take_along_axis(open_, parent, 1)
        length[rows] = np.take_along_axis(length[rows], parent, 1) + was_open
        record.write(rows, parent, word, gain.reshape(len(rows), -1), best, alpha, open_, found)
        open_ = was_open & (word != EOS) & (total[rows] > -np.inf)
        running = np.flatnonzero(open_.any(1))
        if not len(running):
            break
        state = decoder.states(state, running, parent[running])
        if len(running) < len(rows):
            encoded, word, open_, rows = decoder.images(encoded, running), word[running], open_[running], rows[running]
    order = top(total / np.maximum(length, 1) ** np.float32(power), width)
    return record.sentences(order, np.take_along_axis(total, order, 1))


def force_decode(decoder: DecoderCalls, encoded: Any, ids: Array, generation: GenerationConfig) -> Sentences:
    """Decode given sentences ``[I, S, T + 1]`` (bos first, then words, eos and padding) by teacher forcing.

    Log-probabilities, attention and branches are those of decoding under the same rules; a word that the rules forbid
    has log-probability -inf. A sentence without eos was cut; its log-probability then has no end token.
    """
    words = ids[..., 1:]
    sentences, steps = words.shape[1:]
    branches = generation.branches or decoder.config.branches
    state = decoder.start(encoded, sentences, branches)
    logprobs = np.zeros(words.shape, np.float32)
    attention = np.zeros((*words.shape, branches, encoded.mask.shape[1]), np.float32)
    branch_mask = np.zeros((*words.shape, branches), bool)
    for t in range(steps):
        open_ = words[..., t] != PAD
        if not open_.any():
            break
        state, logits, alpha = decoder.step(encoded, np.ascontiguousarray(ids[..., t]), state, open_)
        found = _Words(logits, ids[..., t][open_], t, generation)
        wanted = words[..., t][open_][:, None]
        logprobs[open_, t] = found.logprobs(wanted)[:, 0]
        attention[open_, t] = alpha
        branch_mask[open_, t] = found.branches(np.arange(len(wanted)), wanted[:, 0])
    return Sentences(words, logprobs, attention, branch_mask)


@dataclass(frozen=True, eq=False)
class _Record:
    """What every step of a beam search chose; the sentences are followed back from their last words."""

    images: int
    width: int
    branches: int
    regions: int
    steps: list[tuple[Array, ...]] = field(default_factory=list)

    def write(
        self,
        rows: Array,
        parent: Array,
        word: Array,
        gain: Array,
        best: Array,
        alpha: Array,
        open_: Array,
        found: _Words,
    ) -> None:
        """Write a step of the images ``rows [i]``: for each of its sentences ``[i, S]`` parent, word, logprob, row.

        The row is that of the parent among the open sentences, of which ``alpha [R, K, N]`` is; -1: it was finished.
        """
        at = np.full(open_.shape, -1)
        at[open_] = np.arange(int(open_.sum()))
        at = np.take_along_axis(at, parent, 1)
        logprob = np.take_along_axis(gain, best, 1)
        branch_mask = np.zeros((*word.shape, self.branches), bool)
        now = at >= 0
        if now.any():
            branch_mask[now] = found.branches(at[now], word[now])
        self.steps.append((rows, parent, word, logprob, at, alpha, branch_mask))

    def sentences(self, order: Array, total: Array) -> Sentences:
        """The sentences in this order ``[I, S]``; those with a ``total [I, S]`` of -inf do not exist."""
        shape = (self.images, self.width, len(self.steps))
        words, logprobs = np.full(shape, PAD), np.zeros(shape, np.float32)
        attention = np.zeros((*shape, self.branches, self.regions), np.float32)
        branch_mask = np.zeros((*shape, self.branches), bool)
        index = order.copy()
        for t in range(len(self.steps) - 1, -1, -1):
            rows, parent, word, logprob, at, alpha, voted = self.steps[t]
            own = index[rows]  # [i, S]
            words[rows, :, t] = np.take_along_axis(word, own, 1)
            logprobs[rows, :, t] = np.take_along_axis(logprob, own, 1)
            at = np.take_along_axis(at, own, 1)
            attention[rows, :, t] = np.where((at >= 0)[..., None, None], alpha[at], 0)
            branch_mask[rows, :, t] = np.take_along_axis(voted, own[..., None], 1)
            index[rows] = np.take_along_axis(parent, own, 1)
        missing = total == -np.inf
        words[missing], attention[missing], branch_mask[missing] = PAD, 0, False
        logprobs[missing] = -np.inf
        return Sentences(words, logprobs, attention, branch_mask)
