"""Photographs of files and folders, with regions extracted in several processes where that is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

from deixis.clips import is_clip
from deixis.errors import DeixisError
from deixis.pipelines.caption import Measure
from deixis.pipelines.clip import Clip, open_source
from deixis.pipelines.photo import Photo
from deixis.types import Json
from deixis.vision.bulk import Job, Outcome, Workers, clip_job
from deixis.vision.extractor import RegionExtractor

AHEAD = 32  # photographs whose regions are extracted while earlier ones are captioned
Item = TypeVar("Item")


def open_photos(
    paths: Sequence[Path],
    extractor: RegionExtractor,
    processes: int,
    skipped: Callable[[str], None],
    measure: Measure = nullcontext,
) -> Iterator[Photo]:
    """Yield photographs with their regions, in order; files that cannot be read are reported and left out.

    ``measure`` times the extraction, or in several processes the wait for it, as "regions".
    """
    several = processes > 1
    photos = _in_processes(paths, extractor, processes, skipped) if several else _one_by_one(paths, extractor, skipped)
    while True:
        with measure("regions"):
            photo = next(photos, None)
        if photo is None:
            return
        yield photo


def _in_processes(
    paths: Sequence[Path], extractor: RegionExtractor, processes: int, skipped: Callable[[str], None]
) -> Iterator[Photo]:
    jobs = [clip_job(path, str(path)) if is_clip(path) else Job(str(path), (path,)) for path in paths]
    make = partial(_make, extractor.description, extractor.grid, str(extractor.device))
    with Workers(make, processes) as workers:
        for outcome in _ahead(_in_order(jobs, workers.run(jobs)), AHEAD):
            if outcome.regions is None:
                name = outcome.job.image_id
                skipped(outcome.reason if name in outcome.reason else f"{name}: {outcome.reason}")
            else:
                opened = Clip if outcome.job.sample is not None else Photo
                yield opened(outcome.job.image_id, regions=outcome.regions)


def _one_by_one(
    paths: Sequence[Path],
    extractor: RegionExtractor,
    skipped: Callable[[str], None],
) -> Iterator[Photo]:
    for path in paths:
        photo = open_source(str(path))
        try:
            photo.regions(extractor)
        except DeixisError as error:
            skipped(str(error))
        except Exception as error:  # one file must not stop the others
            skipped(f"{path} could not be processed ({type(error).__name__}: {error})")
        else:
            yield photo


def _in_order(jobs: Sequence[Job], outcomes: Iterator[Outcome]) -> Iterator[Outcome]:
    early: dict[str, Outcome] = {}
    for job in jobs:
        while job.image_id not in early:
            outcome = next(outcomes)
            early[outcome.job.image_id] = outcome
        yield early.pop(job.image_id)


def _make(description: Json, grid: int, device: str) -> RegionExtractor:
    extractor = RegionExtractor(description, grid)  # runs in the worker
    if device == "cpu":
        return extractor
    from deixis.device import choose

    return extractor.to(choose(device))


def _ahead(items: Iterator[Item], most: int) -> Iterator[Item]:
    """Yield items that a thread takes from an iterator while earlier items are used, at most ``most`` in advance."""
    taken: Queue[tuple[Item | None, BaseException | None]] = Queue(most)
    stopped = Event()

    def take() -> None:
        try:
            for item in items:
                taken.put((item, None))
                if stopped.is_set():
                    return
            taken.put((None, None))
        except BaseException as error:
            taken.put((None, error))

    thread = Thread(target=take, name="deixis-regions", daemon=True)
    thread.start()
    try:
        while True:
            item, error = taken.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item
    finally:
        stopped.set()
        while thread.is_alive():  # it may wait for room in the queue
            with suppress(Empty):
                taken.get(timeout=0.05)
