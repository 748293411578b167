"""``deixis models``: the models on this machine, what they learnt from and how good they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Column, Table

from deixis.commands.answers import answers
from deixis.errors import DeixisError
from deixis.pipelines.load import KINDS, PACKAGE, model_names
from deixis.training.supervision import with_proposals
from deixis.types import Json

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

RUNS = Path("runs")
HEADLINE = ("CIDEr", "F1_all", "F1_loc", "accuracy", "pointing", "mean_iou", "i2t_R@1", "t2i_R@1")
"""Which scores people want to see first; three of them are shown."""


@dataclass(frozen=True)
class Listed:
    """A model, as its folder tells of it."""

    model: str  # what --model takes
    kind: str
    recipe: str
    supervision: str
    bytes: int  # of the weights; 0: there are none yet
    split: str  # that the scores are of
    scores: dict[str, float]
    folder: str


def models(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[DIR ...]")] = (),
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
) -> int:
    """List the models that are here: those of the package, those under ./runs, and those in folders that are given.

    For example: deixis models

    Args:
        folders: models, or folders with models in them or one folder deeper; ./runs is looked through anyway.
        as_json: write a line of JSON for each model to stdout.
    """
    for folder in folders:
        if not folder.is_dir():
            raise DeixisError(f"{folder} is not a folder; name one that holds models.")
    found = list(local_models(folders))
    if as_json:
        for each in found:
            print(json.dumps(asdict(each), ensure_ascii=False))
        return 0
    answers().print(_table(found))
    return 0


def local_models(folders: Sequence[Path]) -> Iterator[Listed]:
    """The models of the package by their names, then those of folders, each once."""
    for name in model_names():
        if (listed := describe(PACKAGE / name, name)) is not None:
            yield listed
    seen: set[Path] = set()
    for folder in (*folders, *([RUNS] if RUNS.is_dir() else [])):
        for config in sorted(file for depth in ("", "*/", "*/*/") for file in folder.glob(f"{depth}config.json")):
            if (place := config.parent).resolve() not in seen:
                seen.add(place.resolve())
                if (listed := describe(place, str(place))) is not None:
                    yield listed


def describe(folder: Path, model: str) -> Listed | None:
    """What the files of a model's folder say; None where it is no model."""
    config = _read(folder / "config.json")
    kind = config.get("kind")
    if kind not in KINDS:
        return None
    described = (config.get("extractor") or {}).get("description", {})
    boxes = str(described.get("proposals", {}).get("supervision", ""))
    recipe, metrics = _read(folder / "recipe.json"), _read(folder / "metrics.json")
    split = "test" if "test" in metrics else "validation"
    weights = folder / "weights.safetensors"
    return Listed(
        model=model,
        kind=str(kind),
        recipe=str(recipe.get("name", "unknown")),
        supervision=with_proposals(str(recipe.get("supervision", "unknown")), boxes),
        bytes=weights.stat().st_size if weights.is_file() else 0,
        split=split,
        scores={name: _value(score) for name, score in dict(metrics.get(split, {})).items()},
        folder=str(folder),
    )


def _read(file: Path) -> Json:
    """A JSON object; empty where there is none that can be read, because a list must not fail for one bad folder."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _value(score: Any) -> float:
    """Scores of the package carry their signatures, those of a validation are bare numbers."""
    return float(score["value"] if isinstance(score, dict) else score)


def _table(found: Sequence[Listed]) -> Table:
    model, megabytes = Column("model", overflow="fold"), Column("MB", justify="right")
    table = Table(model, "kind", "learnt from", megabytes, "scores", box=None, pad_edge=False)
    for each in found:
        best = [name for name in HEADLINE if name in each.scores][:3]
        scores = ", ".join(f"{name} {each.scores[name]:.3f}" for name in best)
        size = f"{each.bytes / 1e6:.0f}" if each.bytes else "no weights yet"
        table.add_row(each.model, each.kind, each.supervision, size, f"{each.split}: {scores}" if scores else "")
    return table
