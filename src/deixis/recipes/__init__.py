"""Named recipes: a published row is a network, objectives and a schedule."""

from __future__ import annotations

import difflib

from deixis.errors import DeixisError
from deixis.recipes.captioners import CAPTIONERS, CaptionerRecipe
from deixis.recipes.fusions import FUSIONS, FusionRecipe
from deixis.recipes.grounders import GROUNDERS, GrounderRecipe
from deixis.recipes.matchers import MATCHERS, MatcherRecipe
from deixis.recipes.recipe import Phase, Recipe, Schedule

__all__ = [
    "CAPTIONERS",
    "FUSIONS",
    "GROUNDERS",
    "MATCHERS",
    "RECIPES",
    "CaptionerRecipe",
    "FusionRecipe",
    "GrounderRecipe",
    "MatcherRecipe",
    "Phase",
    "Recipe",
    "Schedule",
    "find",
]

RECIPES: dict[str, Recipe] = {**CAPTIONERS, **MATCHERS, **GROUNDERS, **FUSIONS}


def find(name: str) -> Recipe:
    """The recipe of that name, or a sentence with the near ones."""
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=3) or sorted(RECIPES)
        raise DeixisError(f"there is no recipe '{name}'; did you mean {', '.join(near)}?")
    return RECIPES[name]
