"""Fill a feature store with the regions of a corpus, by the same steps as results in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deixis.corpus.names import Names
from deixis.corpus.options import EngineOptions
from deixis.corpus.run import write_rows
from deixis.corpus.sources import Item, parse_shard
from deixis.corpus.work import FeaturesWork
from deixis.errors import DeixisError, UsageError
from deixis.types import Json
from deixis.vision.bulk import Job, contents_of
from deixis.vision.fill import Make, pending_jobs, stamp
from deixis.vision.store import StoreWriter


def fill_store(
    make: Make, out: Path, options: EngineOptions, sources: Sequence[str] = (), jobs: Sequence[Job] | None = None
) -> Iterator[tuple[int, int]]:
    """Extract the regions of images that a store lacks; yield the numbers of images added and of errors.

    The images are those of ``sources``, or ``jobs`` with one image file each. A file of ``jobs`` that could not be read
    is tried again if it has changed.
    """
    with StoreWriter(out, contents_of(make()), part=parse_shard(options.shard)) as writer:
        before, output = len(writer.image_ids), StoreParts(writer)
        images: Sequence[str | Item] = sources
        if jobs is not None:
            found = {job.image_id: job for job in pending_jobs(jobs, writer)}
            output, images = StoreParts(writer, lambda name: stamp(found[name])), [_item(job) for job in found.values()]
        for last in write_rows(FeaturesWork(make), images, output, writer.images_per_shard, options):
            yield len(writer.image_ids) - before, last.errors


def _item(job: Job) -> Item:
    if not job.paths or job.sample is not None:
        raise UsageError("clips and drawn scenes are extracted on the CPU only. Use --engine local --device cpu.")
    return Item(job.image_id, str(job.paths[0]))


class StoreParts:
    """A feature store that takes rows with "regions"; images with an "error" are its skipped images.

    ``stamp`` describes the file of an image, so that a caller can leave out failed images whose file is the same.
    Without it they are left out always.
    """

    def __init__(self, writer: StoreWriter, stamp: Callable[[str], Json] | None = None) -> None:
        self.writer, self.stamp = writer, stamp

    def done(self) -> Names:
        """Names of the images in the store, and of those that failed."""
        return Names((*self.writer.image_ids, *(self.writer.skipped if self.stamp is None else ())))

    def write(self, rows: Sequence[Json]) -> None:
        """Add the regions of images."""
        for row in rows:
            name, reason = str(row["image"]), row.get("error")
            if reason is None:
                try:
                    self.writer.add(name, row["regions"])
                except DeixisError as error:
                    reason = str(error)
            if reason is not None:
                self.writer.skip(name, str(reason), None if self.stamp is None else self.stamp(name))
        self.writer.flush()
