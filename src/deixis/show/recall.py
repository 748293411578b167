"""Recall of box proposals as a table for the terminal and as a chart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from deixis.errors import DeixisError
from deixis.files import atomic_path
from deixis.vision.proposals.measure import IOUS, RecallReport
from deixis.vision.proposals.recall import Recall

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AVERAGE = "average"
INK, FAINT = "#22262e", "#d9dde3"
COLOURS = {"0.5": "#2a6fbb", "0.7": "#e08a1e", AVERAGE: "#3b9c6b"}
CHART_COUNT = 100  # boxes of the chart by type, or the nearest number that was measured


def recall_table(report: RecallReport) -> Table:
    """Recall in per cent by phrase type and number of boxes."""
    rows = {"all": report.all, **report.by_type, "all, each entity once": report.by_entity}
    table = Table(
        title=f"{_title(report)}, per cent, by number of boxes",
        title_justify="left",
        caption=_caption(report),
        caption_justify="left",
    )
    table.add_column("type")
    table.add_column("phrases", justify="right")
    for count in report.counts:
        table.add_column(f"{count:,}", justify="right")
    for heading, pick in (*((f"IoU {iou:g}", str(iou)) for iou in IOUS), ("average recall", AVERAGE)):
        table.add_section()
        table.add_row(Text(heading, "bold"))
        for name, row in rows.items():
            cells = [f"{_percent(row, count, pick):.1f}" for count in report.counts]
            table.add_row(f"  {name}", f"{row.total:,}", *cells, style="bold" if name == "all" else "")
    return table


def save_recall_chart(report: RecallReport, path: Path) -> None:
    """Draw recall against the number of boxes (left) and by phrase type (right)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "text.color": INK}
    style |= dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with pyplot.rc_context(style):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1.15, 1), layout="constrained")
        _draw_by_count(left, report)
        _draw_by_type(right, report)
        figure.suptitle(_title(report), x=0.01, ha="left", weight="bold")
        figure.supxlabel(_caption(report), x=0.01, ha="left", fontsize=9)
        try:
            with atomic_path(path) as tmp_path:
                figure.savefig(tmp_path, dpi=160)
        except ValueError as error:
            raise DeixisError(f"{path} cannot be written ({error}). Choose a .png, .svg or .pdf file.") from None
        finally:
            pyplot.close(figure)


def _draw_by_count(axes: Axes, report: RecallReport) -> None:
    for pick, colour in COLOURS.items():
        values = [_percent(report.all, count, pick) for count in report.counts]
        name = "average, .5 to .95" if pick == AVERAGE else f"IoU {pick}"
        axes.plot(report.counts, values, color=colour, marker="o", linewidth=2, markersize=5)
        place: dict[str, Any] = {"textcoords": "offset points", "color": colour, "va": "center"}
        axes.annotate(name, (report.counts[-1], values[-1]), (10, 0), weight="bold", **place)
        for count, value in zip(report.counts, values, strict=True):
            axes.annotate(f"{value:.0f}", (count, value), (0, -11 if pick == AVERAGE else 11), ha="center", **place)
    axes.set(xscale="log", ylim=(0, 104), xlabel="boxes per image", ylabel="recall, %")
    axes.set_xticks(report.counts, [f"{count:,}" for count in report.counts])
    axes.minorticks_off()
    axes.grid(axis="y", color=FAINT)
    axes.margins(x=0.08)


def _draw_by_type(axes: Axes, report: RecallReport) -> None:
    shown = min(report.counts, key=lambda count: abs(count - CHART_COUNT))
    names = list(reversed(report.by_type))
    places = np.arange(len(names))
    for offset, pick in ((0.2, "0.5"), (-0.2, "0.7")):
        values = [_percent(report.by_type[name], shown, pick) for name in names]
        bars = axes.barh(places + offset, values, 0.36, color=COLOURS[pick], label=f"IoU {pick}")
        axes.bar_label(bars, fmt="%.0f", padding=3, color=INK, fontsize=9)
    axes.set_yticks(places, [f"{name}  ({report.by_type[name].total:,})" for name in names])
    axes.set(xlim=(0, 108), xlabel=f"recall with {shown:,} boxes, %")
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.1)


def _percent(row: Recall, count: int, pick: str) -> float:
    return 100 * (row.average[str(count)] if pick == AVERAGE else row.recall[str(count)][pick])


def _title(report: RecallReport) -> str:
    return f"recall of {report.proposals['name']}"


def _caption(report: RecallReport) -> str:
    return (
        f"{report.data} {report.split}: {report.images:,} images, {report.boxes_per_image:.0f} boxes on average; "
        f"supervision: {report.proposals['supervision']}"
    )
