"""``deixis proposals``: what a way of proposing boxes can reach, before any model chooses among them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import tyro
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from deixis import data
from deixis.commands.answers import answers
from deixis.data.sample import Sample
from deixis.errors import DeixisError, UsageError
from deixis.types import Json
from deixis.vision.proposals import Proposer, by_name
from deixis.vision.proposals.recall import Recall, Targets, best_overlaps, recall, targets

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

COUNTS = (10, 36, 50, 100, 200)
IOUS = (0.5, 0.7)
AVERAGE = "average"
COUNTED = "every phrase whose entity has a box; several boxes of one entity are one, around them all"


def proposals(
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    split: str = "test",
    proposals: str = "selective-search",
    counts: tuple[int, ...] = COUNTS,
    processes: int | None = None,
    chart: Path | None = None,
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Measure how much of what captions speak of is reached by box proposals.

    Recall is the share of phrases whose true box has a proposal with an IoU of at least .5 or .7; the average runs
    over the thresholds .5, .55 ... .95. A phrase counts each time a caption has it. An entity drawn with several
    boxes counts as the box around them all. Images without boxes are left out.

    For example: deixis proposals path/to/flickr30k-entities --split test --chart recall.png

    Args:
        directory: a data set whose phrases have boxes (see deixis data check).
        split: which split of it.
        proposals: selective-search, grid, coco-ssd, coco-ssd+ss, truth, a file of boxes (.json, .json.gz, .npz),
            transformers:FOLDER[:PHRASE,PHRASE...] or torchvision:MODEL:WEIGHTS.
        counts: how many boxes of each image to look at, the whole image among them.
        processes: how many work at the same time; one for each core if not given.
        chart: draw recall against the number of boxes, and by type (.png, .svg, .pdf).
        as_json: write the figures to stdout as JSON.
        quiet: no progress and no table.
    """
    if not counts or min(counts) < 1 or (processes is not None and processes < 1):
        raise UsageError("--counts and --processes must be at least 1.")
    counts = tuple(sorted(set(counts)))
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    proposer = by_name(f"truth:{directory}" if proposals == "truth" else proposals, max(counts))
    with talk.status(f"reading {directory}"):
        found = data.load(directory, split)
        asked = [(sample, wanted) for sample in found if len(wanted := targets(sample))]
    if not asked:
        raise DeixisError(f"the split '{split}' of {directory} has no phrase with a box; try another split.")
    measured, problems = _measure(asked, proposer, counts, processes or os.cpu_count() or 1, talk)
    if not measured:
        raise DeixisError(f"not one of the {len(asked):,} images could be used; the first: {problems[0]}")
    result = _Result(measured, counts)
    about = {"data": found.name, "split": found.split, "proposals": proposer.describe()}
    if chart is not None:
        _draw(result, about, chart)
    if as_json:
        print(json.dumps(_document(result, about, problems), indent=2, ensure_ascii=False))
    else:
        _show(result, about, answers(quiet))
    for problem in problems:
        talk.print(f"left out: {problem}", markup=False)
    if chart is not None:
        talk.print(f"drawn: {chart}", markup=False)
    return 0


# Measuring --------------------------------------------------------------------------------------------------------

Work = tuple[Sample, Targets]
Measured = tuple[Targets, npt.NDArray[np.float64], int]  # with the overlaps [T, C] and how many boxes there were


def _measure(
    work: Sequence[Work], proposer: Proposer, counts: tuple[int, ...], processes: int, talk: Console
) -> tuple[list[Measured], list[str]]:
    """The overlaps of every image, and a sentence for each that could not be used."""
    measured: list[Measured] = []
    problems: list[str] = []
    for outcome in _watched(_each(work, proposer, counts, processes), len(work), talk):
        if isinstance(outcome, str):
            problems.append(outcome)
        else:
            measured.append(outcome)
    return measured, problems


def _each(
    work: Sequence[Work], proposer: Proposer, counts: tuple[int, ...], processes: int
) -> Iterator[Measured | str]:
    if min(processes, len(work)) == 1:
        yield from (_one(proposer, counts, item) for item in work)
        return
    # A new process, not a fork: OpenCV and torch keep threads that do not survive one.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(work)), context, _begin) as pool:
        try:
            yield from pool.map(partial(_one, proposer, counts), work, chunksize=4)
        except BrokenProcessPool:
            raise DeixisError("a worker process died, perhaps for want of memory; try --processes 1.") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    import cv2

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what ends
    cv2.setNumThreads(1)


def _one(proposer: Proposer, counts: tuple[int, ...], item: Work) -> Measured | str:
    sample, wanted = item
    try:
        boxes = proposer.propose(np.asarray(sample.open()), sample.image_id).boxes
    except (DeixisError, FileNotFoundError) as error:
        return str(error)
    return wanted, best_overlaps(wanted, boxes, counts), len(boxes)


def _watched(outcomes: Iterator[Measured | str], total: int, talk: Console) -> Iterator[Measured | str]:
    columns = (TextColumn("proposing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=talk, transient=True, disable=not talk.is_terminal) as progress:
        yield from progress.track(outcomes, total=total)


class _Result:
    """The overlaps of all targets, and recall over any part of them."""

    def __init__(self, measured: Sequence[Measured], counts: Sequence[int]) -> None:
        self.counts = counts
        self.overlaps = np.concatenate([overlaps for _, overlaps, _ in measured])  # [T, C]
        self.types = [kinds for wanted, _, _ in measured for kinds in wanted.types]
        self.first = np.concatenate([wanted.first for wanted, _, _ in measured])  # [T]
        self.images = len(measured)
        self.boxes_per_image = float(np.mean([boxes for _, _, boxes in measured]))

    def all(self) -> Recall:
        return recall(self.overlaps, self.counts, IOUS)

    def by_entity(self) -> Recall:
        """Each entity once, however many phrases name it."""
        return recall(self.overlaps[self.first], self.counts, IOUS)

    def by_type(self) -> dict[str, Recall]:
        """The types with the most phrases first; a phrase with two types counts for both."""
        rows = {kind: [kind in each for each in self.types] for kind in {kind for each in self.types for kind in each}}
        kinds = sorted(rows, key=lambda kind: (-sum(rows[kind]), kind))
        return {kind: recall(self.overlaps[rows[kind]], self.counts, IOUS) for kind in kinds}


def _document(result: _Result, about: Json, problems: Sequence[str]) -> Json:
    whole, entities = result.all(), result.by_entity()
    return {
        **about,
        "images": result.images,
        "supervision": about["proposals"]["supervision"],
        "boxes_per_image": result.boxes_per_image,
        "counted": COUNTED,
        "phrases": whole.total,
        "entities": entities.total,
        "recall": whole.recall,
        "average_recall": whole.average,
        "by_type": {
            kind: {"phrases": each.total, "recall": each.recall, "average_recall": each.average}
            for kind, each in result.by_type().items()
        },
        "by_entity": {"recall": entities.recall, "average_recall": entities.average},
        "left_out": list(problems),
    }


# For people -------------------------------------------------------------------------------------------------------


def _show(result: _Result, about: Json, said: Console) -> None:
    rows = {"all": result.all(), **result.by_type(), "all, each entity once": result.by_entity()}
    table = Table(
        title=f"{_title(about)}, per cent, by number of boxes",
        title_justify="left",
        caption=_caption(result, about),
        caption_justify="left",
    )
    table.add_column("type")
    table.add_column("phrases", justify="right")
    for count in result.counts:
        table.add_column(f"{count:,}", justify="right")
    for heading, pick in (*((f"IoU {iou:g}", str(iou)) for iou in IOUS), ("average recall", AVERAGE)):
        table.add_section()
        table.add_row(f"[bold]{heading}[/bold]")
        for name, row in rows.items():
            cells = [f"{100 * _value(row, count, pick):.1f}" for count in result.counts]
            table.add_row(f"  {escape(name)}", f"{row.total:,}", *cells, style="bold" if name == "all" else "")
    said.print(table)


def _value(row: Recall, count: int, pick: str) -> float:
    return row.average[str(count)] if pick == AVERAGE else row.recall[str(count)][pick]


def _title(about: Json) -> str:
    return f"recall of {about['proposals']['name']}"


def _caption(result: _Result, about: Json) -> str:
    return (
        f"{about['data']} {about['split']}: {result.images:,} images, {result.boxes_per_image:.0f} boxes on average; "
        f"supervision: {about['proposals']['supervision']}"
    )


INK, FAINT = "#22262e", "#d9dde3"
COLOURS = {"0.5": "#2a6fbb", "0.7": "#e08a1e", AVERAGE: "#3b9c6b"}


def _draw(result: _Result, about: Json, path: Path) -> None:
    """Recall against the number of boxes on the left, by type at the usual 100 boxes (or the nearest) on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    whole, kinds, counts = result.all(), result.by_type(), result.counts
    shown = min(counts, key=lambda count: abs(count - 100))
    style: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False, "text.color": INK}
    style |= dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with pyplot.rc_context(style):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1.15, 1), layout="constrained")
        for pick, colour in COLOURS.items():
            values = [100 * _value(whole, count, pick) for count in counts]
            name = "average, .5 to .95" if pick == AVERAGE else f"IoU {pick}"
            left.plot(counts, values, color=colour, marker="o", linewidth=2, markersize=5)
            place = {"textcoords": "offset points", "color": colour, "va": "center"}
            left.annotate(name, (counts[-1], values[-1]), (10, 0), weight="bold", **place)
            for count, value in zip(counts, values, strict=True):
                left.annotate(f"{value:.0f}", (count, value), (0, -11 if pick == AVERAGE else 11), ha="center", **place)
        left.set(xscale="log", ylim=(0, 104), xlabel="boxes for each image", ylabel="phrases reached, %")
        left.set_xticks(counts, [f"{count:,}" for count in counts])
        left.minorticks_off()
        left.grid(axis="y", color=FAINT)
        left.margins(x=0.08)

        names = list(reversed(kinds))
        places = np.arange(len(names))
        for offset, pick in ((0.2, "0.5"), (-0.2, "0.7")):
            values = [100 * _value(kinds[name], shown, pick) for name in names]
            bars = right.barh(places + offset, values, 0.36, color=COLOURS[pick], label=f"IoU {pick}")
            right.bar_label(bars, fmt="%.0f", padding=3, color=INK, fontsize=9)
        right.set_yticks(places, [f"{name}  ({kinds[name].total:,})" for name in names])
        right.set(xlim=(0, 108), xlabel=f"phrases reached with {shown:,} boxes, %")
        right.tick_params(axis="y", length=0)
        right.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.1)
        figure.suptitle(_title(about), x=0.01, ha="left", weight="bold")
        figure.supxlabel(_caption(result, about), x=0.01, ha="left", fontsize=9)
        try:
            figure.savefig(path, dpi=160)
        except (OSError, ValueError) as error:
            raise DeixisError(f"{path} cannot be written ({error}); try a name like recall.png.") from None
        finally:
            pyplot.close(figure)
