"""``deixis features``: extract region features of a data set or a folder of images."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from deixis.commands.console import (
    AsJson,
    Backbone,
    Boxes,
    Device,
    Extractor,
    Processes,
    Proposals,
    Quiet,
    Switch,
    print_json,
    print_some,
    stderr_console,
    terminable,
    track,
)
from deixis.corpus.options import EngineOptions
from deixis.corpus.sources import as_source, in_shard, is_source, parse_shard
from deixis.errors import UsageError
from deixis.vision import fill
from deixis.vision.bulk import Job, Workers, processes_for
from deixis.vision.layouts import FeatureLayout
from deixis.vision.layouts.records import ImportOptions
from deixis.vision.store import StoreWriter

IMPORT = ImportOptions()
ENGINE = EngineOptions()
LISTED = 20  # skipped images that are printed; skipped.json in the store has all


def features(
    directory: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = None,
    *,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    source: Annotated[Path | None, tyro.conf.arg(name="from")] = None,
    layout: FeatureLayout | None = None,
    published: tyro.conf.OmitArgPrefixes[ImportOptions] = IMPORT,
    split: str | None = None,
    extractor: Extractor = "v1",
    proposals: Proposals = "selective-search",
    boxes: Boxes = 100,
    backbone: Backbone = "efficientnet-lite2",
    grid: int = 0,
    maps: Switch = False,
    limit: int | None = None,
    device: Device = "auto",
    processes: Processes = None,
    verify: Switch = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    engine: tyro.conf.OmitArgPrefixes[EngineOptions] = ENGINE,
) -> int:
    """Extract region features of images into a feature store, or import published features with --from.

    An interrupted run resumes with the same command. Unreadable images are skipped, listed at the end and kept in the
    store's skipped.json; they are tried again only if their file has changed.

    For example: deixis features path/to/photos -o photos.store
    or: deixis features --from path/to/gvd/flickr30k --layout gvd -o flickr30k.store

    Args:
        directory: a data set (see deixis data check) or a folder of images, searched with its subfolders. Also a glob,
            list file, parquet file, tar shard or URL (see docs/scale.md).
        out: the store to create or extend.
        source: file or folder of published features, instead of DIR; see docs/features.md.
        layout: layout of the files of --from.
        published: options of --from.
        split: only this split of a data set; all splits if not given.
        grid: also store a feature grid of the whole image with at most this many cells per side; 0: none.
        maps: also store the grids of v2 as bytes, from which features of other boxes can be pooled.
        limit: only the first images, at most this many.
        verify: read the whole store again at the end and compare checksums.
        as_json: write a summary to stdout as JSON.
    """
    if grid < 0 or (limit is not None and limit < 1) or (processes is not None and processes < 1):
        raise UsageError("--grid must be at least 0; --limit and --processes must be at least 1.")
    console = stderr_console(quiet)
    if directory is None or source is not None or layout is not None:
        if source is None or layout is None or directory is not None:
            raise UsageError("give either DIR, or published features with both --from and --layout.")
        from deixis.runs.detectors import open_features
        from deixis.vision.layouts.fill import import_features, named_map

        with terminable():
            given = source, layout, out, published, named_map(backbone, grid, device, published, layout), limit
            show = partial(track, console=console), partial(console.print, markup=False)
            return _finish(import_features(*given, *show, open_features), verify, as_json, console)
    engine.check()
    make = fill.maker(extractor, backbone, proposals, boxes, grid, maps, device)
    started = time.monotonic()
    if not is_source(as_source(directory)):
        with console.status(f"listing the images of {directory}"):
            shard = parse_shard(engine.shard)
            jobs = [job for job in fill.find_jobs(directory, split)[:limit] if in_shard(job.image_id, shard)]
        if engine.engine == "ray" or (extractor == "v1" and fill.on_gpu(device)):
            added = _fill_rows(make, out, engine, console, jobs=jobs)
        else:
            added = _fill(jobs, make, out, processes_for(processes, len(jobs)), engine, console)
    else:
        if split is not None or limit is not None:
            raise UsageError("--split and --limit are for a data set or a folder. Leave them out.")
        jobs, added = None, _fill_rows(make, out, engine, console, sources=[as_source(directory)])
    wanted = None if jobs is None else [job.image_id for job in jobs]
    return _finish(fill.report_fill(out, wanted, added, time.monotonic() - started), verify, as_json, console)


def _fill_rows(
    make: fill.Make,
    out: Path,
    engine: EngineOptions,
    console: Console,
    sources: Sequence[str] = (),
    jobs: Sequence[Job] | None = None,
) -> int:
    """Extract with one model for a device, or in actors of Ray; return the number of images added."""
    from deixis.corpus.store import fill_store

    added = 0
    with terminable():
        for added, errors in fill_store(make, out, engine, sources, jobs):
            console.print(f"{added:,} images, {errors:,} errors")
    return added


def _finish(report: fill.FillReport, verify: bool, as_json: bool, console: Console) -> int:
    """Verify the store if asked for, and print the report."""
    if verify:
        with console.status(f"verifying {report.store}"):
            fill.verify_store(Path(report.store))
        console.print(f"{report.store}: all checksums match.", markup=False)
    _print_report(report, console)
    if as_json:
        print_json(asdict(report))
    return 0


def _fill(
    jobs: Sequence[Job], make: fill.Make, out: Path, processes: int, engine: EngineOptions, console: Console
) -> int:
    """Extract what the store lacks and return the number of images added."""
    with terminable():
        with console.status(f"starting {processes} worker process{'es' if processes > 1 else ''}"):
            workers = Workers(make, processes, engine.batch)
        with workers, StoreWriter(out, workers.contents, part=parse_shard(engine.shard)) as writer:
            left = fill.pending_jobs(jobs, writer)
            if len(left) < len(jobs):
                console.print(f"{len(jobs) - len(left):,} of {len(jobs):,} images are already done.")
            before = len(writer.image_ids)
            try:
                for _ in track(fill.store_outcomes(workers.run(left), writer), len(left), console):
                    pass
            except KeyboardInterrupt:
                console.print(f"Stopped: {out} has {len(writer.image_ids):,} images. The same command resumes.")
                raise
            for cause, times in Counter(workers.deaths).items():
                console.print(f"{times} worker process{'es' * (times > 1)} died ({cause}) and were replaced.")
            return len(writer.image_ids) - before


def _print_report(report: fill.FillReport, console: Console) -> None:
    size = f"{report.images:,} images, {report.bytes / 1e6:,.0f} MB"
    console.print(f"{report.store}: {size}, {report.extractor}", markup=False)
    console.print(f"{report.added:,} added in {report.seconds:,.0f} s, {len(report.skipped):,} skipped")
    lines = [f"{image_id}: {reason}" for image_id, reason in report.skipped.items()]
    print_some(console, lines, LISTED, f", all in {report.store}/skipped.json")
