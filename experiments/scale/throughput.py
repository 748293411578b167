"""Images a second and CPU time an image of real work, in this process or in actors of Ray.

    python experiments/scale/throughput.py PHOTOS --work caption --engine ray --actors 2 --folder /tmp/throughput

Each process computes one batch before its clock starts, so that loading models is not counted. The printed line has
the images after these batches, the wall time between the first and the last part, the CPU time of an image (all
threads of the processes that compute) and the bytes of a row, or of the arrays of its regions.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deixis.corpus.options import CorpusOptions
from deixis.corpus.parts import Parts
from deixis.corpus.run import run_corpus
from deixis.corpus.sources import Item
from deixis.corpus.work import Answer, CaptionWork, FeaturesWork, GroundWork, Work
from deixis.photographs import images_in
from deixis.pipelines.photo import Photo
from deixis.types import Json, Regions
from deixis.vision.fill import build_extractor, build_variant

CAPTIONER, GROUNDER = "deixis-base", "deixis-base-grounder"
WORKS: dict[str, Work] = {
    "caption": CaptionWork(CAPTIONER, GROUNDER, device="cpu"),
    "ground": GroundWork(GROUNDER, ("a dog", "a man"), device="cpu"),
    "v1": FeaturesWork(partial(build_extractor, "efficientnet-lite2", "selective-search", 100, 0, "cpu")),
    "v1-grid": FeaturesWork(partial(build_extractor, "efficientnet-lite2", "grid", 100, 0, "cpu")),
    "v2": FeaturesWork(partial(build_variant, "v2", 0)),
    "v2-detector": FeaturesWork(partial(build_variant, "v2-detector", 0)),
}


@dataclass(frozen=True)
class Decode:
    """Nothing but decoding."""

    def about(self) -> Json:
        """Settings that decide the result."""
        return {"verb": "decode"}

    def load(self) -> Answer:
        """Return the function that answers a batch."""
        return lambda photos, items: [{"image": photo.name, "width": photo.image.width} for photo in photos]


@dataclass(frozen=True)
class Measured:
    """A work whose rows have the process, its CPU time so far, and the bytes of the result."""

    work: Work

    def about(self) -> Json:
        """Settings that decide the result."""
        return self.work.about()

    def load(self) -> Answer:
        """Load the models."""
        answer = self.work.load()

        def measured(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            rows = [{"image": row["image"], "bytes": size(row)} for row in answer(photos, items)]
            return [{**row, "pid": os.getpid(), "cpu": time.process_time()} for row in rows]

        return measured


def size(row: Json) -> int:
    """Bytes of a row as JSON, or of the arrays of its regions."""
    regions = row.get("regions")
    if not isinstance(regions, Regions):
        return len(json.dumps(row)) + 1
    return sum(getattr(value, "nbytes", 0) for value in vars(regions).values())


def main() -> None:
    """Run the work and print one line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("photos", type=Path)
    parser.add_argument("--work", choices=["decode", *WORKS], required=True)
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--limit", type=int, default=96)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    items = [Item(path.name, str(path)) for path in sorted(images_in(given.photos))[: given.limit]]
    work = Measured(WORKS.get(given.work, Decode()))
    parts = given.folder / f"{given.work}-{given.engine}-{given.actors}"
    options = CorpusOptions(
        parts=parts, engine=given.engine, actors=given.actors, batch=given.batch, part_rows=given.batch
    )
    times = [time.monotonic() for _ in run_corpus(work, items, options)]  # of parts; the last is that of the end
    rows = list(Parts(parts, work.about()).rows())
    cpu, counted = 0.0, 0
    for pid in {row["pid"] for row in rows}:
        own = sorted(row["cpu"] for row in rows if row["pid"] == pid)
        cpu, counted = cpu + own[-1] - own[0], counted + len(own) - given.batch
    seconds = times[-1] - times[0]
    print(
        f"{given.work}\t{given.engine}\tprocesses={given.actors}\timages={counted}\twall={seconds:.1f}s\t"
        f"images/s={(len(rows) - given.batch) / seconds:.2f}\tCPU={1000 * cpu / counted:.0f}ms/image\t"
        f"bytes/image={sum(row['bytes'] for row in rows) // len(rows)}\tload={os.getloadavg()[0]:.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
