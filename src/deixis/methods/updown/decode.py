"""Sentences from a decoder: greedy, sampled, by beam search, or forced to given words; a batch of images at once.

Several branches vote for each word (Distributed Attention, Sec. 3.3): the word that most branches predict is taken; a
tie goes to the higher summed probability. The box of a word comes from the branches that predicted it
(:mod:`deixis.localize.branches`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deixis.fields import from_dict
from deixis.language.vocabulary import Vocabulary
from deixis.layers.noise import spread, uniform
from deixis.methods.updown.network import Decoder, Encoded, State
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


@dataclass(frozen=True)
class Sentences:
    """S sentences for each of I images, at most T words each; everything after the end token is empty."""

    words: Tensor  # [I, S, T] with eos where it was reached, then pad
    logprobs: Tensor  # [I, S, T] of each word: log of the branches' mean probability
    attention: Tensor  # [I, S, T, K, N]
    branch_mask: Tensor  # [I, S, T, K] branches that predicted the word; at least one for each word

    @property
    def scores(self) -> Tensor:
        """Log-probability ``[I, S]`` of each sentence, the end token included."""
        return self.logprobs.sum(-1)

    def reordered(self, order: Tensor) -> Sentences:
        """Sentences of each image in another order ``[I, S]``."""
        order = order.to(self.words.device)
        return Sentences(*(_gather(x, order) for x in (self.words, self.logprobs, self.attention, self.branch_mask)))


# Votes of the branches ----------------------------------------------------------------------------------------------


def vote_scores(logprobs: Tensor) -> Tensor:
    """Scores ``[..., V]`` of words from ``[..., K, V]``: the number of votes, then the summed probability."""
    branches = logprobs.shape[-2]
    if branches == 1:
        return logprobs.squeeze(-2)
    probs = logprobs.exp().sum(-2)
    votes = torch.zeros_like(probs)
    votes.scatter_add_(-1, logprobs.argmax(-1), torch.ones_like(logprobs[..., 0]))
    return votes * (branches + 1) + probs  # the sum of probabilities never reaches branches + 1


def voting_branches(logprobs: Tensor, words: Tensor) -> Tensor:
    """Branches ``[..., K]`` that predicted ``words [...]``; if none did, the branch with the highest probability."""
    if logprobs.shape[-2] == 1:
        return torch.ones_like(words, dtype=torch.bool).unsqueeze(-1)
    predicted = logprobs.argmax(-1) == words.unsqueeze(-1)
    nearest = logprobs.gather(-1, words[..., None, None].expand(*logprobs.shape[:-1], 1)).squeeze(-1).argmax(-1)
    fallback = torch.nn.functional.one_hot(nearest, predicted.shape[-1]).bool()
    return torch.where(predicted.any(-1, keepdim=True), predicted, fallback)


def mean_logprobs(logprobs: Tensor) -> Tensor:
    """Log of the branches' mean probability ``[..., V]`` from ``[..., K, V]``."""
    if logprobs.shape[-2] == 1:
        return logprobs.squeeze(-2)
    return torch.logsumexp(logprobs, -2) - torch.log(torch.tensor(float(logprobs.shape[-2])))


def mask_forbidden(logprobs: Tensor, previous: Tensor, step: int, generation: GenerationConfig) -> Tensor:
    """Set log-probabilities ``[I, S, K, V]`` of words that are not allowed at a step to -inf, in place.

    ``previous [I, S]`` are the words of the step before.
    """
    for word in generation.forbidden:  # one by one: a list would be copied to the device at every step
        logprobs[..., word] = -torch.inf
    if step < generation.min_words:
        logprobs[..., EOS] = -torch.inf
    if not generation.allow_adjacent_repeats and step > 0:
        index = previous[..., None, None].expand(*logprobs.shape[:-1], 1)
        logprobs.scatter_(-1, index, -torch.inf)
    return logprobs


# Decoding -----------------------------------------------------------------------------------------------------------


def greedy(decoder: Decoder, encoded: Encoded, generation: GenerationConfig) -> Sentences:
    """One sentence for each image, with the best word by :func:`vote_scores` at each step."""
    return _decode(decoder, encoded, generation, 1, lambda logprobs, _: vote_scores(logprobs).argmax(-1))


def sample(
    decoder: Decoder,
    encoded: Encoded,
    generation: GenerationConfig,
    samples: int = 1,
    temperature: float = 1.0,
    top: int = 0,
    generator: torch.Generator | None = None,
    with_greedy: bool = False,
) -> Sentences:
    """``samples`` sentences for each image, words drawn from the branches' mean distribution.

    ``top`` > 0 keeps that many of the most probable words; a temperature < 1 sharpens the distribution. With
    ``with_greedy`` the sentence of :func:`greedy` comes first, in the same pass.
    """

    def draw(logprobs: Tensor, drawn: Tensor | None = None) -> Tensor:
        logits = mean_logprobs(logprobs) / temperature
        if top > 0:
            least = logits.topk(min(top, logits.shape[-1]), dim=-1).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        # one random number for each word: torch.multinomial would draw one for every word of the vocabulary
        cumulative = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
        if drawn is None:
            drawn = torch.rand(logits.shape[:2], dtype=torch.float64, device=logits.device, generator=generator)
        return torch.searchsorted(cumulative, drawn.unsqueeze(-1) * cumulative[..., -1:], right=True).squeeze(-1)

    def greedy_and_draw(logprobs: Tensor, drawn: Tensor | None = None) -> Tensor:
        drawn = None if drawn is None else drawn[:, 1:]
        return torch.cat([vote_scores(logprobs[:, :1]).argmax(-1), draw(logprobs[:, 1:], drawn)], 1)

    if with_greedy:
        return _decode(decoder, encoded, generation, samples + 1, greedy_and_draw)
    return _decode(decoder, encoded, generation, samples, draw)


@torch.no_grad()
def _decode(
    decoder: Decoder,
    encoded: Encoded,
    generation: GenerationConfig,
    samples: int,
    select: Callable[[Tensor, Tensor | None], Tensor],
) -> Sentences:
    """Decode ``samples`` sentences for each image word by word; finished images are removed from the batch.

    ``select(logprobs, drawn)`` chooses words; ``drawn [I, S]`` are uniform numbers, where the images have random keys.
    """
    images, device = len(encoded.image), encoded.image.device
    state = decoder.initial_state(encoded, samples, generation.branches)
    weights = decoder.step_weights(state.h2.shape[2])
    record = _Record(state, encoded, generation)
    word = torch.full((images, samples), BOS, device=device)
    open_ = torch.ones(images, samples, dtype=torch.bool, device=device)
    rows = torch.arange(images, device=device)  # images that are not finished
    for t in range(generation.max_words):
        state, logprobs, alpha = decoder.step(encoded, word, state, weights)
        allowed = mask_forbidden(logprobs, word, t, generation)
        drawn = None if encoded.random is None else uniform(spread(encoded.random, samples) + t)
        word = select(allowed, drawn).masked_fill(~open_, PAD)
        record.write(rows, t, word, allowed, alpha, open_)
        open_ = open_ & (word != EOS)
        running = open_.any(1)
        if not bool(running.any()):
            break
        if not bool(running.all()):
            encoded, state = encoded.rows(running), state.rows(running)
            word, open_, rows = word[running], open_[running], rows[running]
    return record.sentences(t + 1)


@torch.no_grad()
def beam_search(decoder: Decoder, encoded: Encoded, generation: GenerationConfig) -> Sentences:
    """Beam search of width ``generation.beam``; the sentences of each image, best first. Width 1 is :func:`greedy`.

    Each open sentence is extended by its ``beam`` best words (:func:`vote_scores`). Of all extensions the ``beam`` with
    the best summed log-probability / length ** ``length_power`` are kept.
    """
    images, device, width = len(encoded.image), encoded.image.device, generation.beam
    state = decoder.initial_state(encoded, width, generation.branches)
    weights = decoder.step_weights(state.h2.shape[2])
    record = _Record(state, encoded, generation)
    word = torch.full((images, width), BOS, device=device)
    open_ = torch.ones(images, width, dtype=torch.bool, device=device)
    total = torch.full((images, width), -torch.inf, device=device)
    total[:, 0] = 0  # all beams are equal at first: only one is extended
    length = torch.zeros(images, width, device=device)
    rows = torch.arange(images, device=device)  # images that are not finished
    for t in range(generation.max_words):
        state, logprobs, alpha = decoder.step(encoded, word, state, weights)
        allowed = mask_forbidden(logprobs, word, t, generation)
        words, gain = _extensions(allowed, open_, min(width, decoder.config.vocabulary))  # [I, width, extensions]
        sums = total[rows].unsqueeze(-1) + gain
        lengths = (length[rows] + open_).clamp_min(1).unsqueeze(-1)
        best = (sums / lengths**generation.length_power).flatten(1).topk(width, dim=1).indices  # [I, width]
        parent = best // words.shape[-1]
        total[rows], word = sums.flatten(1).gather(1, best), words.flatten(1).gather(1, best)
        was_open = open_.gather(1, parent)
        length[rows] = length[rows].gather(1, parent) + was_open
        state = State(*(_gather(x, parent) for x in (state.h1, state.c1, state.h2, state.c2)))
        record.reorder(rows, parent)
        record.write(rows, t, word, _gather(allowed, parent), _gather(alpha, parent), was_open)
        open_ = was_open & (word != EOS)
        running = open_.any(1)
        if not bool(running.any()):
            break
        if not bool(running.all()):
            encoded, state = encoded.rows(running), state.rows(running)
            word, open_, rows = word[running], open_[running], rows[running]
    order = (total / length.clamp_min(1) ** generation.length_power).argsort(dim=1, descending=True, stable=True)
    return record.sentences(t + 1).reordered(order)


def _extensions(logprobs: Tensor, open_: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Words and log-probabilities ``[I, S, count]`` by which sentences are extended.

    A finished sentence has one extension: padding, with log-probability 0.
    """
    words = vote_scores(logprobs).topk(count, dim=-1).indices
    gain = mean_logprobs(logprobs).gather(-1, words)
    words = words.masked_fill(~open_.unsqueeze(-1), PAD)
    gain = torch.where(open_.unsqueeze(-1), gain, torch.full_like(gain, -torch.inf))
    gain[..., 0] = torch.where(open_, gain[..., 0], torch.zeros_like(gain[..., 0]))
    return words, gain


@torch.no_grad()
def force_decode(decoder: Decoder, encoded: Encoded, ids: Tensor, generation: GenerationConfig) -> Sentences:
    """Decode given sentences ``[I, S, T + 1]`` (bos first, then words, eos and padding) by teacher forcing.

    Log-probabilities, attention and branches are those of decoding under the same rules; a word that the rules forbid
    has log-probability -inf. A sentence without eos was cut; its log-probability then has no end token.
    """
    words = ids[..., 1:]
    decoded = decoder(encoded, ids[..., :-1], generation.branches)
    logprobs = decoder.word_logprobs(decoded.states)  # [I, S, T, K, V]
    for t in range(words.shape[-1]):
        mask_forbidden(logprobs[:, :, t], ids[..., t], t, generation)
    real = words != PAD
    return Sentences(
        words,
        mean_logprobs(logprobs).gather(-1, words.unsqueeze(-1)).squeeze(-1).masked_fill(~real, 0),
        decoded.attention * real[..., None, None],
        voting_branches(logprobs, words) & real.unsqueeze(-1),
    )


class _Record:
    """Words, log-probabilities, attention and branches of all steps so far."""

    def __init__(self, state: State, encoded: Encoded, generation: GenerationConfig) -> None:
        images, sentences, branches, _ = state.h2.shape
        shape, device = (images, sentences, generation.max_words), state.h2.device
        self.words = torch.full(shape, PAD, device=device)
        self.logprobs = torch.zeros(shape, device=device)
        self.attention = torch.zeros(*shape, branches, encoded.mask.shape[1], device=device)
        self.branch_mask = torch.zeros(*shape, branches, dtype=torch.bool, device=device)

    def write(self, images: Tensor, t: int, words: Tensor, logprobs: Tensor, alpha: Tensor, open_: Tensor) -> None:
        """Write step t of some images: words ``[i, S]``, log-probs ``[i, S, K, V]``, attention ``[i, S, K, N]``."""
        self.words[images, :, t] = words
        of_words = mean_logprobs(logprobs).gather(-1, words.unsqueeze(-1)).squeeze(-1)
        self.logprobs[images, :, t] = of_words.masked_fill(~open_, 0).to(self.logprobs.dtype)
        self.attention[images, :, t] = (alpha * open_[..., None, None]).to(self.attention.dtype)
        self.branch_mask[images, :, t] = voting_branches(logprobs, words) & open_.unsqueeze(-1)

    def reorder(self, images: Tensor, parent: Tensor) -> None:
        """Replace sentence s of some images by sentence ``parent[i, s]``."""
        for part in (self.words, self.logprobs, self.attention, self.branch_mask):
            part[images] = part[images.unsqueeze(1), parent]

    def sentences(self, steps: int) -> Sentences:
        """Sentences of the first ``steps`` steps."""
        parts = (self.words, self.logprobs, self.attention, self.branch_mask)
        return Sentences(*(part[:, :, :steps] for part in parts))


def _gather(values: Tensor, index: Tensor) -> Tensor:
    """Select from ``values [I, S, ...]`` the sentences ``index [I, S]`` of each image."""
    return values[torch.arange(len(index), device=index.device).unsqueeze(1), index]
