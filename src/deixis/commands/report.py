"""``deixis report``: one HTML page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from deixis.commands.console import Quiet, Switch, stderr_console, track
from deixis.files import write_atomic
from deixis.show.page import Shown
from deixis.show.report import report_page
from deixis.show.run_folder import choose_evaluation, read_run
from deixis.show.run_gallery import read_gallery


def report(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    out: Path | None = None,
    split: str = "",
    images: Path | None = None,
    link: Switch = False,
    quiet: Quiet = False,
) -> int:
    """Write one HTML page of a run: training curves, scores with their protocols, errors and a gallery.

    The page is one file and needs no server. Parts that the run does not have are left out: without an evaluation the
    page has the training curves; without photographs the gallery has boxes and words.

    For example: deixis report runs/updown --out report.html

    Args:
        run: folder of a model, as written by 'deixis train' and 'deixis eval'.
        out: the page; report.html in the run's folder if not given.
        split: evaluated split of the gallery; test if it was evaluated.
        images: data set or folder of the photographs, if it differs from that of the evaluation.
        link: link to the photographs instead of embedding small copies.
    """
    console = stderr_console(quiet)
    page = out or run / "report.html"
    with console.status(f"reading {run}"):
        content = read_run(run)
        evaluated = choose_evaluation(content, split, run)
        gallery = None if evaluated is None else read_gallery(run / f"eval-{evaluated.split}", evaluated, images)
    items: list[Shown] = []
    if gallery is not None:
        cards = gallery.items(page if link else None)
        items = list(track(cards, len(gallery.captions), console, "photographs", transient=True))
        if items and not any(item.src for item in items):
            console.print("No photographs found. Give their folder with --images.")
    write_atomic(page, report_page(content, gallery, items))
    console.print(f"{page}: {len(items):,} images, {page.stat().st_size / 1e6:.1f} MB", markup=False)
    return 0
