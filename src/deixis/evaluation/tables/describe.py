"""Description of a comparison: ``table.toml`` as frozen dataclasses, checked before any training starts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, Literal

from deixis.errors import DeixisError
from deixis.evaluation.controls import Control
from deixis.files import read_text
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.metrics.evaluate import group_of
from deixis.runs.options import with_options
from deixis.runs.recipes import find_recipe
from deixis.show.comparison import Column
from deixis.toml import from_toml, located, require, value_of
from deixis.training import renamed
from deixis.training.recipe import Recipe
from deixis.types import HeatPlace, Json, Place

FILE = "table.toml"
ROLES = ("init_from", "teacher", "reward_model")  # fields of a row: names of the rows with the models for its training
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")
INVALID_NAME = "invalid name. Use letters, digits, '+', '.', '_' or '-'."


@dataclass(frozen=True)
class Table:
    """One table: rows and columns."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    baseline: str
    supervised: str = ""  # the row of the upper bound: adds the share of the gap from the baseline to it
    text: str = "README.md"  # the page with the table, relative to the folder of table.toml
    chart: tuple[str, ...] = ()  # the scores in the chart; empty: all


@dataclass(frozen=True)
class Row:
    """A model, or a control without one. Exactly one of ``recipe``, ``source`` and ``control`` is given."""

    name: str
    title: str
    recipe: Recipe | None = None  # train a model
    source: str = ""  # evaluate the model of this row in another way
    control: Control | None = None  # no model
    grounder: str = ""  # the row whose model grounds the captions of the source
    place: Literal[Place, HeatPlace] | None = None  # how a box is chosen; None: as the model does
    features: str = "default"  # the name of a feature store
    seeds: tuple[int, ...] = ()  # empty only for a control
    init_from: str = ""  # this and the next two: see ROLES
    teacher: str = ""
    reward_model: str = ""
    minutes: float = 0.0  # expected core-minutes of one seed

    @property
    def given(self) -> dict[str, str]:
        """Role -> row, for the models used in training."""
        return {role: row for role in ROLES if (row := getattr(self, role))}

    @property
    def needs(self) -> list[str]:
        """The rows whose models must be trained first."""
        return [name for name in (self.source, self.grounder, *self.given.values()) if name]

    @property
    def runs(self) -> list[Run]:
        return [Run(self, seed) for seed in self.seeds or (None,)]


@dataclass(frozen=True)
class Run:
    """A row with one seed; a control has no seed."""

    row: Row
    seed: int | None

    @property
    def name(self) -> str:
        return self.row.name if self.seed is None else f"{self.row.name}-{self.seed}"

    @property
    def recipe(self) -> Recipe | None:
        return None if self.row.recipe is None or self.seed is None else replace(self.row.recipe, seed=self.seed)


@dataclass(frozen=True)
class Experiment:
    """A folder with its ``table.toml``."""

    folder: Path
    rows: Mapping[str, Row]  # each after the rows that it needs
    tables: tuple[Table, ...]
    train: str = "train"
    choose: str = "val"  # the split for choosing checkpoints and settings
    report: str = "test"
    budget: float = 0.0  # core-minutes for all runs; 0: no budget

    def runs(self, rows: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Run]:
        """List runs of these rows and seeds (empty: all) and of the rows that they need, needed ones first."""
        known = sorted({seed for row in self.rows.values() for seed in row.seeds})
        for name in rows:
            require(name in self.rows, self.folder / FILE, f"no row '{name}'. Use one of {', '.join(self.rows)}.")
        for seed in seeds:
            require(seed in known, self.folder / FILE, f"no row has the seed {seed}. Use one of {known}.")
        wanted = set(rows or self.rows)
        for name in reversed(list(self.rows)):  # a row comes before the rows that it needs
            wanted |= set(self.rows[name].needs) if name in wanted else set()
        found = [run for name in self.rows if name in wanted for run in self.rows[name].runs]
        found = [run for run in found if run.seed is None or not seeds or run.seed in seeds]
        return sorted(found, key=lambda run: -1 if run.seed is None else run.seed)

    def needed(self, run: Run) -> list[Run]:
        """List the runs whose models a run uses."""
        return [self.model_for(run, name) for name in run.row.needs]

    def model_for(self, run: Run, name: str) -> Run:
        """Select the run of another row whose model is used: the same seed, or its only seed."""
        row = self.rows[name]
        return Run(row, row.seeds[0] if len(row.seeds) == 1 else run.seed)

    def settings(self, run: Run) -> Json:
        """Return all settings of a run, which are stored with its result and compared with later settings.

        Other rows have their seed in the name, because the result depends on it.
        """
        row = run.row
        return {
            "recipe": None if run.recipe is None else run.recipe.settings(),
            **{name: getattr(row, name) for name in ("source", "control", "place", "features")},
            "grounder": self.model_for(run, row.grounder).name if row.grounder else "",
            "given": {role: self.model_for(run, other).name for role, other in row.given.items()},
            "seed": run.seed,
        }


def read_experiment(folder: Path) -> Experiment:
    """Read and check the ``table.toml`` of a folder."""
    path = folder / FILE
    try:
        toml = tomllib.loads(read_text(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DeixisError(f"{path} cannot be read ({error}). Correct it, or name a folder with a {FILE}.") from None
    described = value_of(toml.pop("rows", None), dict, f"{path}: field 'rows'")
    read = {name: _row(name, values, f"{path}: row '{name}'") for name, values in described.items()}
    rows = {name: _with_seeds(row, read, f"{path}: row '{name}'") for name, row in read.items()}
    try:
        rows = {name: rows[name] for name in TopologicalSorter({n: r.needs for n, r in rows.items()}).static_order()}
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise DeixisError(f"{path}: circular dependency: {circle}. Remove one of them.") from None
    listed = enumerate(value_of(toml.pop("tables", None), list, f"{path}: field 'tables'"), start=1)
    tables = tuple(_table(values, rows, f"{path}: table {number}") for number, values in listed)
    names = [run.name for row in rows.values() for run in row.runs]
    for name in names:
        require(names.count(name) == 1, path, f"two runs are named '{name}'. Rename one of the rows.")
    return from_toml(Experiment, toml, str(path), folder=folder, rows=rows, tables=tables)


def _row(name: str, values: Any, where: str) -> Row:
    """Read a row and check its fields, without the other rows."""
    table = {"title": name, "recipe": "", "options": "", **value_of(values, dict, where)}
    for old, new in renamed.ROLES.items():
        require(old not in table, where, f"'{old}' is now '{new}'. Use the new name.")
    recipe_name, options = (value_of(table.pop(key), str, f"{where}: field '{key}'") for key in ("recipe", "options"))
    with located(where):
        recipe = with_options(find_recipe(recipe_name), options) if recipe_name else None
    row = from_toml(Row, table, where, name=name, recipe=recipe)
    require(NAME.fullmatch(name), where, INVALID_NAME)
    require(row.source or not row.grounder, where, "a row with 'grounder' needs 'source', the row of a captioner.")
    kinds = [row.recipe is not None, bool(row.source), row.control is not None]
    require(sum(kinds) == 1, where, "give exactly one of 'recipe', 'source' and 'control'.")
    takes = f"only a row with 'recipe' takes 'options', {', '.join(map(repr, ROLES))}. Remove these fields."
    require(recipe or not (options or row.given), where, takes)
    takes = "a row without training takes no 'seeds' and no 'place'. Remove these fields."
    require(not row.control or not (row.seeds or row.place), where, takes)
    return row


def _with_seeds(row: Row, rows: Mapping[str, Row], where: str) -> Row:
    """Check a row against the rows that it needs; take features and seeds from its source."""
    for name in row.needs:
        require(name in rows, where, f"it needs the row '{name}', which does not exist. Correct the name.")
        require(rows[name].recipe, where, f"it needs a model of '{name}', which is not trained. Name another row.")
    if row.control:
        return row
    if row.source:
        row = replace(row, features=rows[row.source].features, seeds=row.seeds or rows[row.source].seeds)
    if row.grounder:
        writes = {name: isinstance(rows[name].recipe, UpDownRecipe) for name in row.needs}
        require(writes[row.source], where, f"'{row.source}' is not a captioner. Name a captioner as 'source'.")
        require(not writes[row.grounder], where, f"'{row.grounder}' is a captioner. Name a grounder as 'grounder'.")
    row = replace(row, seeds=row.seeds or (0,))
    for name in row.needs:
        seeds = rows[name].seeds or (0,)
        missing = [seed for seed in row.seeds if seed not in seeds and (len(seeds) > 1 or name == row.source)]
        require(rows[name].features == row.features, where, f"it has other 'features' than '{name}'. Use the same.")
        require(not missing, where, f"it needs '{name}' with the seeds {missing}. Add them there.")
    return row


def _table(values: Any, rows: Mapping[str, Row], where: str) -> Table:
    """Read a table and check its names."""
    table = from_toml(Table, values, where)
    where = f"{where} '{table.name}'"
    scores = [column.score for column in table.columns]
    require(NAME.fullmatch(table.name), where, INVALID_NAME)
    for name in table.rows:
        require(name in rows, where, f"no row '{name}' is described. Correct the name.")
    require(table.baseline in table.rows, where, f"the baseline '{table.baseline}' is not among its rows. Add it.")
    require(table.supervised in ("", *table.rows), where, f"'{table.supervised}' is not among its rows. Add it.")
    for score in scores:
        with located(where):
            group_of(score)  # raises an error for unknown scores
    for score in table.chart:
        require(score in scores, where, f"the chart shows '{score}', which is not among its columns. Add it.")
    return replace(table, chart=table.chart or tuple(scores))
