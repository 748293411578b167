"""From a decoder to finished sentences: greedy, sampled, or by beam search, a whole batch of images at once.

Several branches agree on each word by vote (Distributed Attention, Sec. 3.3): the word that most branches predict wins,
and of equally many the one with the higher summed probability. The boxes of a word are those of the branches that
branch_mask for it, at the step that emitted it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from deixis.fields import from_dict
from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.network import Decoder, Encoded, State
from deixis.types import Json, Place

BANNED = (Vocabulary.pad, Vocabulary.bos, Vocabulary.unk)
"""Tokens that are never generated."""


@dataclass(frozen=True)
class GenerationConfig:
    """How sentences are generated."""

    beam: int = 1
    rerank_beam: int = 0  # beam width where candidates are reranked; 0: the same as `beam`
    length_power: float = 0.0  # candidates are ordered by log-probability / length ** length_power
    allow_repeated_words: bool = True  # False: candidates that repeat a content word come last
    max_words: int = 20
    min_words: int = 0
    allow_adjacent_repeats: bool = False  # whether a word may follow itself
    branches: int | None = None  # how many of the decoder's branches are used; None: all
    place: Place = "attention"  # box rule for a word

    @classmethod
    def from_json(cls, value: Json) -> GenerationConfig:
        """Read a stored configuration; field names of version 0.1 are translated."""
        if not isinstance(value, Mapping):
            raise ValueError("the generation settings must be an object")
        renamed = {OLD_NAMES.get(name, name): given for name, given in value.items()}
        if renamed.get("place") == "best":
            renamed["place"] = "attention"
        return from_dict(cls, renamed, BOUNDS)


BOUNDS = {
    **{"beam": (1, 100), "rerank_beam": (0, 100), "length_power": (0, 10)},
    **{"max_words": (1, 1000), "min_words": (0, 1000), "branches": (1, 64)},
}
"""Bounds of a stored configuration."""

OLD_NAMES = {"judged": "rerank_beam", "echoes": "allow_repeated_words", "repeats": "allow_adjacent_repeats"}
"""Fields of configurations written by version 0.1."""


@dataclass(frozen=True)
class Sentences:
    """S finished sentences for each of I images, T words at most; behind the end token everything is empty."""

    words: Tensor  # [I, S, T] eos included where it was reached, then pad
    logprobs: Tensor  # [I, S, T] of each word: the log of the branches' mean probability
    attention: Tensor  # [I, S, T, K, N]
    branch_mask: Tensor  # [I, S, T, K] the branches that predicted the word; at least one where there is a word

    @property
    def scores(self) -> Tensor:
        """Log-probability ``[I, S]`` of each sentence, its end included."""
        return self.logprobs.sum(-1)


def rank(logprobs: Tensor) -> Tensor:
    """How much the branches want each word ``[..., V]``, from ``[..., K, V]``: votes first, then summed probability."""
    branches = logprobs.shape[-2]
    if branches == 1:
        return logprobs.squeeze(-2)
    probs = logprobs.exp().sum(-2)
    votes = torch.zeros_like(probs)
    votes.scatter_add_(-1, logprobs.argmax(-1), torch.ones_like(logprobs[..., 0]))
    return votes * (branches + 1) + probs  # the sum of probabilities never reaches branches + 1


def voters(logprobs: Tensor, words: Tensor) -> Tensor:
    """Which branches ``[..., K]`` predicted the words ``[...]``; where none did, the one that came nearest."""
    if logprobs.shape[-2] == 1:
        return torch.ones_like(words, dtype=torch.bool).unsqueeze(-1)
    predicted = logprobs.argmax(-1) == words.unsqueeze(-1)
    nearest = logprobs.gather(-1, words[..., None, None].expand(*logprobs.shape[:-1], 1)).squeeze(-1).argmax(-1)
    fallback = torch.nn.functional.one_hot(nearest, predicted.shape[-1]).bool()
    return torch.where(predicted.any(-1, keepdim=True), predicted, fallback)


def greedy(decoder: Decoder, encoded: Encoded, config: GenerationConfig) -> Sentences:
    """The word most wanted at each step; one sentence for each image, by the first ``branches`` branches (or all)."""
    return _roll(decoder, encoded, config, 1, lambda logprobs: rank(logprobs).argmax(-1), config.branches)


def sample(
    decoder: Decoder,
    encoded: Encoded,
    config: GenerationConfig,
    samples: int = 1,
    temperature: float = 1.0,
    top: int = 0,
    generator: torch.Generator | None = None,
    branches: int | None = None,
    greedy_too: bool = False,
) -> Sentences:
    """``samples`` sentences for each image, words drawn from the branches' mean distribution.

    ``top`` > 0 keeps only that many of the likeliest words; the temperature sharpens (< 1) or flattens (> 1).
    With ``greedy_too`` the sentence of :func:`greedy` comes before them, in the same pass.
    """

    def draw(logprobs: Tensor) -> Tensor:
        logits = mean_logprobs(logprobs) / temperature
        if top > 0:
            least = logits.topk(min(top, logits.shape[-1]), dim=-1).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        # one random number a word: torch.multinomial would draw one for every word of the vocabulary
        reached = logits.softmax(-1).cumsum(-1, dtype=torch.float64)
        chance = torch.rand(*logits.shape[:2], 1, dtype=torch.float64, device=logits.device, generator=generator)
        return torch.searchsorted(reached, chance * reached[..., -1:], right=True).squeeze(-1)

    def draw_behind_greedy(logprobs: Tensor) -> Tensor:
        return torch.cat([rank(logprobs[:, :1]).argmax(-1), draw(logprobs[:, 1:])], 1)

    if greedy_too:
        return _roll(decoder, encoded, config, samples + 1, draw_behind_greedy, branches)
    return _roll(decoder, encoded, config, samples, draw, branches)


def mean_logprobs(logprobs: Tensor) -> Tensor:
    """The log of the branches' mean probability ``[..., V]`` from ``[..., K, V]``."""
    if logprobs.shape[-2] == 1:
        return logprobs.squeeze(-2)
    return torch.logsumexp(logprobs, -2) - torch.log(torch.tensor(float(logprobs.shape[-2])))


@torch.no_grad()
def _roll(
    decoder: Decoder,
    encoded: Encoded,
    config: GenerationConfig,
    samples: int,
    pick: Callable[[Tensor], Tensor],
    branches: int | None = None,
) -> Sentences:
    """Word after word for ``samples`` sentences an image, until all have ended; finished images drop out."""
    images, device = len(encoded.image), encoded.image.device
    state = decoder.start(encoded, samples, branches)
    weights = decoder.weights(state.h2.shape[2])
    book = _Book(images, samples, config, state.h2.shape[2], encoded.mask.shape[1], device)
    word = torch.full((images, samples), Vocabulary.bos, device=device)
    open_ = torch.ones(images, samples, dtype=torch.bool, device=device)
    alive = torch.arange(images, device=device)  # the images still running
    for t in range(config.max_words):
        state, logprobs, alpha = decoder.step(encoded, word, state, weights)
        allowed = forbid(logprobs, word, t, config)
        word = pick(allowed).masked_fill(~open_, Vocabulary.pad)
        book.write(alive, t, word, allowed, alpha, open_)
        open_ = open_ & (word != Vocabulary.eos)
        running = open_.any(1)
        if not bool(running.any()):
            break
        if not bool(running.all()):
            encoded, state = encoded.rows(running), state.rows(running)
            word, open_, alive = word[running], open_[running], alive[running]
    return book.close(t + 1)


@torch.no_grad()
def beam(decoder: Decoder, encoded: Encoded, config: GenerationConfig, width: int = 5) -> Sentences:
    """Beam search; the ``width`` sentences of each image, best first. Width 1 is :func:`greedy` exactly.

    Each open sentence offers its ``width`` most wanted words (:func:`rank`); of all offers the ``width`` with the best
    summed log-probability, divided by length ** ``length_power``, live on. Attention and votes follow their sentence.
    """
    images, device = len(encoded.image), encoded.image.device
    length_power = config.length_power
    state = decoder.start(encoded, width, config.branches)
    weights = decoder.weights(state.h2.shape[2])
    book = _Book(images, width, config, state.h2.shape[2], encoded.mask.shape[1], device)
    word = torch.full((images, width), Vocabulary.bos, device=device)
    open_ = torch.ones(images, width, dtype=torch.bool, device=device)
    total = torch.full((images, width), -torch.inf, device=device)
    total[:, 0] = 0  # all beams start equal: only the first may offer
    length = torch.zeros(images, width, device=device)
    offers = min(width, decoder.config.vocabulary)
    for t in range(config.max_words):
        state, logprobs, alpha = decoder.step(encoded, word, state, weights)
        allowed = forbid(logprobs, word, t, config)
        offered = rank(allowed).topk(offers, dim=-1).indices  # [I, width, offers]
        gain = mean_logprobs(allowed).gather(-1, offered)
        offered = offered.masked_fill(~open_.unsqueeze(-1), Vocabulary.pad)
        # a finished sentence offers itself once, unchanged
        gain = torch.where(open_.unsqueeze(-1), gain, torch.full_like(gain, -torch.inf))
        gain[..., 0] = torch.where(open_, gain[..., 0], torch.zeros_like(total))
        sums = total.unsqueeze(-1) + gain
        longer = (length + open_).clamp_min(1).unsqueeze(-1)
        best = (sums / longer**length_power).flatten(1).topk(width, dim=1).indices  # [I, width]
        parent = best // offers
        total, word = sums.flatten(1).gather(1, best), offered.flatten(1).gather(1, best)
        book.follow(parent)
        was_open = open_.gather(1, parent)
        length = length.gather(1, parent) + was_open
        state = State(*(_follow(x, parent) for x in (state.h1, state.c1, state.h2, state.c2)))
        rows = torch.arange(images, device=device)
        book.write(rows, t, word, _follow(allowed, parent), _follow(alpha, parent), was_open)
        open_ = was_open & (word != Vocabulary.eos)
        if not bool(open_.any()):
            break
    sentences = book.close(t + 1)
    order = (total / length.clamp_min(1) ** length_power).argsort(dim=1, descending=True, stable=True)
    return reordered(sentences, order)


def reordered(sentences: Sentences, order: Tensor) -> Sentences:
    """The sentences of each image in another order ``[I, S]``."""
    order = order.to(sentences.words.device)
    return Sentences(
        *(_follow(x, order) for x in (sentences.words, sentences.logprobs, sentences.attention, sentences.branch_mask))
    )


@torch.no_grad()
def force_decode(decoder: Decoder, encoded: Encoded, ids: Tensor, config: GenerationConfig) -> Sentences:
    """Return given sentences ``ids [I, C, T + 1]`` (bos first) with their log-probabilities and attention.

    The rules of generation apply, so that a sentence has the log-probability that it had when it was generated.
    """
    decoded = decoder(encoded, ids[..., :-1], config.branches)
    logprobs = decoder.speak(decoded.states)
    for t in range(logprobs.shape[2]):
        forbid(logprobs[:, :, t], ids[..., t], t, config)
    words = ids[..., 1:]
    said = mean_logprobs(logprobs).gather(-1, words.unsqueeze(-1)).squeeze(-1)
    said = torch.where(words == Vocabulary.pad, 0.0, said)
    return Sentences(words, said, decoded.attention, voters(logprobs, words))


class _Book:
    """What has been said so far, for all images and sentences."""

    def __init__(
        self, images: int, sentences: int, config: GenerationConfig, branches: int, regions: int, device: torch.device
    ) -> None:
        shape = (images, sentences, config.max_words)
        self.words = torch.full(shape, Vocabulary.pad, device=device)
        self.logprobs = torch.zeros(shape, device=device)
        self.attention = torch.zeros(*shape, branches, regions, device=device)
        self.branch_mask = torch.zeros(*shape, branches, dtype=torch.bool, device=device)

    def write(self, images: Tensor, t: int, words: Tensor, logprobs: Tensor, alpha: Tensor, open_: Tensor) -> None:
        """Step t of some images: words ``[i, S]``, log-probabilities ``[i, S, K, V]``, attention ``[i, S, K, N]``."""
        self.words[images, :, t] = words
        said = mean_logprobs(logprobs).gather(-1, words.unsqueeze(-1)).squeeze(-1)
        self.logprobs[images, :, t] = said.masked_fill(~open_, 0).to(self.logprobs.dtype)
        self.attention[images, :, t] = (alpha * open_[..., None, None]).to(self.attention.dtype)
        self.branch_mask[images, :, t] = voters(logprobs, words) & open_.unsqueeze(-1)

    def follow(self, parent: Tensor) -> None:
        """Sentence s of each image goes on from sentence ``parent[i, s]``."""
        self.words, self.logprobs = _follow(self.words, parent), _follow(self.logprobs, parent)
        self.attention, self.branch_mask = _follow(self.attention, parent), _follow(self.branch_mask, parent)

    def close(self, steps: int) -> Sentences:
        return Sentences(
            self.words[:, :, :steps],
            self.logprobs[:, :, :steps],
            self.attention[:, :, :steps],
            self.branch_mask[:, :, :steps],
        )


def forbid(logprobs: Tensor, previous: Tensor, t: int, config: GenerationConfig) -> Tensor:
    """Log-probabilities ``[I, S, K, V]`` with what the config forbid at step t taken out, in place."""
    for word in BANNED:  # one by one: a list would be copied to the device at every step
        logprobs[..., word] = -torch.inf
    if t < config.min_words:
        logprobs[..., Vocabulary.eos] = -torch.inf
    if not config.allow_adjacent_repeats and t > 0:
        index = previous[..., None, None].expand(*logprobs.shape[:-1], 1)
        logprobs.scatter_(-1, index, -torch.inf)
    return logprobs


def _follow(values: Tensor, parent: Tensor) -> Tensor:
    """``values [I, S, ...]`` with the sentences of each image taken in the order ``parent [I, S]``."""
    return values[torch.arange(len(parent), device=parent.device).unsqueeze(1), parent]
