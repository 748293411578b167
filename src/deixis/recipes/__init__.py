"""Named recipes: a published row is a network, objectives and a schedule."""

from __future__ import annotations

import difflib

from deixis.errors import DeixisError
from deixis.recipes.captioners import CAPTIONERS
from deixis.recipes.recipe import Phase, Recipe, Schedule

__all__ = ["CAPTIONERS", "Phase", "Recipe", "Schedule", "find"]


def find(name: str) -> Recipe:
    """The recipe of that name, or a sentence with the near ones."""
    if name not in CAPTIONERS:
        near = difflib.get_close_matches(name, CAPTIONERS, n=3) or sorted(CAPTIONERS)
        raise DeixisError(f"there is no recipe '{name}'; did you mean {', '.join(near)}?")
    return CAPTIONERS[name]
