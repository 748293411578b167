"""What the kept runs of a comparison say: numbers, a table in Markdown, a chart."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deixis.data.reading import read_json
from deixis.metrics.bootstrap import Comparison, paired_bootstrap
from deixis.metrics.score import Score, load_scores, signature
from deixis.show.draw import PALETTE
from deixis.tables.describe import Column, Experiment, Row, Run, Table
from deixis.tables.page import between_marks, cell, markdown
from deixis.tables.runs import is_kept, kept_folder
from deixis.training.supervision import PAIRS, with_proposals
from deixis.types import Json

LEVEL = 0.05
"""A difference from the baseline with a smaller p-value gets a star."""
RESAMPLES = 10_000
NONE = "–"

BLUE, AMBER, *_ = PALETTE
INK, FAINT = "#222222", "#999999"


@dataclass(frozen=True)
class Kept:
    """What a run left."""

    scores: Mapping[str, Score]  # with statistics of images
    others: Mapping[str, tuple[float, str]]  # value and signature
    about: Json

    def value(self, name: str) -> tuple[float, str] | None:
        """A score and its signature."""
        score = self.scores.get(name)
        return (score.value, score.signature) if score is not None else self.others.get(name)


@dataclass(frozen=True)
class Entry:
    """One score of one row."""

    values: tuple[float, ...]  # of each seed
    signature: str
    against: Comparison | None = None  # the baseline (A) and this row (B), where they can be compared

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def std(self) -> float | None:
        """Of a sample; None for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Line:
    """One row of a table, over its seeds."""

    row: Row
    seeds: tuple[int, ...]
    supervision: str
    extractor: str
    minutes: float  # core-minutes of training, a seed
    minutes_in_all: float  # with the models that it begins from, learns from or looks at
    entries: Mapping[str, Entry]


def read_kept(experiment: Experiment) -> dict[str, Kept]:
    """The results that are there, by the name of their run."""
    found = {}
    for run in experiment.runs():
        if is_kept(experiment, run):
            folder = kept_folder(experiment, run)
            scores, meta = load_scores(folder / f"scores-{experiment.report}.json.gz")
            others = {name: (float(value), str(mark)) for name, (value, mark) in meta["others"].items()}
            found[run.name] = Kept(scores, others, read_json(folder / "run.json"))
    return found


def summarise(experiment: Experiment, table: Table, kept: Mapping[str, Kept], resamples: int = RESAMPLES) -> list[Line]:
    """The rows of a table that have results; each compared with the baseline, if that has any."""
    first = _kept_of(experiment.rows[table.baseline], kept)
    lines = []
    for name in table.rows:
        row = experiment.rows[name]
        own = _kept_of(row, kept)
        if own:
            lines.append(_line(experiment, table, row, own, kept))
            if first and name != table.baseline:
                lines[-1] = _compared(lines[-1], list(first.values()), list(own.values()), resamples)
    return lines


def _kept_of(row: Row, kept: Mapping[str, Kept]) -> dict[int | None, Kept]:
    runs = [Run(row, seed) for seed in row.seeds or (None,)]
    return {run.seed: kept[run.name] for run in runs if run.name in kept}


def _line(
    experiment: Experiment, table: Table, row: Row, own: Mapping[int | None, Kept], kept: Mapping[str, Kept]
) -> Line:
    entries = {}
    for column in table.columns:
        values = [found for one in own.values() if (found := one.value(column.score)) is not None]
        if values and len(values) == len(own):
            marks = sorted({mark for _, mark in values})
            entries[column.score] = Entry(tuple(value for value, _ in values), " and ".join(marks))
    some = next(iter(own.values())).about
    everything = [sum(_seconds(experiment, Run(row, seed), kept).values()) for seed in own]
    return Line(
        row,
        seeds=tuple(seed for seed in own if seed is not None),
        supervision=supervision(some),
        extractor=str(some["extractor"]),
        minutes=statistics.mean(one.about["training_seconds"] for one in own.values()) / 60,
        minutes_in_all=statistics.mean(everything) / 60,
        entries=entries,
    )


def _seconds(experiment: Experiment, run: Run, kept: Mapping[str, Kept]) -> dict[str, float]:
    """Training time of a run and of all that it needs, each once."""
    found = {run.name: float(kept[run.name].about["training_seconds"])} if run.name in kept else {}
    for other in experiment.needed(run):
        found |= _seconds(experiment, other, kept)
    return found


def supervision(about: Json) -> str:
    """What a run was shown besides pixels, in few words; boxes behind the proposals are named too."""
    shown = str(about["supervision"])
    shown = "captions" if shown == PAIRS else shown.replace("photographs with captions", "captions")
    return with_proposals(shown, str(about["proposals"]))


def _compared(line: Line, first: Sequence[Kept], own: Sequence[Kept], resamples: int) -> Line:
    """The line with the paired bootstrap against the baseline, for scores that were measured in the same way."""
    alike = [name for name in line.entries if _alike(name, [*first, *own])]
    a, b = ([{name: one.scores[name] for name in alike} for one in several] for several in (first, own))
    found = {each.name: each for each in paired_bootstrap(a, b, resamples)} if alike else {}
    entries = {name: replace(entry, against=found.get(name)) for name, entry in line.entries.items()}
    return replace(line, entries=entries)


def _alike(name: str, several: Sequence[Kept]) -> bool:
    scores = [one.scores.get(name) for one in several]
    return all(score is not None for score in scores) and len({score.signature for score in scores if score}) == 1


# Markdown -----------------------------------------------------------------------------------------------------------


def to_markdown(experiment: Experiment, table: Table, lines: Sequence[Line], resamples: int = RESAMPLES) -> str:
    """The table, what its signs mean, the differences from the baseline, and the protocol of every column."""
    if not lines:
        return "No run of this table is done yet."
    columns = [column for column in table.columns if any(column.score in line.entries for line in lines)]
    best = {column.score: _best(column, lines) for column in columns}
    rows = [
        [
            line.row.title,
            line.supervision,
            ", ".join(map(str, line.seeds)) or NONE,
            *(_shown(column, line, best[column.score]) for column in columns),
            f"{line.minutes_in_all:.0f}" if line.row.without is None else NONE,
        ]
        for line in lines
    ]
    head = ["", "supervision", "seeds", *(column.title for column in columns), "core-minutes"]
    parts = [f"**{table.title}** (split {experiment.report})", markdown(head, rows), _legend(table, lines)]
    if compared := [line for line in lines if any(entry.against for entry in line.entries.values())]:
        parts.append(_differences(table, columns, compared, resamples))
    chart = os.path.relpath(experiment.folder / f"{table.name}.png", (experiment.folder / table.text).parent)
    parts += [f"![{table.title}]({Path(chart).as_posix()})", _protocols(columns, lines)]
    return "\n\n".join(parts)


def _best(column: Column, lines: Sequence[Line]) -> float | None:
    """The best mean of the rows that learnt, as it is written; none where there is nothing to choose from."""
    learnt = [line.entries[column.score] for line in lines if line.row.without is None and column.score in line.entries]
    if not column.better or len(learnt) < 2:
        return None
    return (max if column.better == "more" else min)(_written(column, entry) for entry in learnt)


def _written(column: Column, entry: Entry) -> float:
    return round(column.scale * entry.mean, column.digits)


def _shown(column: Column, line: Line, best: float | None) -> str:
    entry = line.entries.get(column.score)
    if entry is None:
        return NONE
    text = cell([column.scale * value for value in entry.values], column.digits)
    text = f"**{text}**" if line.row.without is None and _written(column, entry) == best else text
    return f"{text} \\*" if entry.against is not None and entry.against.p < LEVEL else text


def _legend(table: Table, lines: Sequence[Line]) -> str:
    words = ["Mean ± standard deviation over the seeds; bold: the best mean of the rows that learnt."]
    starred = [e for line in lines for e in line.entries.values() if e.against is not None]
    if starred:
        luck = LEVEL * len(starred)
        words.append(
            f"\\*: different from `{table.baseline}`, p < {LEVEL:g}; among {len(starred)} comparisons of equals "
            f"{luck:.1f} stars would be luck."
        )
    words.append("Core-minutes: training of one seed, with the models that it begins from or learns from.")
    return " ".join(words)


def _differences(table: Table, columns: Sequence[Column], lines: Sequence[Line], resamples: int) -> str:
    rows = []
    for line in lines:
        cells = []
        for column in columns:
            against = line.entries[column.score].against if column.score in line.entries else None
            if against is None:
                cells.append(NONE)
            else:
                low, high = (f"{column.scale * end:+.{column.digits}f}" for end in against.difference_interval)
                difference = f"{column.scale * against.difference:+.{column.digits}f}"
                cells.append(f"{difference} ({low} to {high}), p {against.p:.4f}")
        rows.append([line.row.title, *cells])
    shown = markdown(["", *(column.title for column in columns)], rows)
    how = signature(bootstrap="paired", drawn="images", resamples=resamples, value="mean over seeds", seed=0)
    return (
        f"<details><summary>differences from {table.baseline}, with 95 % intervals</summary>\n\n{shown}\n\n`{how}`: "
        "images are drawn with replacement, the same for both rows, and each row's value is the mean over its seeds; "
        "the luck of the seeds shows in the standard deviations.\n\n</details>"
    )


def _protocols(columns: Sequence[Column], lines: Sequence[Line]) -> str:
    """Each signature once, with the columns that were measured so."""
    titles: dict[str, dict[str, None]] = {}
    for column in columns:
        for line in lines:
            if column.score in line.entries:
                titles.setdefault(line.entries[column.score].signature, {})[column.title] = None
    seen = dict.fromkeys(line.extractor for line in lines)
    marks = [f"{', '.join(names)}: `{mark}`  " for mark, names in titles.items()]
    return "\n".join([*marks, f"Regions: {', '.join(f'`{name}`' for name in seen)}"])


# JSON ---------------------------------------------------------------------------------------------------------------


def to_json(experiment: Experiment, table: Table, lines: Sequence[Line]) -> Json:
    """The same numbers, unscaled."""

    def entry_json(entry: Entry) -> Json:
        found: Json = {
            "mean": entry.mean,
            "std": entry.std,
            "values": list(entry.values),
            "signature": entry.signature,
        }
        if entry.against is not None:
            kept = ("items", "difference", "difference_interval", "p")
            found["against_baseline"] = {name: asdict(entry.against)[name] for name in kept}
        return found

    rows = [
        {
            "row": line.row.name,
            "title": line.row.title,
            "supervision": line.supervision,
            "extractor": line.extractor,
            "seeds": list(line.seeds),
            "core_minutes": line.minutes,
            "core_minutes_in_all": line.minutes_in_all,
            "scores": {name: entry_json(entry) for name, entry in line.entries.items()},
        }
        for line in lines
    ]
    return {
        "table": table.name,
        "title": table.title,
        "split": experiment.report,
        "baseline": table.baseline,
        "rows": rows,
    }


# Chart --------------------------------------------------------------------------------------------------------------


def draw_chart(table: Table, lines: Sequence[Line], path: Path) -> None:
    """A panel for each drawn column: mean and standard deviation of each row, seeds as dots, the baseline as a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = [c for c in table.columns if c.score in table.chart and any(c.score in line.entries for line in lines)]
    style: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "text.color": INK, "font.size": 9}
    style |= dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with pyplot.rc_context(style):
        size = (2.6 + 2.3 * len(columns), 1.1 + 0.27 * len(lines))
        figure, grid = pyplot.subplots(1, len(columns), figsize=size, sharey=True, squeeze=False, layout="constrained")
        places = range(len(lines))
        for axes, column in zip(grid[0], columns, strict=True):
            axes.margins(x=0.12)
            for place, line in zip(places, lines, strict=True):
                if (entry := line.entries.get(column.score)) is not None:
                    _draw_entry(axes, place, line.row, entry, column.scale)
                    if line.row.name == table.baseline:
                        axes.axvline(column.scale * entry.mean, color=FAINT, linestyle=":", linewidth=1, zorder=0)
            axes.set_title(column.title, fontsize=10, weight="bold")
            axes.set_xlim(0, max(axes.get_xlim()[1], 1.06 * axes.dataLim.x1))  # no mark is cut at the right edge
            axes.grid(axis="y", color="#eeeeee", zorder=0)
            axes.tick_params(axis="y", length=0)
        grid[0][0].set_yticks(list(places), [line.row.title for line in lines])
        grid[0][0].set_ylim(len(lines) - 0.5, -0.5)
        figure.suptitle(table.title, x=0.01, ha="left", weight="bold")
        legend = "small dots: seeds; bars: ± one standard deviation; dotted line: the baseline; circles: as trained"
        if any(line.row.source for line in lines):
            legend += ", squares: evaluated in another way"
        if any(line.row.without for line in lines):
            legend += ", diamonds: without learning"
        figure.supxlabel(legend, x=0.01, ha="left", fontsize=8)
        figure.savefig(path, dpi=140, metadata={"Software": None})
        pyplot.close(figure)


def _draw_entry(axes: Any, place: int, row: Row, entry: Entry, scale: float) -> None:
    # shape and colour say the same, for those who see no colours
    colour, marker = (FAINT, "D") if row.without else (AMBER, "s") if row.source else (BLUE, "o")
    spread = scale * (entry.std or 0.0)
    axes.errorbar(
        scale * entry.mean, place, xerr=spread or None, fmt=marker, color=colour, markersize=5.5, capsize=4, zorder=2
    )
    if len(entry.values) > 1:
        dots = [scale * value for value in entry.values]
        axes.plot(dots, [place + 0.3] * len(dots), ".", color=INK, markersize=3, zorder=3)


def write_report(experiment: Experiment, resamples: int = RESAMPLES) -> list[Json]:
    """All tables between their marks, their charts beside them; the numbers."""
    kept = read_kept(experiment)
    found = []
    for table in experiment.tables:
        lines = summarise(experiment, table, kept, resamples)
        page = to_markdown(experiment, table, lines, resamples)
        if lines:
            draw_chart(table, lines, experiment.folder / f"{table.name}.png")
        between_marks(experiment.folder / table.text, page, table.name)
        found.append(to_json(experiment, table, lines))
    return found
