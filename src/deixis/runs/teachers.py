"""The frozen matchers behind a captioner: one that shows it where to look, one that judges what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.nouns import counted_words, noun_table
from deixis.language.parse import Parse, parse
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import PaddedRegions
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.recipes import ScanRecipe
from deixis.methods.updown.batches import Example
from deixis.methods.updown.losses.self_critical import Reward, cider_reward, consistency_reward, match_reward
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.runs.recipes import find
from deixis.runs.run import Given, Material, run_recipe
from deixis.training.loop import Talk


@dataclass(frozen=True)
class Guides:
    """What a captioner's objectives ask. Plain functions: no part of the network, so in no checkpoint and no model."""

    attend: Callable[[PaddedRegions, Tensor], Tensor] | None = None  # words [I, C, T] -> [I, C, T - 1, N] behind bos
    rewards: Mapping[str, tuple[float, Reward]] = field(default_factory=dict)  # weight and function


class Guide:
    """A frozen matcher that is asked in the captioner's word ids."""

    def __init__(self, aligner: ScanGrounder, vocabulary: Vocabulary, parses: Sequence[Parse]) -> None:
        self.matcher = aligner.network.requires_grad_(False)
        self.ids = torch.tensor([aligner.vocabulary.id(word) for word in vocabulary.words])
        self.counts: Tensor | None = None  # [V]; None: all words
        count = aligner.network.config.count
        if count != "all":
            marked = noun_table(parses, vocabulary, lambda parsed: counted_words(parsed, count, aligner.vocabulary))
            self.counts = torch.tensor(marked)

    @torch.no_grad()
    def attend(self, regions: PaddedRegions, words: Tensor) -> Tensor:
        """Attention ``[I, C, T - 1, N]`` at the words behind bos of captions ``[I, C, T]``."""
        return self.matcher.to(words.device).attention(regions, *self._translated(words))[:, :, 1:]

    @torch.no_grad()
    def match(self, regions: PaddedRegions, words: Tensor) -> Tensor:
        """Scores ``[I, C]`` of captions ``[I, C, T]``."""
        return self.matcher.to(words.device).match(regions, *self._translated(words))

    def _translated(self, words: Tensor) -> tuple[Tensor, Tensor | None]:
        counts = None if self.counts is None else self.counts.to(words.device)[words]
        return self.ids.to(words.device)[words], counts


def find_guides(
    recipe: UpDownRecipe,
    material: Material,
    vocabulary: Vocabulary,
    examples: Sequence[Example],
    out: Path,
    talk: Talk,
    given: Given,
) -> Guides:
    """The functions that the phases of the recipe need; matchers that are not given are trained first, beside ``out``.

    What a sampled sentence's nouns are is decided by what its words mostly are in the training captions.
    """
    distil, critic = recipe.distil, recipe.critic
    learns = any(phase.objective != "self-critical" for phase in recipe.phases)
    criticised = any(phase.objective == "self-critical" for phase in recipe.phases)
    teacher = distil.teacher if learns else ""
    judge = critic.judge if criticised else ""
    for option, folder, wanted in (("teacher", given.teacher, teacher), ("judge", given.judge, judge)):
        if folder is not None and not wanted:
            raise DeixisError(
                f"the recipe {recipe.name} has no {option} in the phases that are run; leave --{option} out."
            )
    parses = parse([c.text for s in material.training for c in s.captions]) if teacher or judge else []

    def hire(name: str, folder: Path | None, role: str) -> Guide:
        return Guide(_hire(name, folder, out / role, recipe.seed, material, talk), vocabulary, parses)

    shows = hire(teacher, given.teacher, "teacher") if teacher else None
    rewards: dict[str, tuple[float, Reward]] = {}
    if criticised and critic.cider:
        references = {example.image_id: [caption[1:] for caption in example.captions] for example in examples}
        rewards["cider"] = (critic.cider, cider_reward(references, Vocabulary.eos))
    if judge:
        judges = shows if shows and judge == teacher and not given.judge else hire(judge, given.judge, "judge")
        if critic.match:
            rewards["match"] = (critic.match, match_reward(judges.match))
        if critic.consistency:
            nouns = torch.tensor(noun_table(parses, vocabulary))
            rewards["consistency"] = (critic.consistency, consistency_reward(judges.attend, nouns))
    return Guides(shows.attend if shows else None, rewards)


def _hire(name: str, folder: Path | None, place: Path, seed: int, material: Material, talk: Talk) -> ScanGrounder:
    """The matcher in a folder, or one trained by its own recipe, on the same data and features, in ``place``."""
    recipe = find(name)
    if not isinstance(recipe, ScanRecipe):
        raise DeixisError(f"{name} is no recipe of a matcher, so it cannot be a {place.name}.")
    if folder is None:
        talk.say(f"first the {place.name} is trained, by the recipe {name}")
        folder = run_recipe(replace(recipe, seed=seed), material, place, Talk(step=talk.step))
    aligner = ScanGrounder.from_pretrained(folder)
    if aligner.extractor.name != material.extractor["name"]:
        raise DeixisError(
            f"{folder} was trained on regions of {aligner.extractor.name}, and these features are of "
            f"{material.extractor['name']}; give a matcher of these features, or none, and one is trained first."
        )
    counted = aligner.network.config.count
    if counted != recipe.model.count:
        raise DeixisError(
            f"the {place.name} of this recipe is {name}, in whose score {recipe.model.count} words count, and in "
            f"that of {folder} {counted}; give another --{place.name}, or choose the recipe that it fits."
        )
    return aligner
