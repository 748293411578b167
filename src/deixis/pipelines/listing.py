"""List the models on this machine with their supervision and scores, without loading them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from deixis.fields import fits
from deixis.files import read_settings
from deixis.model_folder import with_proposals
from deixis.pipelines.models import KINDS, model_folder, model_names
from deixis.types import Json

RUNS = Path("runs")


@dataclass(frozen=True)
class ListedModel:
    """A model, as described by the files of its folder."""

    model: str  # value for --model
    kind: str
    recipe: str
    supervision: str
    bytes: int  # of the weights; 0: no weights yet
    split: str  # of the scores
    scores: dict[str, float]
    folder: str


def local_models(folders: Sequence[Path] = ()) -> Iterator[ListedModel]:
    """List the models of the package by name, then those under the given folders and ./runs, each once."""
    for folder in folders:
        if not folder.is_dir():
            raise DeixisError(f"{folder} is not a folder. Give a folder of models.")
    for name in model_names():
        if (listed := describe_model(model_folder(name), name)) is not None:
            yield listed
    seen: set[Path] = set()
    for folder in (*folders, *([RUNS] if RUNS.is_dir() else [])):
        for config in sorted(file for depth in ("", "*/", "*/*/") for file in folder.glob(f"{depth}config.json")):
            if (place := config.parent).resolve() not in seen:
                seen.add(place.resolve())
                if (listed := describe_model(place, str(place))) is not None:
                    yield listed


def describe_model(folder: Path, model: str) -> ListedModel | None:
    """Read configuration, recipe and metrics of a folder; None if it is not a model."""
    config = _read(folder / "config.json")
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        return None
    boxes = str(_object(_object(_object(config, "extractor"), "description"), "proposals").get("supervision", ""))[:200]
    recipe, metrics = _read(folder / "recipe.json"), _read(folder / "metrics.json")
    split = "test" if "test" in metrics else "validation"
    weights = folder / "weights.safetensors"
    return ListedModel(
        model=model,
        kind=str(kind),
        recipe=str(recipe.get("name", "unknown"))[:200],
        supervision=with_proposals(str(recipe.get("supervision", "unknown"))[:200], boxes),
        bytes=weights.stat().st_size if weights.is_file() else 0,
        split=split,
        scores={name: value for name, score in _object(metrics, split).items() if (value := _value(score)) is not None},
        folder=str(folder),
    )


def _read(file: Path) -> Json:
    """A JSON object; empty if it cannot be read, so that one damaged folder does not hide the others."""
    try:
        value = read_settings(file)
    except (OSError, ValueError, DeixisError):
        return {}
    return value if isinstance(value, dict) else {}


def _object(value: Json, name: str) -> Json:
    """A member that is an object; empty if it is anything else."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _value(score: Any) -> float | None:
    """Value of a score, with a signature (package) or plain (validation); None if it is no finite number."""
    value: Any = score.get("value") if isinstance(score, dict) else score
    return float(value) if fits(value, float) else None
