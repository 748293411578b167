"""Named recipes: a published row is a network, objectives and a schedule."""

from __future__ import annotations

import difflib
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import tyro

from deixis.errors import DeixisError
from deixis.methods.albef.recipes import FUSIONS, AlbefRecipe
from deixis.methods.reir.recipes import GROUNDERS, ReirRecipe
from deixis.methods.scan.recipes import MATCHERS, ScanRecipe
from deixis.methods.updown.recipes import CAPTIONERS, UpDownRecipe
from deixis.training.recipe import Phase, Recipe, Schedule

__all__ = [
    "CAPTIONERS",
    "FUSIONS",
    "GROUNDERS",
    "MATCHERS",
    "RECIPES",
    "AlbefRecipe",
    "Phase",
    "Recipe",
    "ReirRecipe",
    "ScanRecipe",
    "Schedule",
    "UpDownRecipe",
    "find",
    "with_data",
    "with_options",
]

RECIPES: dict[str, Recipe] = {**CAPTIONERS, **MATCHERS, **GROUNDERS, **FUSIONS}


def find(name: str) -> Recipe:
    """The recipe of that name, or a sentence with the near ones."""
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=3) or sorted(RECIPES)
        raise DeixisError(f"there is no recipe '{name}'; did you mean {', '.join(near)}?")
    return RECIPES[name]


def with_options(recipe: Recipe, options: str) -> Recipe:
    """Change a recipe by options in one string, written as for 'deixis train'."""
    try:
        return tyro.cli(type(recipe), default=recipe, args=shlex.split(options), console_outputs=False)
    except (SystemExit, ValueError) as error:
        reason = f" ({error})" if isinstance(error, ValueError) else ""
        advice = f"See 'deixis train {recipe.name} --help'."
        raise DeixisError(f"invalid options for {recipe.name}: '{options}'{reason}. {advice}") from None


def with_data(recipe: Recipe, data: Path) -> Recipe:
    """Replace ``{data}`` in the texts of a recipe by the folder of the data set."""
    values = vars(recipe).items()
    texts: dict[str, Any] = {name: text.replace("{data}", str(data)) for name, text in values if isinstance(text, str)}
    return replace(recipe, **texts)
