"""``deixis proposals``: recall of box proposals on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from deixis import data
from deixis.commands.console import AsJson, Processes, Quiet, print_json, stderr_console, stdout_console, track
from deixis.errors import DeixisError, UsageError
from deixis.show.recall import recall_table, save_recall_chart
from deixis.threads import available_cores
from deixis.vision.proposals import by_name
from deixis.vision.proposals.measure import images_with_boxes, make_report, measure_images

COUNTS = (10, 36, 50, 100, 200)


def proposals(
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    split: str = "test",
    proposals: str = "selective-search",
    counts: tuple[int, ...] = COUNTS,
    processes: Processes = None,
    chart: Path | None = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Measure the recall of box proposals: the upper bound of any model that selects among them.

    Recall is the share of phrases whose true box has IoU >= .5 (or .7) with a proposal. Average recall is the mean
    over the thresholds .5, .55 ... .95. A phrase counts each time a caption has it. The true box of an entity with
    several boxes is their union. Images without boxes are skipped.

    For example: deixis proposals path/to/flickr30k-entities --split test --chart recall.png

    Args:
        directory: a data set whose phrases have boxes (see deixis data check).
        split: split of the data set.
        proposals: selective-search, fast-search, grid, coco-ssd, coco-ssd+ss, coco-ssd+parts, truth, a file of boxes
            (.json, .json.gz, .npz), transformers:FOLDER[:PHRASE,PHRASE...] or torchvision:MODEL:WEIGHTS.
        counts: numbers of boxes per image at which recall is measured, including the whole image.
        chart: draw recall by number of boxes and by phrase type (.png, .svg, .pdf).
        as_json: write the figures to stdout as JSON.
    """
    if not counts or min(counts) < 1 or (processes is not None and processes < 1):
        raise UsageError("--counts and --processes must be at least 1.")
    counts = tuple(sorted(set(counts)))
    console = stderr_console(quiet)
    proposer = by_name(f"truth:{directory}" if proposals == "truth" else proposals, max(counts))
    with console.status(f"reading {directory}"):
        dataset = data.load(directory, split)
        work = images_with_boxes(dataset)
    if not work:
        raise DeixisError(f"{directory}: split '{split}' has no phrase with a box. Choose another --split.")
    outcomes = measure_images(work, proposer, counts, processes or available_cores())
    report = make_report(dataset, proposer, counts, track(outcomes, len(work), console, transient=True))
    if chart is not None:
        save_recall_chart(report, chart)
    if as_json:
        print_json(report.to_json())
    else:
        stdout_console(quiet).print(recall_table(report))
    for reason in report.skipped:
        console.print(f"skipped: {reason}", markup=False)
    if chart is not None:
        console.print(f"drawn: {chart}", markup=False)
    return 0
