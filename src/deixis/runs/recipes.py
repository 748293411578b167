"""Published recipes by name, and the reader of ``recipe.json`` files."""

from __future__ import annotations

import difflib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError, UsageError
from deixis.methods.albef.recipes import ALBEF_RECIPES, AlbefRecipe
from deixis.methods.reir.recipes import REIR_RECIPES, ReirRecipe
from deixis.methods.scan.recipes import SCAN_RECIPES, ScanRecipe
from deixis.methods.updown.recipes import UPDOWN_RECIPES, UpDownRecipe
from deixis.training.recipe import Recipe, from_json
from deixis.training.renamed import combined_command, current_fields
from deixis.types import Json

RECIPES: dict[str, Recipe] = {**UPDOWN_RECIPES, **SCAN_RECIPES, **REIR_RECIPES, **ALBEF_RECIPES}

_TYPES: tuple[type[Recipe], ...] = (UpDownRecipe, ScanRecipe, ReirRecipe, AlbefRecipe)


def find_recipe(name: str) -> Recipe:
    """Find a published recipe by name; the error for an unknown name lists similar ones."""
    if name in RECIPES:
        return RECIPES[name]
    if (command := combined_command(name)) is not None and command.split()[0] in RECIPES:
        raise UsageError(f"'{name}' is now written with options: deixis train {command}")
    near = difflib.get_close_matches(name, RECIPES, n=3) or sorted(RECIPES)
    raise UsageError(f"unknown recipe '{name}'. Did you mean {', '.join(near)}?")


def read_recipe(kept: Json) -> Recipe:
    """Read the content of a ``recipe.json`` of this version or of 0.1; new fields get their defaults."""
    values = current_fields(kept)
    found = max(_TYPES, key=lambda each: len(set(values) & {field.name for field in fields(each)}))
    try:
        return from_json(found, values)
    except TypeError as error:
        raise DeixisError(f"incomplete {found.__name__} in recipe.json ({error}). Train the model again.") from None


def with_data(recipe: Recipe, data: Path) -> Recipe:
    """Replace ``{data}`` in the texts of a recipe by the folder of the data set."""
    values = vars(recipe).items()
    texts: dict[str, Any] = {name: text.replace("{data}", str(data)) for name, text in values if isinstance(text, str)}
    return replace(recipe, **texts)
