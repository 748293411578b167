"""Options that change a recipe: additional losses (``--teacher``, ``--cycle``, ``--reward``) and single values.

    deixis train distributed-attention --teacher pos-scan --cycle --reward cider

Losses are added before the single values are read, so that the values can change them.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from deixis.errors import UsageError
from deixis.methods.scan.recipes import SCAN_RECIPES
from deixis.methods.updown.recipes import SMALL, UpDownRecipe, with_cycle, with_reward, with_teacher
from deixis.model_folder import read_config
from deixis.training.recipe import Recipe
from deixis.training.renamed import refuse_old_options


@dataclass(frozen=True)
class AddedLosses:
    """Additional losses of a captioner recipe."""

    teacher: str = ""  # distil the attention of a matcher at nouns: scan, pos-scan, or the folder of a trained one
    cycle: bool = False  # replace the loss of the last phase by the cycle of Cyclical
    reward: Literal["", "cider"] = ""  # then train self-critically with this reward
    reward_model: str = ""  # add a match score to the reward: scan, pos-scan, or the folder of a trained matcher

    @classmethod
    def parse(cls, args: Sequence[str]) -> tuple[AddedLosses, list[str]]:
        """Parse these options; also return the remaining arguments."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        parser.add_argument("--teacher", default="")
        parser.add_argument("--cycle", action="store_true")
        parser.add_argument("--reward", default="", choices=["cider"])
        parser.add_argument("--reward-model", "--reward_model", default="")
        try:
            found, rest = parser.parse_known_args(list(args))
        except argparse.ArgumentError as error:
            raise UsageError(f"{error}.") from None
        return cls(**vars(found)), rest

    def add_to(self, recipe: Recipe) -> Recipe:
        """Add these losses to a recipe."""
        if self == AddedLosses():
            return recipe
        if not isinstance(recipe, UpDownRecipe):
            raise UsageError(
                f"recipe {recipe.name} does not train a captioner. Remove --teacher, --cycle, --reward, --reward-model."
            )
        if self.reward_model and not self.reward:
            raise UsageError("--reward-model adds to the reward of self-critical training. Add --reward cider.")
        if self.teacher:
            recipe = with_teacher(recipe, matcher(self.teacher, "--teacher")[0])
        if self.cycle:
            recipe = with_cycle(recipe)
        if self.reward:
            name = matcher(self.reward_model, "--reward-model")[0] if self.reward_model else ""
            recipe = with_reward(recipe, name)
        return recipe


def matcher(text: str, option: str) -> tuple[str, Path | None]:
    """Matcher of an option: "scan" or "pos-scan", and its folder if it is already trained."""
    if text in SCAN_RECIPES:
        return text.removesuffix(SMALL), None
    if not Path(text).is_dir():
        raise UsageError(f"{option} {text}: expected scan, pos-scan or the folder of a trained matcher.")
    count = read_config(text, "matcher")["matcher"]["count"]
    return "scan" if count == "all" else "pos-scan", Path(text)


def with_options(recipe: Recipe, options: str) -> Recipe:
    """Change a recipe with a string of 'deixis train' options; matchers are given by recipe name."""
    args = shlex.split(options)
    refuse_old_options(args)
    added, rest = AddedLosses.parse(args)
    for text, option in ((added.teacher, "--teacher"), (added.reward_model, "--reward-model")):
        if text and matcher(text, option)[1] is not None:
            raise UsageError(f"{option} {text} is a folder. Use scan or pos-scan here.")
    recipe = added.add_to(recipe)
    try:
        return tyro.cli(type(recipe), default=recipe, args=rest, console_outputs=False)
    except (SystemExit, ValueError) as error:
        reason = f" ({error})" if isinstance(error, ValueError) else ""
        advice = f"See 'deixis train {recipe.name} --help'."
        raise UsageError(f"invalid options for {recipe.name}: '{options}'{reason}. {advice}") from None
