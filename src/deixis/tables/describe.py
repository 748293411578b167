"""What a comparison is: ``table.toml`` as values, every name and option in it checked before anything is trained."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from deixis.errors import DeixisError
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.metrics.evaluate import group_of
from deixis.runs import renamed
from deixis.runs.options import changed_recipe
from deixis.runs.recipes import find_recipe
from deixis.training.recipe import Recipe
from deixis.types import HeatPlace, Json, Place

FILE = "table.toml"
ROLES = ("init-from", "teacher", "reward-model")  # models of other rows that a recipe starts from or learns with
Without = Literal["whole-image", "best-proposal"]
Better = Literal["more", "less", ""]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")


@dataclass(frozen=True)
class Column:
    """A score of the evaluators, and how it is written."""

    score: str
    title: str
    scale: float = 100.0
    digits: int = 1
    better: Better = "more"  # empty: neither, so that none is the best


@dataclass(frozen=True)
class Row:
    """A way to a model, or to answers without one. Exactly one of ``recipe``, ``source`` and ``without`` is there."""

    name: str
    title: str
    recipe: Recipe | None = None
    source: str = ""  # the row whose model is only evaluated in another way
    finder: str = ""  # the row whose model gives the nouns of the source's captions their boxes
    without: Without | None = None  # no learning: the whole image for every phrase, or the best box there is
    features: str = "default"  # the name of a feature store
    seeds: tuple[int, ...] = ()  # none: without learning
    place: Place | HeatPlace | None = None  # how the box of a word or phrase is chosen; None: as the model has it
    given: tuple[tuple[str, str], ...] = ()  # role (see ROLES) and row
    minutes: float = 0.0  # core-minutes that one seed is expected to take

    @property
    def needs(self) -> tuple[str, ...]:
        """The rows whose models have to be there first."""
        return tuple(dict.fromkeys(filter(None, [self.source, self.finder, *(row for _, row in self.given)])))


@dataclass(frozen=True)
class Table:
    """Rows and columns that are shown together."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    baseline: str
    text: str = "README.md"  # the page that the table stands in, from the folder of table.toml
    chart: tuple[str, ...] = ()  # the scores that are drawn


@dataclass(frozen=True)
class Run:
    """A row with one seed; rows without learning have none."""

    row: Row
    seed: int | None

    @property
    def name(self) -> str:
        """For folders and people."""
        return self.row.name if self.seed is None else f"{self.row.name}-{self.seed}"

    @property
    def recipe(self) -> Recipe | None:
        """The row's, with the seed."""
        return None if self.row.recipe is None or self.seed is None else replace(self.row.recipe, seed=self.seed)


@dataclass(frozen=True)
class Experiment:
    """A folder with its ``table.toml``."""

    folder: Path
    rows: Mapping[str, Row]
    tables: tuple[Table, ...]
    train: str = "train"
    choose: str = "val"  # the split that checkpoints, and people, choose on
    report: str = "test"
    budget: float = 0.0  # core-minutes for everything; 0: not said

    def runs(self, rows: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Run]:
        """Rows with their seeds (all if none are named), what others need first, one seed after the other."""
        for name in rows:
            if name not in self.rows:
                raise DeixisError(f"{self.folder / FILE} has no row '{name}'; it has {', '.join(self.rows)}.")
        chosen = [self.rows[name] for name in self._ordered(rows or self.rows)]
        numbers = sorted({seed for row in chosen for seed in row.seeds})
        wanted = [seed for seed in numbers if not seeds or seed in seeds]
        if chosen and numbers and not wanted:
            raise DeixisError(f"no row has a seed among {', '.join(map(str, seeds))}; there are {numbers}.")
        alone = [Run(row, None) for row in chosen if not row.seeds]
        return [*alone, *(Run(row, seed) for seed in wanted for row in chosen if seed in row.seeds)]

    def needed(self, run: Run) -> list[Run]:
        """The runs whose models this one begins from, learns from or looks at."""
        return [self.model_for(run, name) for name in run.row.needs]

    def model_for(self, run: Run, name: str) -> Run:
        """The run of another row whose model this one takes: that of the same seed, or the only one there is."""
        row = self.rows[name]
        return Run(row, row.seeds[0] if len(row.seeds) == 1 else run.seed)

    def asked(self, run: Run) -> Json:
        """All that decides on a run's result besides data and code; what is kept with it, and compared with it later.

        Other rows are named with their seeds: a model that began from another seed's is another model.
        """
        row = run.row
        recipe = None if run.recipe is None else described(run.recipe)
        finder = self.model_for(run, row.finder).name if row.finder else ""
        given = {role: self.model_for(run, other).name for role, other in row.given}
        about = {"recipe": recipe, "from": row.source, "finder": finder, "without": row.without}
        return {**about, "features": row.features, "place": row.place, "given": given, "seed": run.seed}

    def columns(self) -> set[str]:
        """The scores of all tables."""
        return {column.score for table in self.tables for column in table.columns}

    def minutes(self, runs: Sequence[Run]) -> float:
        """What they are expected to take."""
        return sum(run.row.minutes for run in runs)

    def _ordered(self, names: Sequence[str] | Mapping[str, Row]) -> list[str]:
        """The rows and all they need, what is needed first."""
        done: dict[str, None] = {}
        under_way: list[str] = []

        def visit(name: str) -> None:
            if name in under_way:
                raise DeixisError(f"{self.folder / FILE}: {' needs '.join([*under_way, name])}: that has no beginning.")
            if name not in done:
                under_way.append(name)
                for other in self.rows[name].needs:
                    visit(other)
                under_way.pop()
                done[name] = None

        for name in names:
            visit(name)
        return list(done)


def described(recipe: Recipe) -> Json:
    """The fields of a recipe that decide on its result, as JSON; ``paper`` is a text about it."""
    fields: Json = json.loads(json.dumps(recipe.to_json()))
    del fields["paper"]
    return fields


def read_experiment(folder: Path) -> Experiment:
    """The experiment that a folder's ``table.toml`` describes."""
    path = folder / FILE
    try:
        described = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DeixisError(f"{path} does not exist; name a folder with a description of its tables.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DeixisError(f"{path} cannot be read ({error}); mend it.") from None
    top = _Record(path, "the file", described)
    rows: dict[str, Row] = {}
    for name, fields in top.take("rows", dict).items():
        rows[name] = _row(_Record(path, f"the row '{name}'", fields), name)
    rows = {name: _with_seeds(path, row, rows) for name, row in rows.items()}
    tables = tuple(_table(_Record(path, "a table", fields), rows) for fields in top.take("tables", list))
    experiment = Experiment(
        folder,
        rows,
        tables,
        train=top.take("train", str, "train"),
        choose=top.take("choose", str, "val"),
        report=top.take("report", str, "test"),
        budget=float(top.take("budget", int, 0)),
    )
    top.finish()
    names = [run.name for run in experiment.runs()]  # circles are found here
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DeixisError(f"{path}: two runs would be called '{twice[0]}'; give one of the rows another name.")
    return experiment


def changed(recipe: Recipe, options: str, where: str) -> Recipe:
    """The recipe with options written as for 'deixis train'."""
    try:
        return changed_recipe(recipe, shlex.split(options))
    except DeixisError as error:
        raise DeixisError(f"{where}: {error}") from None
    except (SystemExit, ValueError) as error:
        reason = f" ({error})" if isinstance(error, ValueError) else ""
        raise DeixisError(
            f"{where}: '{options}' are no options of the recipe {recipe.name}{reason}; "
            f"'deixis train {recipe.name} --help' shows them."
        ) from None


class _Record:
    """A table of the file, from which every field is taken by its name and type; what is left over is a mistake."""

    def __init__(self, path: Path, what: str, fields: Any) -> None:
        self.where = f"{path}, {what}"
        if not isinstance(fields, dict):
            raise DeixisError(f"{self.where}: fields with values belong there.")
        self.fields = dict(fields)

    def take(self, name: str, kind: type, default: Any = None) -> Any:
        if name not in self.fields:
            if default is None:
                raise DeixisError(f"{self.where} has no '{name}'; add it.")
            return default
        value = self.fields.pop(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise DeixisError(f"{self.where}: '{name}' is {value!r}, and should be a {kind.__name__}.")
        return value

    def number(self, name: str, default: float) -> float:
        value = self.fields.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DeixisError(f"{self.where}: '{name}' is {value!r}, and should be a number.")
        return float(value)

    def some(self, name: str, kind: type) -> tuple[Any, ...]:
        values = self.take(name, list, [])
        if any(not isinstance(value, kind) or isinstance(value, bool) for value in values):
            raise DeixisError(f"{self.where}: '{name}' is {values!r}, and should be a list of {kind.__name__}.")
        return tuple(values)

    def choice(self, name: str, of: Any, default: str = "") -> Any:
        value = self.take(name, str, default)
        if value and value not in get_args(of):
            raise DeixisError(f"{self.where}: '{name}' is {value!r}; there is {', '.join(filter(None, get_args(of)))}.")
        return value

    def finish(self) -> None:
        if self.fields:
            raise DeixisError(f"{self.where}: nobody knows what '{next(iter(self.fields))}' means; take it out.")


def _row(record: _Record, name: str) -> Row:
    if not _NAME.fullmatch(name):
        raise DeixisError(f"{record.where}: folders bear this name; letters, digits and + . _ - may be in it.")
    recipe_name, options = record.take("recipe", str, ""), record.take("options", str, "")
    recipe = None
    if recipe_name:
        try:
            recipe = find_recipe(recipe_name)
        except DeixisError as error:
            raise DeixisError(f"{record.where}: {error}") from None
        if options:
            recipe = changed(recipe, options, record.where)
    for old, new in renamed.ROLES.items():
        if old in record.fields:
            raise DeixisError(f"{record.where}: '{old}' is now '{new}'. Use the new name.")
    row = Row(
        name,
        title=record.take("title", str, name),
        recipe=recipe,
        source=record.take("from", str, ""),
        finder=record.take("finder", str, ""),
        without=record.choice("without", Without) or None,
        features=record.take("features", str, "default"),
        seeds=record.some("seeds", int),
        place=record.choice("place", Literal[Place, HeatPlace]) or None,
        given=tuple((role, other) for role in ROLES if (other := record.take(role, str, ""))),
        minutes=record.number("minutes", 0.0),
    )
    record.finish()
    if sum([row.recipe is not None, bool(row.source), row.without is not None]) != 1:
        raise DeixisError(f"{record.where} needs exactly one of 'recipe', 'from' and 'without'.")
    if row.recipe is None and (options or row.given):
        raise DeixisError(f"{record.where} trains nothing; only a row with a recipe has options or is given models.")
    if row.finder and not row.source:
        raise DeixisError(f"{record.where} has a 'finder'; say with 'from' whose captions it is to ground.")
    if row.without and (row.seeds or row.place):
        raise DeixisError(f"{record.where} learns nothing, so it has neither seeds nor a place.")
    return row


def _with_seeds(path: Path, row: Row, rows: Mapping[str, Row]) -> Row:
    """The row with the seeds that it has if it names none, and checked against the rows that it needs."""
    for other in row.needs:
        if other not in rows:
            raise DeixisError(f"{path}, the row '{row.name}' needs the row '{other}', which is not there.")
        if rows[other].recipe is None:
            raise DeixisError(f"{path}, the row '{row.name}' needs a model of '{other}', which trains none.")
        if rows[other].features != row.features and not row.source:
            raise DeixisError(f"{path}, the rows '{row.name}' and '{other}' see different features.")
    if row.without:
        return row
    if row.source:  # it sees what the model was trained on
        source = rows[row.source]
        if row.finder:
            _check_finder(path, row, source, rows[row.finder])
        row = replace(row, seeds=row.seeds or source.seeds or (0,), features=source.features)
    row = replace(row, seeds=row.seeds or (0,))
    for other in row.needs:
        theirs = rows[other].seeds or (0,)
        missing = sorted(set(row.seeds) - set(theirs))
        if missing and (len(theirs) > 1 or other == row.source):
            raise DeixisError(f"{path}, the row '{row.name}' needs '{other}' with the seed {missing[0]}; add it there.")
    return row


def _check_finder(path: Path, row: Row, source: Row, finder: Row) -> None:
    where = f"{path}, the row '{row.name}'"
    if not isinstance(source.recipe, UpDownRecipe):
        raise DeixisError(f"{where} has a 'finder', and '{source.name}' writes no captions that it could ground.")
    if isinstance(finder.recipe, UpDownRecipe):
        raise DeixisError(f"{where}: '{finder.name}' writes captions; a 'finder' is a row whose model finds phrases.")
    if finder.features != source.features:
        raise DeixisError(f"{where}: '{source.name}' and its finder '{finder.name}' see different features.")


def _table(record: _Record, rows: Mapping[str, Row]) -> Table:
    columns = tuple(_columns(record))
    table = Table(
        name=record.take("name", str),
        title=record.take("title", str),
        rows=record.some("rows", str),
        columns=columns,
        baseline=record.take("baseline", str),
        text=record.take("text", str, "README.md"),
        chart=record.some("chart", str) or tuple(column.score for column in columns),
    )
    record.finish()
    where = f"{record.where} '{table.name}'"
    if not _NAME.fullmatch(table.name):
        raise DeixisError(f"{where}: a file bears this name; letters, digits and + . _ - may be in it.")
    for name in (*table.rows, table.baseline):
        if name not in rows:
            raise DeixisError(f"{where} shows the row '{name}', which is not described.")
    if table.baseline not in table.rows:
        raise DeixisError(f"{where} compares with '{table.baseline}', which is not among its rows.")
    for name in table.chart:
        if name not in {column.score for column in columns}:
            raise DeixisError(f"{where} draws '{name}', which is not among its columns.")
    return table


def _columns(record: _Record) -> Iterator[Column]:
    for fields in record.take("columns", list):
        one = _Record(Path(record.where), "a column", fields)
        score = one.take("score", str)
        group_of(score)  # refuses what no evaluator gives
        yield Column(
            score,
            title=one.take("title", str, score),
            scale=one.number("scale", 100.0),
            digits=one.take("digits", int, 1),
            better=one.choice("better", Better) if "better" in one.fields else "more",
        )
        one.finish()
