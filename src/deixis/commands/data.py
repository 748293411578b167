"""``deixis data check`` and ``deixis data show``: the content of a data set in numbers and pictures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deixis.commands.console import AsJson, Quiet, Switch, print_json, print_some, stderr_console, stdout_console
from deixis.data.report import Report, inspect, shared_images
from deixis.errors import UsageError

LISTED = 10  # skipped records that are printed; --json has all

Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Folders = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]


def check(roots: Folders, as_json: AsJson = False, quiet: Quiet = False) -> int:
    """Recognise a data set, count its content, and list what is missing or unreadable.

    Several data sets are also compared: images on which one is tested and another one trains are counted.

    For example: deixis data check path/to/flickr30k-entities

    Args:
        roots: folder of the data set, or several.
        as_json: write the report to stdout as JSON; of several data sets, a list of reports.
    """
    if not roots:
        raise UsageError("no data set is given. Give its folder: deixis data check DIR")
    console = stderr_console(quiet)
    reports = []
    for root in roots:
        with console.status("reading") as status:
            report = inspect(root, lambda split, root=root: status.update(f"reading {split} of {root}"))  # type: ignore[misc]
        reports.append(report.to_json())
        if not as_json:
            _print_report(report, root, stdout_console(quiet))
        for warning in report.warnings:
            console.print(f"warning: {warning}", markup=False)
    if as_json:
        print_json(reports if len(roots) > 1 else reports[0])
    if len(roots) > 1:
        with console.status("comparing the data sets"):
            shared = shared_images(roots)
        for warning in shared:
            console.print(f"warning: {warning}", markup=False)
    return 0


def show(
    root: Folder,
    n: int = 6,
    split: str | None = None,
    out: Path = Path("sheet.png"),
    seed: int = 0,
    triplets: Switch = False,
    quiet: Quiet = False,
) -> int:
    """Draw a contact sheet: images with their boxes, and captions with phrases in the colours of the boxes.

    For example: deixis data show path/to/flickr30k-entities --n 6 --out sheet.png

    Args:
        root: folder of the data set.
        n: number of images; images with boxes come first.
        split: split to draw from; val if the data set has one.
        out: the picture (.png, .svg, .jpg, ...).
        seed: seed of the selection of images.
        triplets: draw the texts with boxes from which AMC learns, instead of the captions.
    """
    if n < 1:
        raise UsageError(f"--n is {n}; it must be at least 1.")
    console = stderr_console(quiet)
    with console.status(f"drawing images of {root}"):
        from deixis.show.drawing import save_drawing
        from deixis.show.samples import draw_samples

        sheet = draw_samples(root, split, n, seed, triplets)
    save_drawing(sheet.drawing, out)
    console.print(f"{out}: {sheet.shown} of the {sheet.total:,} images of {sheet.split}", markup=False)
    return 0


def _print_report(report: Report, root: Path, stdout: Console) -> None:
    stdout.print(Text.assemble((report.dataset, "bold"), f" in {root}\n"))
    table = Table("split", box=None, pad_edge=False, padding=(0, 2))
    shown = ["images", "captions", "phrases", "boxed_images", "boxes"]
    if any(counts.labelled_images for counts in report.splits.values()):
        shown.append("labelled_images")
    for column in shown:
        table.add_column(column.replace("_", " "), justify="right")
    for split, counts in report.splits.items():
        table.add_row(split, *(f"{asdict(counts)[column]:,}" for column in shown))
    stdout.print(table)
    for split, counts in report.splits.items():
        if counts.triplets:
            parts = ", ".join(f"{source} {number:,}" for source, number in counts.triplets.items())
            stdout.print(f"triplets of {split} (boxes of 8 % of the image and more): {parts}")
    stdout.print(f"\nskipped records: {len(report.skipped):,}")
    print_some(stdout, report.skipped, LISTED, "; --json lists them all")
    stdout.print(f"missing: {len(report.missing) or 'nothing'}")
    for entry in report.missing:
        absent = f" ({entry.count:,} missing, such as {', '.join(entry.examples)})" if entry.examples else ""
        need = "required" if entry.required else "optional"
        stdout.print(f"  {entry.file}{absent}: {entry.purpose}; {need}.\n    From {entry.publisher}.", markup=False)
