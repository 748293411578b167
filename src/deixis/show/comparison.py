"""Comparison of methods: a table of scores as Markdown, JSON and chart."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from deixis.metrics.bootstrap import Comparison
from deixis.metrics.gap import Gaps
from deixis.metrics.score import signature
from deixis.show.draw import PALETTE
from deixis.show.markdown import cell, markdown
from deixis.show.score_table import LEVEL
from deixis.types import Json

NONE = "–"
BLUE, AMBER, *_ = PALETTE
INK, FAINT = "#222222", "#999999"

Kind = Literal["trained", "reevaluated", "control"]
MARKERS: dict[Kind, tuple[str, str, str]] = {  # shapes differ too, for readers with colour blindness
    "trained": ("o", BLUE, "circles: as trained"),
    "reevaluated": ("s", AMBER, "squares: evaluated in another way"),
    "control": ("D", FAINT, "diamonds: without training"),
}


@dataclass(frozen=True)
class Column:
    """A score and its format in the table."""

    score: str
    title: str = ""  # empty: the name of the score
    scale: float = 100.0
    digits: int = 1
    better: Literal["more", "less", "neither"] = "more"  # neither: no value is bold

    @property
    def heading(self) -> str:
        return self.title or self.score

    def rounded(self, value: float) -> float:
        return round(self.scale * value, self.digits)


@dataclass(frozen=True)
class Entry:
    """One score of one method."""

    values: list[float]  # one per seed
    signature: str
    against_baseline: Comparison | None = None  # None if the two cannot be compared

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation of a sample; None for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


@dataclass(frozen=True)
class Line:
    """One method, over its seeds."""

    row: str
    title: str
    kind: Kind
    supervision: str
    extractor: str
    seeds: list[int]
    core_minutes: float  # of training, one seed
    core_minutes_in_all: float  # with the models that it needs
    scores: dict[str, Entry]


@dataclass(frozen=True)
class ComparisonTable:
    """Methods and their scores on one split."""

    title: str
    split: str
    baseline: str  # the row of a line
    resamples: int  # of the comparisons with the baseline
    columns: Sequence[Column]
    lines: Sequence[Line]
    supervised: str = ""  # the row of the upper bound
    gaps: Mapping[str, Gaps] = field(default_factory=dict)  # by row: share of the gap from the baseline to it

    def to_json(self) -> Json:
        """All numbers, unscaled."""
        rows = [asdict(line) for line in self.lines]
        for line, row in zip(self.lines, rows, strict=True):
            for name, entry in line.scores.items():
                row["scores"][name] |= {"mean": entry.mean, "std": entry.std}
                if gap := self.gaps.get(line.row, {}).get(name):
                    row["scores"][name]["gap"] = asdict(gap)
        return {"title": self.title, "split": self.split, "baseline": self.baseline, "rows": rows}


def to_markdown(table: ComparisonTable, chart: str) -> str:
    """Write the table, its legend, the differences from the baseline, a link to the chart, and the signatures."""
    if not table.lines:
        return "No run of this table is finished."
    best = {column.score: _best(column, table.lines) for column in table.columns}
    supervisions = list(dict.fromkeys(line.supervision for line in table.lines))
    several = len(supervisions) > 1  # otherwise the legend names it, and the table has a column less
    rows = []
    for line in table.lines:
        shown = [_shown(column, line, best[column.score]) for column in table.columns]
        minutes = NONE if line.kind == "control" else f"{line.core_minutes_in_all:.0f}"
        seeds = ", ".join(map(str, line.seeds)) or NONE
        rows.append([line.title, *([line.supervision] if several else []), seeds, *shown, minutes])
    headings = [column.heading for column in table.columns]
    head = ["", *(["supervision"] if several else []), "seeds", *headings, "core-minutes"]
    tests = sum(entry.against_baseline is not None for line in table.lines for entry in line.scores.values())
    star = (
        f"\\*: different from `{table.baseline}`, p < {LEVEL:g}; {tests} tests: about {LEVEL * tests:.2g} false "
        "positives are expected. "
    )
    shared = "" if several else f"Supervision: {supervisions[0]}. "
    stars = star if tests else ""
    legend = (
        f"{shared}Mean ± standard deviation over the seeds; bold: best mean of the trained rows. {stars}"
        "Core-minutes: training of one seed, with the models that it starts from or learns from."
    )
    parts = [f"**{table.title}** (split {table.split})", markdown(head, rows), legend]
    parts += [_gaps(table)] if table.supervised else []
    parts += [_differences(table)] if tests else []
    return "\n\n".join([*parts, f"![{table.title}]({chart})", _signatures(table)])


def _best(column: Column, lines: Sequence[Line]) -> float | None:
    """Find the best rounded mean of the trained rows, if there are several."""
    entries = [line.scores[column.score] for line in lines if line.kind != "control" and column.score in line.scores]
    if column.better == "neither" or len(entries) < 2:
        return None
    return (max if column.better == "more" else min)(column.rounded(entry.mean) for entry in entries)


def _shown(column: Column, line: Line, best: float | None) -> str:
    entry = line.scores.get(column.score)
    if entry is None:
        return NONE
    text = cell([column.scale * value for value in entry.values], column.digits)
    text = f"**{text}**" if line.kind != "control" and column.rounded(entry.mean) == best else text
    return f"{text} \\*" if entry.against_baseline is not None and entry.against_baseline.p < LEVEL else text


def _gaps(table: ComparisonTable) -> str:
    """Write the value of each method relative to the baseline, and the share of the gap that it closes."""

    def shown(column: Column, line: Line, baseline: Line) -> str:
        entry = line.scores.get(column.score)
        gap = table.gaps[line.row].get(column.score)
        if entry is None or gap is None:
            return NONE
        ratio = f"x {entry.mean / mean:.2f}" if (mean := baseline.scores[column.score].mean) else NONE
        if gap.closed is None or gap.interval is None:
            return ratio
        low, high = (f"{100 * bound:.0f}" for bound in gap.interval)
        return f"{ratio}, {100 * gap.closed:.0f} % ({low} to {high})"

    found = {line.row: line for line in table.lines}
    methods = [line for line in table.lines if table.gaps.get(line.row)]
    if not methods:
        return f"The share of the gap to `{table.supervised}` needs finished runs of it and of `{table.baseline}`."
    baseline = found[table.baseline]
    rows = [[line.title, *(shown(column, line, baseline) for column in table.columns)] for line in methods]
    return (
        f"Ratio to `{table.baseline}`, and share of the gap from it to `{table.supervised}` that a row closes: (row - "
        f"baseline) / (supervised - baseline) of the means over seeds, with 95 % intervals of the paired bootstrap.\n\n"
        f"{markdown(['', *(column.heading for column in table.columns)], rows)}"
    )


def _differences(table: ComparisonTable) -> str:
    """Write the differences from the baseline with intervals and p-values, folded."""

    def shown(column: Column, line: Line) -> str:
        against = line.scores[column.score].against_baseline if column.score in line.scores else None
        if against is None:
            return NONE
        numbers = (against.difference, *against.difference_interval)
        difference, low, high = (f"{column.scale * number:+.{column.digits}f}" for number in numbers)
        return f"{difference} ({low} to {high}), p {against.p:.4f}"

    compared = [line for line in table.lines if any(entry.against_baseline for entry in line.scores.values())]
    rows = [[line.title, *(shown(column, line) for column in table.columns)] for line in compared]
    how = signature(bootstrap="paired", drawn="images", resamples=table.resamples, value="mean over seeds", seed=0)
    return (
        f"<details><summary>differences from {table.baseline}, with 95 % intervals</summary>\n\n"
        f"{markdown(['', *(column.heading for column in table.columns)], rows)}\n\n`{how}`: images are drawn with "
        "replacement, the same for both rows, and each row's value is the mean over its seeds; the variation between "
        "seeds is not in the intervals but in the standard deviations.\n\n</details>"
    )


def _signatures(table: ComparisonTable) -> str:
    """Write each signature once, with the columns that have it, and the extractors."""
    headings: dict[str, dict[str, None]] = {}
    for column in table.columns:
        for line in table.lines:
            if column.score in line.scores:
                headings.setdefault(line.scores[column.score].signature, {})[column.heading] = None
    marks = [f"{', '.join(names)}: `{mark}`  " for mark, names in headings.items()]
    extractors = dict.fromkeys(f"`{line.extractor}`" for line in table.lines)
    return "\n".join([*marks, f"Regions: {', '.join(extractors)}"])


def draw_chart(table: ComparisonTable, scores: Sequence[str], path: Path) -> None:
    """Draw a panel for each of the scores: mean, deviation and seeds of each line, and the mean of the baseline."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = [column for column in table.columns if column.score in scores]
    style: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "text.color": INK, "font.size": 9}
    style |= dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with pyplot.rc_context(style):
        size = (2.6 + 2.3 * len(columns), 1.1 + 0.27 * len(table.lines))
        figure, grid = pyplot.subplots(1, len(columns), figsize=size, sharey=True, squeeze=False, layout="constrained")
        for axes, column in zip(grid[0], columns, strict=True):
            axes.margins(x=0.12)
            for place, line in enumerate(table.lines):
                if column.score in line.scores:
                    _draw_entry(axes, place, line.kind, line.scores[column.score], column.scale)
                    if line.row == table.baseline:
                        mean = column.scale * line.scores[column.score].mean
                        axes.axvline(mean, color=FAINT, linestyle=":", linewidth=1, zorder=0)
            axes.set_title(column.heading, fontsize=10, weight="bold")
            axes.set_xlim(0, max(axes.get_xlim()[1], 1.06 * axes.dataLim.x1))  # no marker is cut at the right edge
            axes.grid(axis="y", color="#eeeeee", zorder=0)
            axes.tick_params(axis="y", length=0)
        grid[0][0].set_yticks(range(len(table.lines)), [line.title for line in table.lines])
        grid[0][0].set_ylim(len(table.lines) - 0.5, -0.5)
        figure.suptitle(table.title, x=0.01, ha="left", weight="bold")
        kinds = {line.kind for line in table.lines}
        markers = ", ".join(text for kind, (_, _, text) in MARKERS.items() if kind in kinds)
        legend = f"small dots: seeds; bars: ± one standard deviation; dotted line: the baseline; {markers}"
        figure.supxlabel(legend, x=0.01, ha="left", fontsize=8)
        figure.savefig(path, dpi=140, metadata={"Software": None})
        pyplot.close(figure)


def _draw_entry(axes: Any, place: int, kind: Kind, entry: Entry, scale: float) -> None:
    marker, colour, _ = MARKERS[kind]
    spread = scale * (entry.std or 0.0)
    axes.errorbar(
        scale * entry.mean, place, xerr=spread or None, fmt=marker, color=colour, markersize=5.5, capsize=4, zorder=2
    )
    if len(entry.values) > 1:
        dots = [scale * value for value in entry.values]
        axes.plot(dots, [place + 0.3] * len(dots), ".", color=INK, markersize=3, zorder=3)
