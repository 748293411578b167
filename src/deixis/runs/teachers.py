"""Load or train the matchers used for attention distillation and for the matching reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.nouns import mark_words, noun_table
from deixis.language.parse import Parse
from deixis.language.spacy_parse import spacy_parse
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import PaddedRegions
from deixis.localize.batched_votes import votes
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanNet
from deixis.methods.scan.recipes import SCAN_RECIPES
from deixis.methods.scan.train import train_scan
from deixis.methods.updown.batches import make_examples
from deixis.methods.updown.losses.self_critical import Reward, cider_reward, consistency_reward, match_reward
from deixis.methods.updown.recipes import SELF_CRITICAL, UpDownRecipe
from deixis.model_folder import torch_network
from deixis.training.callbacks import Callbacks
from deixis.training.data import TrainingData
from deixis.training.supervision import SourceModel
from deixis.training.types import TeacherAttention


@dataclass(frozen=True)
class Teachers:
    """Functions called by the losses of a captioner; not part of its network, checkpoints or model."""

    attention: TeacherAttention | None = None
    rewards: Mapping[str, tuple[float, Reward]] = field(default_factory=dict)  # weight and function by name
    sources: tuple[SourceModel, ...] = ()  # the models of these functions


class TranslatedMatcher:
    """A frozen matcher that takes word ids of the captioner's vocabulary.

    A word counts as a noun if most of its occurrences in ``parses``, of the training captions, are nouns.
    ``temperature`` > 0 replaces the inverse temperature of its attention; ``target`` "vote" returns the votes of the
    regions in place of the attention.
    """

    def __init__(
        self,
        grounder: ScanGrounder,
        vocabulary: Vocabulary,
        parses: Sequence[Parse],
        temperature: float = 0.0,
        target: Literal["attention", "vote"] = "attention",
    ) -> None:
        network = torch_network(grounder.network)
        assert isinstance(network, ScanNet)
        self.matcher = network.requires_grad_(False)
        self.target = target
        if temperature:
            self.matcher.config = replace(self.matcher.config, temperature=temperature)
        self.ids = torch.tensor([grounder.vocabulary.id(word) for word in vocabulary.words])
        self.counts: Tensor | None = None  # [V]; None: all words
        count = grounder.network.config.count
        if count != "all":
            counted = noun_table(parses, vocabulary, lambda each: mark_words(each, count, grounder.vocabulary))
            self.counts = torch.tensor(counted)

    @torch.no_grad()
    def attention(self, regions: PaddedRegions, words: Tensor) -> Tensor:
        """Attention ``[I, C, T - 1, N]`` at the words after bos of captions ``[I, C, T]``."""
        attention = self.matcher.to(words.device).attention(regions, *self._translated(words))[:, :, 1:]
        if self.target == "attention":
            return attention
        boxes = regions.boxes
        if regions.video is not None:  # regions of different frames do not vote for each other: move frames apart
            boxes = boxes + 2 * regions.video.frames.unsqueeze(-1)
        counted = votes(boxes, attention.flatten(1, 2)) * regions.mask.unsqueeze(1)  # [I, C (T - 1), N]
        return (counted / counted.sum(-1, keepdim=True).clamp_min(1e-12)).view_as(attention)

    @torch.no_grad()
    def match(self, regions: PaddedRegions, words: Tensor) -> Tensor:
        """Match scores ``[I, C]`` of captions ``[I, C, T]``."""
        return self.matcher.to(words.device).match(regions, *self._translated(words))

    def _translated(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        counts = None if self.counts is None else self.counts.to(words.device)[words]
        return self.ids.to(words.device)[words], counts


def load_teachers(
    recipe: UpDownRecipe,
    data: TrainingData,
    vocabulary: Vocabulary,
    out: Path,
    callbacks: Callbacks,
    teacher: Path | None = None,
    reward_model: Path | None = None,
) -> Teachers:
    """Load or train the matchers that a recipe needs, and return their functions.

    ``teacher`` and ``reward_model`` are folders of trained matchers. A matcher without a folder is trained first, in
    ``out/teacher`` or ``out/reward-model``. If both have the same recipe, the teacher is used for both.
    """
    for option, folder, name in (
        ("--teacher", teacher, recipe.teacher),
        ("--reward-model", reward_model, recipe.reward_model),
    ):
        if folder is not None and not name:
            raise DeixisError(f"recipe {recipe.name}: no phase of this run uses {option}. Remove it.")
    parses: Sequence[Parse] = []
    if recipe.teacher or recipe.reward_model:
        parses = spacy_parse([caption.text for sample in data.training for caption in sample.captions])
    attention, sources = None, []
    if recipe.teacher:
        teacher = load_or_train(recipe.teacher, teacher, out / "teacher", recipe.seed, data, callbacks)
        config = recipe.distillation
        matcher = ScanGrounder.from_pretrained(teacher, backend="torch")
        attention = TranslatedMatcher(matcher, vocabulary, parses, config.temperature, config.target).attention
        sources.append(SourceModel.read("teacher", teacher))
    rewards: dict[str, tuple[float, Reward]] = {}
    if recipe.has_loss(SELF_CRITICAL) and recipe.self_critical.cider:
        examples = make_examples(data.training, vocabulary, recipe.max_words)
        references = {example.image_id: [caption[1:] for caption in example.captions] for example in examples}
        rewards["cider"] = (recipe.self_critical.cider, cider_reward(references, Vocabulary.eos))
    if recipe.reward_model:
        if reward_model is None and recipe.reward_model == recipe.teacher:
            reward_model = teacher
        place = out / "reward-model"
        reward_model = load_or_train(recipe.reward_model, reward_model, place, recipe.seed, data, callbacks)
        grounder = ScanGrounder.from_pretrained(reward_model, backend="torch")
        rewards |= _matcher_rewards(recipe, TranslatedMatcher(grounder, vocabulary, parses), vocabulary, parses)
        sources.append(SourceModel.read("reward model", reward_model))
    return Teachers(attention, rewards, tuple(sources))


def _matcher_rewards(
    recipe: UpDownRecipe, matcher: TranslatedMatcher, vocabulary: Vocabulary, parses: Sequence[Parse]
) -> dict[str, tuple[float, Reward]]:
    config = recipe.self_critical
    rewards: dict[str, tuple[float, Reward]] = {}
    if config.match:
        rewards["match"] = (config.match, match_reward(matcher.match))
    if config.consistency:
        nouns = torch.tensor(noun_table(parses, vocabulary))
        rewards["consistency"] = (config.consistency, consistency_reward(matcher.attention, nouns))
    return rewards


def load_or_train(
    name: str, folder: Path | None, place: Path, seed: int, data: TrainingData, callbacks: Callbacks
) -> Path:
    """Check the matcher in ``folder``, or train one in ``place`` with the recipe ``name``; return its folder.

    A finished matcher in ``place`` is not trained again.
    """
    recipe = SCAN_RECIPES.get(name)
    if recipe is None:
        raise DeixisError(f"{place.name}: '{name}' is not a matcher recipe. Use {', '.join(SCAN_RECIPES)}.")
    if folder is None:
        callbacks.message(f"training the {place.name} with the recipe {name}")
        train_scan(replace(recipe, seed=seed), data, place, Callbacks(step=callbacks.step))
        folder = place
    grounder = ScanGrounder.from_pretrained(folder)
    if grounder.extractor.name != data.extractor["name"]:
        raise DeixisError(
            f"{folder} expects features from extractor {grounder.extractor.name}, but the data has features from "
            f"{data.extractor['name']}. Choose a matcher trained on these features, or give a recipe name to train one."
        )
    count = grounder.network.config.count
    if count != recipe.model.count:
        raise DeixisError(
            f"{folder}: its score uses the words '{count}', but the recipe {name} uses '{recipe.model.count}'. "
            f"Choose another --{place.name}, or the matching recipe."
        )
    return folder
