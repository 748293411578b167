"""Stored runs of a comparison: ``runs.jsonl`` next to ``table.toml``, one line of JSON per finished run."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from deixis.data.reading import BadFile
from deixis.differences import differences
from deixis.evaluation.tables.describe import Experiment
from deixis.files import MAX_FILE, encode_text, lock, read_bytes
from deixis.metrics.score import Score, compact_json, unpack_scores
from deixis.runs.recipes import read_recipe
from deixis.toml import require
from deixis.training import renamed
from deixis.types import Json

FILE = "runs.jsonl"


@dataclass(frozen=True)
class KeptRun:
    """One line of the file."""

    run: str
    asked: Json  # settings, see Experiment.settings
    supervision: str
    extractor: str
    proposals: str  # the supervision of the region proposals
    training_seconds: float
    evaluation_seconds: float
    values: dict[str, dict[str, dict[str, float]]]  # split -> signature -> score -> value
    log: list[Json]  # of the training
    statistics: dict[str, str]  # split -> the scores of the tables with per-image statistics, see pack_scores

    def value(self, split: str, score: str) -> tuple[float, str] | None:
        """Look up a score and its signature."""
        return next(((values[score], mark) for mark, values in self.values[split].items() if score in values), None)

    def scores(self, split: str) -> dict[str, Score]:
        """Unpack the scores for the paired bootstrap."""
        return unpack_scores(self.statistics[split], Path(FILE))


def read_kept(experiment: Experiment) -> dict[str, KeptRun]:
    """Read the stored runs of an experiment by name; raise an error if settings differ from ``table.toml``."""
    path = experiment.folder / FILE
    lines = _read(path)
    runs = [run for run in experiment.runs() if run.name in lines]
    for run in runs:
        where, split = f"{path}, run '{run.name}'", experiment.report
        require_same(where, lines[run.name].asked, experiment.settings(run))
        require(split in lines[run.name].values, where, f"no scores on '{split}'. Delete the line to run it again.")
    return {run.name: lines[run.name] for run in runs}


def keep_run(experiment: Experiment, kept: KeptRun) -> None:
    """Append a run, unless another process has appended it; an incomplete last line is overwritten."""
    path = experiment.folder / FILE
    while (file := lock(path)) is None:
        time.sleep(0.1)
    with file:
        if kept.run not in _read(path):
            file.truncate(read_bytes(path, MAX_FILE).rfind(b"\n") + 1)
            file.write(encode_text(f"{compact_json(asdict(kept))}\n"))


def _read(path: Path) -> dict[str, KeptRun]:
    """Read all complete lines; an interrupted process may leave an incomplete last line."""
    found = {}
    *lines, _ = read_bytes(path, MAX_FILE).split(b"\n") if path.exists() else [b""]
    for number, line in enumerate(lines, start=1):
        try:
            kept = KeptRun(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise BadFile(path, f"invalid run ({error})", number) from None
        found[kept.run] = kept
    return found


def require_same(where: str | Path, before: Json, now: Json) -> None:
    """Raise an error if a result has other settings. Fields missing in the old result must be empty now."""
    absent = {name: value for name, value in now.items() if name not in before and not value}
    changed = differences(_current({**absent, **before}), now)
    advice = "Give the row a new name, or delete the old result to run it again."
    require(not changed, where, f"stored result with other settings: {', '.join(changed)}. {advice}")


def _current(settings: Json) -> Json:
    """Convert stored settings to their current names; new fields of a recipe get their defaults."""
    recipe = None if settings["recipe"] is None else read_recipe({"paper": "", **settings["recipe"]}).settings()
    given = {renamed.ROLES.get(role, role): run for role, run in settings["given"].items()}
    return {**settings, "recipe": recipe, "given": given}
