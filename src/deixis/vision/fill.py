"""Fill a feature store with the regions of a data set or a folder of images.

Only :func:`build_extractor` imports torch; it runs in the workers, so the main process starts fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deixis import data
from deixis.clips import is_clip
from deixis.errors import DeixisError, UsageError
from deixis.photographs import clips_in, images_in
from deixis.types import Json
from deixis.vision.bulk import Job, Outcome, clip_job
from deixis.vision.store import FeatureStore, StoreWriter

if TYPE_CHECKING:
    from deixis.vision.extractor import RegionExtractor
    from deixis.vision.grid_extractor import GridExtractor

Make = Callable[[], "RegionExtractor | GridExtractor"]
"""Builds an extractor in a worker process."""


def find_jobs(directory: Path, split: str | None = None) -> list[Job]:
    """List the images of a data set by id, each once, or those of a plain folder by relative path."""
    try:
        loader = data.recognise(directory)
    except DeixisError:
        jobs = plain_jobs(directory) if directory.is_dir() else []
        if not jobs:
            raise
        if split is not None:
            raise DeixisError(f"{directory} is a plain folder of images and has no split '{split}'.") from None
        return jobs
    found: dict[str, Job] = {}
    for name in loader.splits(directory) if split is None else (split,):
        for sample in loader.load(directory, name):
            if (job := _job(sample)) is not None:
                found.setdefault(sample.image_id, job)
    if not found:
        raise DeixisError(f"{directory} names no images. 'deixis data check {directory}' lists what is missing.")
    return list(found.values())


def _job(sample: data.Sample) -> Job | None:
    """Job of a sample; None where it has neither image nor video. Its captions and boxes are left out."""
    if sample.pixels is not None:
        return Job(sample.image_id, ())
    if sample.path is not None:
        return Job(sample.image_id, (sample.path,))
    video = None if sample.segment is None else sample.segment.path
    paths = sample.frames or (() if video is None else (video,))
    return Job(sample.image_id, paths, replace(sample, captions=(), entities=())) if paths else None


def plain_jobs(directory: Path) -> list[Job]:
    """List the images and clips of a plain folder by relative path; a folder of frames is one clip."""
    jobs = []
    for path in [*clips_in(directory), *images_in(directory)]:
        name = path.relative_to(directory).as_posix() or path.name
        jobs.append(clip_job(path, name) if is_clip(path) else Job(name, (path,)))
    if len({job.sample is None for job in jobs}) > 1:
        raise DeixisError(f"{directory} has photographs and clips. Put them into two folders: a store has one kind.")
    return jobs


def build_extractor(backbone: str, proposals: str, boxes: int, grid: int, device: str) -> RegionExtractor:
    """Build an extractor from the names of its parts; imports torch."""
    from deixis.device import choose
    from deixis.vision.extractor import named_extractor

    return named_extractor(backbone, proposals, boxes, grid).to(choose(device))


def build_variant(variant: str, grid: int, maps: bool = False) -> GridExtractor:
    """Build a variant of version 2, which does not need torch."""
    from deixis.vision.grid_extractor import GridExtractor

    return GridExtractor(variant, grid, maps=maps)


def maker(extractor: str, backbone: str, proposals: str, boxes: int, grid: int, maps: bool, device: str) -> Make:
    """Return a function that builds the extractor of these options and that can be pickled; raises if they clash."""
    if extractor == "v1":
        if maps:
            raise UsageError("--maps needs --extractor v2 or v2-detector.")
        return partial(build_extractor, backbone, proposals, boxes, grid, device)
    if (backbone, proposals, boxes) != ("efficientnet-lite2", "selective-search", 100):
        raise UsageError(f"--extractor {extractor} has its own proposals, boxes and backbone. Leave these options out.")
    return partial(build_variant, extractor, grid, maps)


def on_gpu(device: str) -> bool:
    """Return whether the networks run on a GPU, where one process with large batches is fastest."""
    if device == "cpu":
        return False
    from deixis.device import choose

    return choose(device).type != "cpu"


def pending_jobs(jobs: Sequence[Job], writer: StoreWriter) -> list[Job]:
    """List jobs that are not in the store; failed ones only if their file has changed."""
    return [job for job in jobs if job.image_id not in writer.image_ids and not _failed_before(job, writer)]


def store_outcomes(outcomes: Iterable[Outcome], writer: StoreWriter) -> Iterator[Outcome]:
    """Write each outcome to the store, as regions or as a skipped image, and yield it."""
    for outcome in outcomes:
        reason = outcome.reason
        if outcome.regions is not None:
            try:
                writer.add(outcome.job.image_id, outcome.regions)
            except DeixisError as error:
                reason = str(error)
        if reason:
            writer.skip(outcome.job.image_id, reason, stamp(outcome.job))
        yield outcome


@dataclass(frozen=True)
class FillReport:
    """Result of filling a store."""

    store: str
    extractor: str
    images: int  # in the whole store
    added: int
    skipped: dict[str, str]  # image id -> reason, of the images asked for
    bytes: int
    seconds: float


def report_fill(out: Path, image_ids: Sequence[str] | None, added: int, seconds: float) -> FillReport:
    """Summarise a store after filling; raises if none of the images asked for (None: of any) could be used."""
    store = FeatureStore(out)
    reasons = {image_id: str(entry["reason"]) for image_id, entry in store.skipped().items()}
    wanted = [*store, *reasons] if image_ids is None else image_ids
    skipped = {image_id: reasons[image_id] for image_id in wanted if image_id in reasons}
    if wanted and not any(image_id in store for image_id in wanted):
        first = next(iter(skipped.values()))
        raise DeixisError(f"None of the {len(wanted):,} images could be used. The first error: {first}")
    return FillReport(str(out), store.extractor, len(store), added, skipped, store.bytes, round(seconds, 1))


def verify_store(out: Path) -> None:
    """Read every shard again and compare checksums; raises if one differs."""
    bad = [name for name, sound in FeatureStore(out).verify() if not sound]
    if bad:
        raise DeixisError(
            f"{out} has damaged shards: {', '.join(bad)}. Delete these files and run the same command again."
        )


def _failed_before(job: Job, writer: StoreWriter) -> bool:
    entry = writer.skipped.get(job.image_id)
    return entry is not None and {key: value for key, value in entry.items() if key != "reason"} == stamp(job)


def stamp(job: Job) -> Json:
    """Size and modification time of the first file, to detect changes; empty if there is no file."""
    try:
        found = job.paths[0].stat()
    except (OSError, IndexError):
        return {}
    return {"bytes": found.st_size, "modified": found.st_mtime_ns}
