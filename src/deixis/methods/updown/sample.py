"""Greedy and sampled sentences during training: torch, on the device of the network; a batch of images at once.

Self-critical training samples and takes the greedy sentence as baseline in one pass. The rules are those of
:mod:`deixis.methods.updown.decode`, which decodes everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deixis.layers.noise import spread, uniform
from deixis.methods.updown.decode import BOS, EOS, PAD, GenerationConfig
from deixis.methods.updown.network import Decoder, Encoded, State


@dataclass(frozen=True)
class Sampled:
    """Tensors of :class:`deixis.methods.updown.decode.Sentences`."""

    words: Tensor  # [I, S, T] with eos where it was reached, then pad
    logprobs: Tensor  # [I, S, T] of each word: log of the branches' mean probability
    attention: Tensor  # [I, S, T, K, N]
    branch_mask: Tensor  # [I, S, T, K] branches that predicted the word; at least one for each word

    @property
    def scores(self) -> Tensor:
        """Log-probability ``[I, S]`` of each sentence, the end token included."""
        return self.logprobs.sum(-1)


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


def greedy(decoder: Decoder, encoded: Encoded, generation: GenerationConfig) -> Sampled:
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
) -> Sampled:
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
) -> Sampled:
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

    def sentences(self, steps: int) -> Sampled:
        """Sentences of the first ``steps`` steps."""
        parts = (self.words, self.logprobs, self.attention, self.branch_mask)
        return Sampled(*(part[:, :, :steps] for part in parts))
