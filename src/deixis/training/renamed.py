"""Changed names of version 0.1: fields of recipes, options of ``deixis train``, recipes with combined losses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from deixis.errors import UsageError
from deixis.types import Json

FIELDS: dict[str, dict[str, str]] = {
    "": {
        "images": "batch_images",
        "minimum": "min_count",
        "select": "monitor",
        "boxes": "supervised",
        "distil": "distillation",
        "critic": "self_critical",
    },
    "phases": {"objective": "loss", "rate": "lr"},
    "schedule": {"rate": "lr", "every": "decay_every", "clip": "clip_norm", "stop": "early_stop_epochs"},
    "critic": {"judge": "reward_model", "still": "min_gap"},
    "relations": {"minimum": "min_count"},
    "self_taught": {"warm_up": "warmup"},
    "model": {"explain": "map_source"},
}
"""Old -> new names of the fields of a recipe, by the old name of their group; "" is the recipe itself."""

VALUES = {
    ("model", "place"): {"best": "attention"},
    ("model", "explain"): {"match": "gradcam", "look": "attention"},
}
"""Old -> new values of a field, by its group and name."""

ROLES = {"start": "init_from", "judge": "reward_model"}
"""Old -> new names of the initial model and the reward model: options, and fields of ``table.toml``."""

REMOVED = ("supervision",)
"""Fields of old recipes that are now computed."""

_COMBINED = re.compile(
    r"(?P<base>[a-z-]+?)(?:\+(?P<teacher>scan|pos-scan))?(?P<cycle>\+cycle)?"
    r"(?:\+scst-(?P<reward>cider|scan|pos-scan))?(?P<small>-small)?"
)


def current_fields(recipe: Json) -> Json:
    """Convert the fields of a stored recipe to their current names, without the computed ones."""
    found = {FIELDS[""].get(name, name): _renamed(value, name) for name, value in recipe.items() if name not in REMOVED}
    return _first_reir(found) if "self_taught" in found and "batch_pairs" not in found else found


def _first_reir(recipe: Json) -> Json:
    """Add what recipes of ReIR did before it could be chosen: fields that are missing have other defaults now."""
    model, relations = recipe["model"], recipe["relations"]
    separate = {"share_stages": False, "repool": False, "regress_hidden": model["hidden"]}
    weight = relations["weight"] if model["graph"] != "none" else 0.0
    return {
        **recipe,
        "batch_pairs": False,
        "decoder_input": "every",
        "model": {**model, **separate},
        "ranking": {**recipe["ranking"], "similarity": "phrases"},
        "relations": {**relations, "weight": weight},
    }


def _renamed(value: Any, group: str) -> Any:
    """Rename the entries of a group or of a list of groups; other values are unchanged."""
    if isinstance(value, list):
        return [_renamed(each, group) for each in value]
    if not isinstance(value, dict):
        return value
    names = FIELDS.get(group, {})
    return {
        names.get(name, name): VALUES[group, name].get(each, each) if (group, name) in VALUES else each
        for name, each in value.items()
    }


def refuse_old_options(args: Sequence[str]) -> None:
    """Raise an error with the new name if an argument is an option of version 0.1."""
    for arg in args:
        option = arg.split("=", 1)[0]
        if not option.startswith("--"):
            continue
        name = option.removeprefix("--").replace("_", "-")
        if name in REMOVED:
            raise UsageError(f"{option} is no option any more: the model card derives the {name}. Remove it.")
        if (new := _new_option(name)) is not None:
            raise UsageError(f"{option} is now --{new}. Use the new name.")


def _new_option(option: str) -> str | None:
    """Current name of an option; None if unchanged."""
    parts = option.replace("-", "_").split(".")
    new = [ROLES.get(parts[0]) or FIELDS[""].get(parts[0], parts[0]), *parts[1:]]
    if len(parts) > 1:
        new[-1] = FIELDS.get(parts[0], {}).get(parts[-1], parts[-1])
    name = ".".join(new).replace("_", "-")
    return None if name == option else name


def combined_command(name: str) -> str | None:
    """Arguments for a recipe name with combined losses, such as ``updown+pos-scan-small``; None for other names."""
    found = _COMBINED.fullmatch(name)
    if found is None or "+" not in name:
        return None
    words = [found["base"] + (found["small"] or "")]
    words += ["--teacher", found["teacher"]] if found["teacher"] else []
    words += ["--cycle"] if found["cycle"] else []
    words += ["--reward", "cider"] if found["reward"] else []
    words += ["--reward-model", found["reward"]] if found["reward"] in ("scan", "pos-scan") else []
    return " ".join(words)
