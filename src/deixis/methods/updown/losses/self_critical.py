"""Self-critical sequence training with rewards for sampled sentences (POS-SCAN Eq. 17 to 19, after Rennie et al.).

A reward is a plain function of images and sentences; several are summed with weights. Sentences of a batch are sampled
in one pass without gradient. One pass of teacher forcing then gives their log-probabilities with gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import total
from deixis.layers.padding import PaddedRegions
from deixis.methods.updown.decode import BOS, EOS, PAD, GenerationConfig
from deixis.methods.updown.network import Decoder, Encoded
from deixis.methods.updown.sample import Sampled, mean_logprobs, sample
from deixis.metrics.cider import CiderD, DocumentFrequencies


@dataclass(frozen=True)
class CriticConfig:
    """Weights of the rewards, baseline, sampling and stopping."""

    cider: float = 1.0  # CIDEr-D, from 0 to 10
    match: float = 0.0  # lambda_2 of Eq. 19: weight of a matcher's score; 1 in the paper where it is used
    consistency: float = 0.0  # weight of the attention that captioner and matcher share at nouns (ours)
    reward_model: str = ""  # recipe of that matcher
    samples: int = 5  # sentences for each image
    baseline: Literal["greedy", "others"] = "greedy"  # Eq. 18; or the mean of the image's other samples
    temperature: float = 1.0  # of the sampling
    min_gap: float = 0.01  # a mean distance of rewards from the baseline below this counts as no learning signal
    patience: int = 3  # epochs without learning signal after which the phase ends; 0: never

    def __post_init__(self) -> None:
        if self.samples < (2 if self.baseline == "others" else 1):
            raise ValueError(f"{self.samples} samples for each image are too few for the baseline '{self.baseline}'")
        if bool(self.reward_model) != bool(self.match or self.consistency):
            raise ValueError("the rewards 'match' and 'consistency' need a reward_model, and only these use one")


@dataclass(frozen=True)
class Images:
    """Images of a batch, as rewards need them."""

    ids: Sequence[str]  # [I]
    regions: PaddedRegions


Reward = Callable[[Images, Sampled], Tensor]  # [I, S], one number for each sentence


def self_critical(
    decoder: Decoder,
    images: Images,
    rewards: Mapping[str, tuple[float, Reward]],
    generation: GenerationConfig,
    config: CriticConfig,
) -> dict[str, Tensor]:
    """Loss "policy" (Eq. 17, 18), and for the log without gradient: reward, baseline, gap and each single reward.

    ``rewards`` are (weight, function) by name. The gap is the mean distance of a sample's reward from its baseline;
    where it is 0 there is no gradient. Dropout is off: words must be sampled from the distribution whose
    log-probability is changed.
    """
    with _without_dropout(decoder):
        encoded = decoder.encode_regions(images.regions)
        greedy = config.baseline == "greedy"
        sampled = sample(decoder, encoded, generation, config.samples, config.temperature, with_greedy=greedy)
        with torch.no_grad():
            values = {name: reward(images, sampled).float() for name, (_, reward) in rewards.items()}
            summed = torch.stack([rewards[name][0] * value for name, value in values.items()]).sum(0)  # Eq. 19
            gained, baseline = (summed[:, 1:], summed[:, :1]) if greedy else (summed, mean_of_others(summed))
        words = sampled.words[:, 1:] if greedy else sampled.words
        logprobs = sentence_logprobs(decoder, encoded, words, generation, config.temperature)
    advantage = gained - baseline  # [I, S]
    share = len(gained) / total(torch.tensor(len(gained), device=gained.device))  # of the images of the batch
    logged = {
        "reward": gained.mean() * share,
        "baseline": baseline.mean() * share,
        "gap": advantage.abs().mean() * share,
        **{f"reward-{name}": value[:, greedy:].mean() * share for name, value in values.items()},
    }
    return {"policy": policy_gradient(logprobs, advantage.unsqueeze(-1), words != PAD), **logged}


def policy_gradient(logprobs: Tensor, advantage: Tensor, mask: Tensor) -> Tensor:
    """Loss whose gradient is Eq. 18, from log-probabilities ``[..., T]`` of words and their advantage.

    As in the published code the mean is over all words in ``mask [..., T]``, the end token included, so long sentences
    have more weight than short ones.
    """
    return -(logprobs * advantage * mask).sum() / total(mask.sum())


def sentence_logprobs(
    decoder: Decoder, encoded: Encoded, words: Tensor, generation: GenerationConfig, temperature: float = 1.0
) -> Tensor:
    """Log-probability ``[I, S, T]`` with which each of ``words [I, S, T]`` was sampled, with gradient.

    With several branches it is that of their mean distribution. Unlike
    :func:`deixis.methods.updown.decode.force_decode` the distribution is normalised over the allowed words, as in
    sampling. 0 after the end.
    """
    real = words != PAD
    previous = torch.cat([torch.full_like(words[..., :1], BOS), words[..., :-1]], -1)
    states = decoder(encoded, previous, generation.branches).states[real]  # [W, K, hidden]
    single = states.shape[1] == 1  # one branch is normalised only once, below
    logits = decoder.output(states[:, 0]) if single else mean_logprobs(decoder.word_logprobs(states))  # [W, V]
    step = torch.arange(words.shape[-1], device=words.device).expand_as(words)[real]
    logits[:, list(generation.forbidden)] = -torch.inf
    if generation.min_words:
        logits[step < generation.min_words, EOS] = -torch.inf
    if not generation.allow_adjacent_repeats:
        later = step > 0
        logits[later, previous[real][later]] = -torch.inf
    picked = -F.cross_entropy(logits / temperature, words[real], reduction="none")
    return torch.zeros(words.shape, dtype=picked.dtype, device=words.device).masked_scatter(real, picked)


def mean_of_others(rewards: Tensor) -> Tensor:
    """Mean reward of the image's other sentences, for each of ``[I, S]``."""
    return (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)


def cider_reward(
    references: Mapping[str, Sequence[Sequence[int]]], end: int, frequencies: DocumentFrequencies | None = None
) -> Reward:
    """CIDEr-D reward against the word ids of each image's captions, end tokens included.

    Document frequencies are those of all references unless others are given.
    """
    scorer = CiderD(references, frequencies)

    def reward(images: Images, sentences: Sampled) -> Tensor:
        count, each, _ = sentences.words.shape
        ids = [image for image in images.ids for _ in range(each)]
        scores = scorer.score_ids(sentences.words.flatten(0, 1).cpu().numpy(), ids, end)
        return torch.from_numpy(scores).view(count, each).to(sentences.words.device)

    return reward


def match_reward(match: Callable[[PaddedRegions, Tensor], Tensor]) -> Reward:
    """Matching score ``match(regions, words [I, S, T])`` as reward: S(I, T) of Eq. 19, by Eq. 6 or, of nouns, Eq. 8.

    Words are passed as captions: bos first, and eos last also where a sentence was cut.
    """

    def reward(images: Images, sentences: Sampled) -> Tensor:
        return match(images.regions, as_captions(sentences.words))

    return reward


def consistency_reward(attend: Callable[[PaddedRegions, Tensor], Tensor], nouns: Tensor) -> Reward:
    """Shared attention of captioner and matcher as reward: mean over nouns of sum over regions of the smaller weight.

    Between 0 and 1; 0 without nouns. Bounded, while a divergence would let one word without overlap dominate.
    ``attend(regions, words [I, S, T])`` gives the matcher's attention ``[I, S, T - 1, N]`` at the words after bos,
    and ``nouns [V]`` marks nouns (:func:`deixis.language.nouns.noun_table`).
    """

    def reward(images: Images, sentences: Sampled) -> Tensor:
        counted = nouns.to(sentences.words.device)[sentences.words]  # [I, S, T]
        teacher = attend(images.regions, as_captions(sentences.words))[:, :, :-1]
        shared = torch.minimum(sentences.attention.mean(3), teacher).sum(-1)
        return (shared * counted).sum(-1) / counted.sum(-1).clamp_min(1)

    return reward


def as_captions(words: Tensor) -> Tensor:
    """Sentences ``[I, S, T]`` as captions ``[I, S, T + 2]``: bos first, and eos after those that were cut."""
    cut = ~(words == EOS).any(-1, keepdim=True)  # only a sentence of all T words has no end
    end = torch.full_like(words[..., :1], PAD).masked_fill(cut, EOS)
    return torch.cat([torch.full_like(end, BOS), words, end], -1)


def reward_converged(lines: Sequence[Mapping[str, Any]], config: CriticConfig) -> bool:
    """Whether the gap stayed below ``config.min_gap`` for ``config.patience`` epochs, by the log lines of the phase."""
    last = [line["losses"].get("gap", float("inf")) for line in lines[-config.patience :]]
    return 0 < config.patience == len(last) and max(last) < config.min_gap


@contextmanager
def _without_dropout(decoder: Decoder) -> Iterator[None]:
    training = decoder.training
    decoder.eval()
    try:
        yield
    finally:
        decoder.train(training)
