"""Photographs of files and folders, with regions extracted in several processes where that is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from deixis.clips import is_clip
from deixis.errors import DeixisError
from deixis.pipelines.caption import Measure
from deixis.pipelines.clip import Clip, open_source
from deixis.pipelines.photo import Photo
from deixis.types import Json
from deixis.vision.bulk import Job, Outcome, Workers, clip_job
from deixis.vision.extractor import RegionExtractor


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
        for outcome in _in_order(jobs, workers.run(jobs)):
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
    from deixis.device import choose  # runs in the worker

    return RegionExtractor(description, grid).to(choose(device))
