"""Run a verb on many images and write the results in parts; shared by caption, ground and check."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deixis.commands.console import terminable
from deixis.corpus.options import CorpusOptions
from deixis.corpus.sources import as_source
from deixis.show.plain_console import PlainConsole

if TYPE_CHECKING:
    from deixis.corpus.work import Work


def write_parts(work: Work, sources: Sequence[Path], options: CorpusOptions, console: PlainConsole) -> int:
    """Write a row for each image that has none; print the progress after each part."""
    options.check()
    from deixis.corpus.run import run_corpus

    started, last = time.monotonic(), None
    with terminable():
        try:
            for last in run_corpus(work, [as_source(path) for path in sources], options):
                rate = last.rows / max(time.monotonic() - started, 1e-9)
                console.print(f"{last.rows:,} images, {last.errors:,} errors, {rate:.1f} images/s")
        except KeyboardInterrupt:
            console.print(f"Stopped. {options.parts} has all complete rows. The same command resumes.", markup=False)
            raise
    if last is not None:
        had = f"; {last.before:,} images were done before" if last.before else ""
        console.print(f"{options.parts}: {last.rows:,} rows added, {last.errors:,} of them errors{had}", markup=False)
    return 0
