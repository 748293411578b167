"""Report of a comparison from its kept runs: numbers, tables in pages, charts."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from deixis.evaluation.tables.describe import Experiment, Run, Table
from deixis.evaluation.tables.kept import KeptRun, read_kept
from deixis.metrics.bootstrap import Comparison, Scores, paired_bootstrap
from deixis.metrics.gap import gaps_between
from deixis.show.comparison import ComparisonTable, Entry, Line, draw_chart, to_markdown
from deixis.show.markdown import between_marks
from deixis.training.supervision import short_supervision
from deixis.types import Json

RESAMPLES = 10_000

Kept = Mapping[str, KeptRun]  # by name of the run
Compared = Mapping[str, Comparison]  # with the baseline, by name of the score


def write_report(experiment: Experiment, resamples: int = RESAMPLES) -> list[Json]:
    """Write all tables into their pages and all charts; return the numbers."""
    kept = read_kept(experiment)
    numbers = []
    for described in experiment.tables:
        table = summarise(experiment, described, kept, resamples)
        page, chart = experiment.folder / described.text, experiment.folder / f"{described.name}.png"
        if table.lines:
            draw_chart(table, described.chart, chart)
        between_marks(page, to_markdown(table, Path(os.path.relpath(chart, page.parent)).as_posix()), described.name)
        numbers.append({"table": described.name, **table.to_json()})
    return numbers


def summarise(experiment: Experiment, table: Table, kept: Kept, resamples: int = RESAMPLES) -> ComparisonTable:
    """Summarise the rows that have kept runs, each compared with the baseline."""
    names, split = [column.score for column in table.columns], experiment.report
    runs = {name: [run for run in experiment.rows[name].runs if run.name in kept] for name in table.rows}
    scores = {name: [kept[run.name].scores(split) for run in own] for name, own in runs.items()}
    lines = []
    for name, own in runs.items():
        if own:
            against = scores[table.baseline] if name != table.baseline else []
            lines.append(_line(experiment, table, own, kept, _compare(against, scores[name], names, resamples)))
    columns = [column for column in table.columns if any(column.score in line.scores for line in lines)]
    gaps = {name: gaps_between(scores, name, table.baseline, table.supervised, names, resamples) for name in runs}
    return ComparisonTable(table.title, split, table.baseline, resamples, columns, lines, table.supervised, gaps)


def _compare(baseline: Sequence[Scores], own: Sequence[Scores], names: Sequence[str], resamples: int) -> Compared:
    """Compare a row with the baseline by paired bootstrap, where all their seeds have the same signature."""
    several = [*baseline, *own]
    common = [name for name in names if all(name in scores for scores in several)]
    alike = [name for name in common if len({scores[name].signature for scores in several}) == 1]
    a, b = ([{name: scores[name] for name in alike} for scores in each] for each in (baseline, own))
    return {one.name: one for one in paired_bootstrap(a, b, resamples)} if alike and baseline else {}


def _line(experiment: Experiment, table: Table, runs: Sequence[Run], kept: Kept, compared: Compared) -> Line:
    row, own, entries = runs[0].row, [kept[run.name] for run in runs], dict[str, Entry]()
    for name in [column.score for column in table.columns]:
        if len(found := [value for one in own if (value := one.value(experiment.report, name))]) == len(own):
            marks = sorted({mark for _, mark in found})
            entries[name] = Entry([value for value, _ in found], " and ".join(marks), compared.get(name))
    return Line(
        row=row.name,
        title=row.title,
        kind="control" if row.control else "reevaluated" if row.source else "trained",
        supervision=short_supervision(own[0].supervision, own[0].proposals),
        extractor=own[0].extractor,
        seeds=[run.seed for run in runs if run.seed is not None],
        core_minutes=statistics.mean(one.training_seconds for one in own) / 60,
        core_minutes_in_all=statistics.mean(sum(_seconds(experiment, run, kept).values()) for run in runs) / 60,
        scores=entries,
    )


def _seconds(experiment: Experiment, run: Run, kept: Kept) -> dict[str, float]:
    """Collect the training time of a run and of each run that it needs."""
    found = {run.name: kept[run.name].training_seconds} if run.name in kept else {}
    for other in experiment.needed(run):
        found |= _seconds(experiment, other, kept)
    return found
