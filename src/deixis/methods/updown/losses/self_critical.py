"""Self-critical training: sentences that the captioner makes itself become likelier the more they please.

More Grounded Image Captioning (POS-SCAN), Eq. 17 to 19, after Rennie et al. A reward is a plain function of images and
sentences; several add up with weights. Sentences are drawn without a graph, all of a batch in one pass, and one pass of
teacher forcing then gives their log-probabilities with gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import PaddedRegions
from deixis.methods.updown.decode import BANNED, GenerationConfig, Sentences, mean_logprobs, sample
from deixis.methods.updown.network import Decoder, Encoded
from deixis.metrics.cider import CiderD, DocumentFrequencies


@dataclass(frozen=True)
class CriticConfig:
    """Weights of the rewards, what they are compared with, and when there is nothing left to learn."""

    cider: float = 1.0  # CIDEr-D, ten at most, as in all of self-critical training
    match: float = (
        0.0  # lambda_2 of Eq. 19: how well a matcher thinks the sentence fits; 1 in the paper where it is used
    )
    consistency: float = 0.0  # how much captioner and matcher look at the same places when a noun is said
    reward_model: str = ""  # recipe of that matcher
    samples: int = 5  # sentences an image
    baseline: Literal["greedy", "others"] = "greedy"  # Eq. 18; or the mean of the image's other samples
    temperature: float = 1.0  # of the sampling; under 1 the sentences stay closer to what is likely
    min_gap: float = 0.01  # a smaller gap counts as none ...
    patience: int = 3  # ... and after so many epochs without one the phase ends; 0: never

    def __post_init__(self) -> None:
        if self.samples < (2 if self.baseline == "others" else 1):
            raise ValueError(f"{self.samples} samples an image are too few for the baseline '{self.baseline}'")
        if bool(self.reward_model) != bool(self.match or self.consistency):
            raise ValueError("the rewards 'match' and 'consistency' need a reward_model, and only these use one")


@dataclass(frozen=True)
class Images:
    """What a reward may know of the images whose sentences it judges."""

    ids: Sequence[str]  # [I]
    regions: PaddedRegions


Reward = Callable[[Images, Sentences], Tensor]  # [I, S], a number for each sentence


def self_critical(
    decoder: Decoder,
    images: Images,
    rewards: Mapping[str, tuple[float, Reward]],
    rules: GenerationConfig,
    config: CriticConfig,
    branches: int | None = None,
) -> dict[str, Tensor]:
    """The loss 'policy', and for the log without gradient: reward, baseline, gap, and each reward of its own.

    ``rewards`` are (weight, function) by name. The gap is the mean distance of a sample's reward from its baseline:
    where it is nothing, no sample is better or worse than another, and nothing can be learnt. Dropout is off: words
    have to come from the very distribution whose log-probability is raised.
    """
    with _without_dropout(decoder):
        encoded = decoder.encode_regions(images.regions)
        greedy = config.baseline == "greedy"
        made = sample(decoder, encoded, rules, config.samples, config.temperature, branches=branches, greedy_too=greedy)
        with torch.no_grad():
            judged = {name: reward(images, made).float() for name, (_, reward) in rewards.items()}
            total = torch.stack([rewards[name][0] * value for name, value in judged.items()]).sum(0)  # Eq. 19
            gained, baseline = (total[:, 1:], total[:, :1]) if greedy else (total, mean_of_others(total))
        words = made.words[:, 1:] if greedy else made.words
        logprobs = sentence_logprobs(decoder, encoded, words, rules, config.temperature, branches)
    advantage = gained - baseline  # [I, S]
    told = {
        "reward": gained.mean(),
        "baseline": baseline.mean(),
        "gap": advantage.abs().mean(),
        **{f"reward-{name}": value[:, greedy:].mean() for name, value in judged.items()},
    }
    return {"policy": policy_gradient(logprobs, advantage.unsqueeze(-1), words != Vocabulary.pad), **told}


def policy_gradient(logprobs: Tensor, advantage: Tensor, said: Tensor) -> Tensor:
    """The loss whose gradient is Eq. 18, from log-probabilities ``[..., T]`` of words and their advantage.

    As in the published code the mean is over all words marked in ``said [..., T]``, the end of the sentence included,
    so that long sentences weigh more than short ones.
    """
    return -(logprobs * advantage * said).sum() / said.sum()


def sentence_logprobs(
    decoder: Decoder,
    encoded: Encoded,
    words: Tensor,
    rules: GenerationConfig,
    temperature: float = 1.0,
    branches: int | None = None,
) -> Tensor:
    """The log-probability ``[I, S, T]`` with which each of ``words [I, S, T]`` was drawn, with gradient.

    With several branches it is that of their mean distribution, from which the words were drawn. What the rules forbid
    has no probability; behind the end it is 0.
    """
    said = words != Vocabulary.pad
    heard = torch.cat([torch.full_like(words[..., :1], Vocabulary.bos), words[..., :-1]], -1)
    states = decoder(encoded, heard, branches).states[said]  # [W, K, hidden]
    alone = states.shape[1] == 1  # one branch is normalised only once, below
    logits = decoder.output(states[:, 0]) if alone else mean_logprobs(decoder.speak(states))  # [W, V]
    step = torch.arange(words.shape[-1], device=words.device).expand_as(words)[said]
    logits[:, list(BANNED)] = -torch.inf
    if rules.min_words:
        logits[step < rules.min_words, Vocabulary.eos] = -torch.inf
    if not rules.allow_adjacent_repeats:
        later = step > 0
        logits[later, heard[said][later]] = -torch.inf
    picked = -F.cross_entropy(logits / temperature, words[said], reduction="none")
    return torch.zeros(words.shape, dtype=picked.dtype, device=words.device).masked_scatter(said, picked)


def mean_of_others(rewards: Tensor) -> Tensor:
    """For each of ``[I, S]`` the mean of the image's other sentences."""
    return (rewards.sum(1, keepdim=True) - rewards) / (rewards.shape[1] - 1)


def cider_reward(
    references: Mapping[str, Sequence[Sequence[int]]], end: int, frequencies: DocumentFrequencies | None = None
) -> Reward:
    """CIDEr-D against the word ids of each image's captions, their end included, as it is of the sentences.

    References become numbers once. Document frequencies are those of all references unless others are given.
    """
    scorer = CiderD(references, frequencies)

    def reward(images: Images, sentences: Sentences) -> Tensor:
        count, each, _ = sentences.words.shape
        ids = [image for image in images.ids for _ in range(each)]
        scores = scorer.score_ids(sentences.words.flatten(0, 1).cpu().numpy(), ids, end)
        return torch.from_numpy(scores).view(count, each).to(sentences.words.device)

    return reward


def match_reward(match: Callable[[PaddedRegions, Tensor], Tensor]) -> Reward:
    """A matcher's score ``match(regions, words [I, S, T])`` of image and sentence (Eq. 6 or, of nouns only, Eq. 8).

    Words are given as captions are: bos first, and eos last also where a sentence was cut.
    """

    def reward(images: Images, sentences: Sentences) -> Tensor:
        return match(images.regions, as_captions(sentences.words))

    return reward


def consistency_reward(attend: Callable[[PaddedRegions, Tensor], Tensor], nouns: Tensor) -> Reward:
    """How far captioner and matcher look at the same regions, as a mean over the sentence's nouns, from 0 to 1.

    For one noun it is the attention that they share, the sum over regions of the smaller of the two weights: plain to
    read, the same both ways, and bounded, where a divergence would let one word of no overlap outweigh the sentence.
    ``attend(regions, words [I, S, T])`` gives the matcher's attention ``[I, S, T - 1, N]`` at the words behind bos,
    and ``nouns [V]`` says which words are nouns (:func:`deixis.language.nouns.noun_table`). No noun: 0.
    """

    def reward(images: Images, sentences: Sentences) -> Tensor:
        counted = nouns.to(sentences.words.device)[sentences.words]  # [I, S, T]
        theirs = attend(images.regions, as_captions(sentences.words))[:, :, :-1]
        shared = torch.minimum(sentences.attention.mean(3), theirs).sum(-1)
        return (shared * counted).sum(-1) / counted.sum(-1).clamp_min(1)

    return reward


def as_captions(words: Tensor) -> Tensor:
    """Sentences ``[I, S, T]`` as captions ``[I, S, T + 2]``: bos before them, and eos behind those that were cut."""
    bos, eos, pad = Vocabulary.bos, Vocabulary.eos, Vocabulary.pad
    cut = ~(words == eos).any(-1, keepdim=True)  # only a sentence of all T words has no end
    end = torch.full_like(words[..., :1], pad).masked_fill(cut, eos)
    return torch.cat([torch.full_like(end, bos), words, end], -1)


def nothing_left(lines: Sequence[Mapping[str, Any]], config: CriticConfig) -> bool:
    """Whether the gap stayed at nothing, by the lines of the log since the phase began."""
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
