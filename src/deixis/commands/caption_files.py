"""Caption many files for ``deixis caption``: progress, signals, and a list of unreadable files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from deixis.commands.console import print_some, stoppable, track
from deixis.errors import DeixisError
from deixis.pipelines.caption import CaptionOptions, Measure, caption_stream
from deixis.pipelines.folder import open_photos
from deixis.pipelines.models import Models
from deixis.pipelines.output import CaptionOutput
from deixis.vision.bulk import processes_for

LISTED = 20  # skipped files that are printed


def caption_files(
    paths: Sequence[Path],
    models: Models,
    options: CaptionOptions,
    processes: int | None,
    output: CaptionOutput,
    measure: Measure,
) -> None:
    """Caption files with progress, and list unreadable ones; after a signal, those that are opened are finished."""
    console, file, skipped = output.console, output.file, list[str]()
    opened = open_photos(paths, models.extractor, processes_for(processes, len(paths)), skipped.append, measure)
    if len(paths) > 1 and (not sys.stdout.isatty() or (file is not None and not output.as_json)):
        opened = track(opened, len(paths), console)  # else the printed sentences show the progress
    before = 0 if file is None else len(file.done)
    done = low_confidence = 0
    try:
        with stoppable(opened) as given:
            for result in caption_stream(given, models, options, measure):
                output.write(result)
                done, low_confidence = done + 1, low_confidence + (not result.confident)
    except KeyboardInterrupt:
        if file is not None:
            message = f"Stopped: {file.path} has {before + done:,} captions. The same command resumes."
            console.print(message, markup=False)
        raise
    if skipped and not done and not before:
        raise DeixisError(f"{skipped[0]} None of {len(skipped):,} photographs could be used.")
    low = f", {low_confidence:,} with low confidence" if low_confidence else ""
    listed = f", {len(skipped):,} skipped:" if skipped else ""
    console.print(f"{done:,} captions{'' if file is None else f' added to {file.path}'}{low}{listed}", markup=False)
    print_some(console, skipped, LISTED)
