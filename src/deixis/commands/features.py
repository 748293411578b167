"""``deixis features``: a data set or a folder of images becomes a feature store."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from deixis import data
from deixis.errors import DeixisError, UsageError
from deixis.photographs import images_in
from deixis.types import Json
from deixis.vision.bulk import Job, Outcome, Workers
from deixis.vision.store import FeatureStore, StoreWriter

if TYPE_CHECKING:
    from deixis.vision.extractor import Extractor

SHOWN = 20
"""How many skipped images are listed at the end; ``skipped.json`` in the store has them all."""

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def features(
    directory: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    split: str | None = None,
    proposals: str = "selective-search",
    boxes: int = 100,
    backbone: str = "efficientnet-lite2",
    grid: int = 0,
    limit: int | None = None,
    device: str = "auto",
    processes: int | None = None,
    verify: Switch = False,
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Turn a data set, or any folder of images, into a feature store that training reads.

    Stop it whenever you like: the same command goes on where it was. Images that cannot be read are named at the
    end and kept in the store's skipped.json; they are tried again only when their file has changed.

    For example: deixis features path/to/photos -o photos.store

    Args:
        directory: a data set (see deixis data check) or a folder of images, looked through with its subfolders.
        out: the store to make or to go on with.
        split: only this split of a data set; all of them if not given.
        proposals: where boxes come from (see deixis proposals).
        boxes: at most this many boxes for each image, the whole image among them.
        backbone: efficientnet-lite2, or timm-MODEL where timm is installed.
        grid: keep a feature grid of the whole image too, at most this many cells a side; 0 keeps none.
        limit: only the first so many images.
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        processes: how many work at the same time; one for each core if not given.
        verify: read the whole store again at the end and check its sums.
        as_json: write a summary to stdout as JSON.
        quiet: no progress and no summary.
    """
    if grid < 0 or (limit is not None and limit < 1) or (processes is not None and processes < 1):
        raise UsageError("--grid must not be negative, --limit and --processes must be at least 1.")
    talk = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    with talk.status(f"looking for images in {directory}"):
        jobs = find_jobs(directory, split)[:limit]
    make = partial(_make, backbone, proposals, boxes, grid, device)
    started = time.monotonic()
    added = _run(jobs, make, out, min(processes or cores(), len(jobs)), talk)
    summary = _summary(out, jobs, added, time.monotonic() - started)
    if verify:
        _verify(out, talk)
    _tell(summary, talk)
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    return 0


def find_jobs(directory: Path, split: str | None = None) -> list[Job]:
    """The images of a data set by their own ids, each once, or those of a plain folder by their paths in it."""
    try:
        loader = data.recognise(directory)
    except DeixisError:
        images = list(images_in(directory)) if directory.is_dir() else []
        if not images:
            raise
        if split is not None:
            raise DeixisError(f"{directory} is a plain folder of images and has no split '{split}'.") from None
        return [Job(path.relative_to(directory).as_posix(), (path,)) for path in images]
    jobs: dict[str, Job] = {}
    for name in loader.splits(directory) if split is None else (split,):
        for sample in loader.load(directory, name):
            paths = sample.frames or ((sample.path,) if sample.path else ())
            if paths:
                jobs.setdefault(sample.image_id, Job(sample.image_id, paths, video=bool(sample.frames)))
    if not jobs:
        raise DeixisError(f"{directory} names no images; 'deixis data check {directory}' says what is missing.")
    return list(jobs.values())


def _make(backbone: str, proposals: str, boxes: int, grid: int, device: str) -> Extractor:
    # Runs in the workers only: the process that the user started never waits for torch.
    from deixis.device import choose
    from deixis.vision.extractor import named_extractor

    return named_extractor(backbone, proposals, boxes, grid).to(choose(device))


def _run(jobs: Sequence[Job], make: Callable[[], Extractor], out: Path, processes: int, talk: Console) -> int:
    """Fill the store with what it lacks; how many images were added."""
    with terminable():
        with talk.status(f"starting {processes} process{'es' if processes > 1 else ''}"):
            workers = Workers(make, processes)
        with workers, StoreWriter(out, workers.contents) as writer:
            left = [job for job in jobs if job.image_id not in writer.image_ids and not _hopeless(job, writer)]
            if len(left) < len(jobs):
                talk.print(f"{len(jobs) - len(left):,} of {len(jobs):,} images were done before.")
            before = len(writer.image_ids)
            try:
                for outcome in watched(workers.run(left), len(left), talk):
                    _keep(outcome, writer)
            except KeyboardInterrupt:
                talk.print(f"{len(writer.image_ids):,} images are safe in {out}; the same command goes on from there.")
                raise
            for cause, times in Counter(workers.deaths).items():
                talk.print(f"{times} worker process{'es' * (times > 1)} died ({cause}) and had to be replaced.")
            return len(writer.image_ids) - before


def _keep(outcome: Outcome, writer: StoreWriter) -> None:
    job, reason = outcome.job, outcome.reason
    if outcome.regions is not None:
        try:
            writer.add(job.image_id, outcome.regions)
            return
        except DeixisError as error:
            reason = str(error)
    writer.skip(job.image_id, reason, _stamp(job))


def _hopeless(job: Job, writer: StoreWriter) -> bool:
    """Whether this very file was tried before, in vain."""
    entry = writer.skipped.get(job.image_id)
    return entry is not None and {key: value for key, value in entry.items() if key != "reason"} == _stamp(job)


def _stamp(job: Job) -> Json:
    """What changes when a file is replaced; empty where there is none."""
    try:
        found = job.paths[0].stat()
    except OSError:
        return {}
    return {"bytes": found.st_size, "modified": found.st_mtime_ns}


@contextmanager
def terminable() -> Iterator[None]:
    """Make a polite request to end (SIGTERM) the same as Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Talk -------------------------------------------------------------------------------------------------------------


class _Rate(ProgressColumn):
    """Images a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:.1f}/s", style="progress.data.speed")


def watched(outcomes: Iterator[Outcome], total: int, talk: Console) -> Iterator[Outcome]:
    """The same outcomes, shown as they come: a bar on a terminal, a line a minute elsewhere."""
    if talk.is_terminal:
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=talk,
            speed_estimate_period=60,
            redirect_stdout=False,  # stdout is data, wherever the bar is shown
        )
        with bar:
            yield from bar.track(outcomes, total=total, description="images")
        return
    started = last = time.monotonic()
    for done, outcome in enumerate(outcomes, 1):
        yield outcome
        now = time.monotonic()
        if now - last >= 60:
            last, rate = now, done / (now - started)
            talk.print(f"{done:,} of {total:,} images, {rate:.1f}/s, {(total - done) / rate / 60:.0f} min left")


def _summary(out: Path, jobs: Sequence[Job], added: int, seconds: float) -> Json:
    store = FeatureStore(out)
    skipped = {job.image_id: store.skipped()[job.image_id]["reason"] for job in jobs if job.image_id in store.skipped()}
    if jobs and not any(job.image_id in store for job in jobs):
        raise DeixisError(
            f"not one of the {len(jobs):,} images could be used; the first: {next(iter(skipped.values()))}"
        )
    return {
        "store": str(out),
        "extractor": store.extractor,
        "images": len(store),
        "added": added,
        "skipped": skipped,
        "bytes": store.bytes,
        "seconds": round(seconds, 1),
    }


def _tell(summary: Json, talk: Console) -> None:
    talk.print(
        f"{summary['store']}: {summary['images']:,} images, {summary['bytes'] / 1e6:,.0f} MB, {summary['extractor']}\n"
        f"{summary['added']:,} added in {summary['seconds']:,.0f} s, {len(summary['skipped']):,} skipped",
        markup=False,
    )
    for number, (image_id, reason) in enumerate(summary["skipped"].items()):
        if number == SHOWN:
            talk.print(f"  ... and {len(summary['skipped']) - SHOWN:,} more, all in {summary['store']}/skipped.json")
            break
        talk.print(f"  {image_id}: {reason}", markup=False)


def _verify(out: Path, talk: Console) -> None:
    with talk.status(f"reading {out} again"):
        bad = [name for name, sound in FeatureStore(out).verify() if not sound]
    if bad:
        raise DeixisError(
            f"{out} is damaged in {', '.join(bad)}; delete these files and run the same command to make them anew."
        )
    talk.print(f"{out}: every shard has the sum it was written with.", markup=False)
