"""Named recipes: a published row is a network, objectives and a schedule."""

from __future__ import annotations

import difflib

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
]

RECIPES: dict[str, Recipe] = {**CAPTIONERS, **MATCHERS, **GROUNDERS, **FUSIONS}


def find(name: str) -> Recipe:
    """The recipe of that name, or a sentence with the near ones."""
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=3) or sorted(RECIPES)
        raise DeixisError(f"there is no recipe '{name}'; did you mean {', '.join(near)}?")
    return RECIPES[name]
