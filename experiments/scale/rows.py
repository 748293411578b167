"""Memory and time of a corpus run: rows of tiny images made by code, in this process or in actors of Ray.

    python experiments/scale/rows.py --rows 100000 --engine ray --actors 2 --folder /tmp/rows > rows-ray.txt

The work is the mean colour of an image, so that the figures are those of listing, decoding, engine and parts, or with
``--work network`` a network of two layers. A line has the rows so far, the seconds since the first part, and the
resident memory of the driver and of each actor.
"""

from __future__ import annotations

import argparse
import io
import os
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from deixis.corpus.options import CorpusOptions
from deixis.corpus.parts import Parts
from deixis.corpus.run import run_corpus
from deixis.corpus.sources import Item
from deixis.corpus.work import Answer
from deixis.pipelines.photo import Photo
from deixis.types import Json

SIDE = 16  # pixels of an image
SHARDS = 10


def memory() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True)
class MeanColour:
    """Mean colour of each image, with the process that computed it and its memory."""

    def about(self) -> Json:
        """Settings that decide the result."""
        return {"verb": "mean colour"}

    def load(self) -> Answer:
        """Return the function that answers a batch."""

        def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            about = {"pid": os.getpid(), "memory": memory()}
            means = [np.asarray(photo.image).mean((0, 1)).round(2).tolist() for photo in photos]
            return [{"image": item.image, "mean": mean, **about} for item, mean in zip(items, means, strict=True)]

        return answer


@dataclass(frozen=True)
class TinyNetwork:
    """Class of each image by a small convolutional network with random weights."""

    def about(self) -> Json:
        """Settings that decide the result."""
        return {"verb": "tiny network"}

    def load(self) -> Answer:
        """Return the function that answers a batch."""
        import torch
        from torch import nn

        torch.manual_seed(0)
        torch.set_num_threads(1)
        network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10))

        def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            about = {"pid": os.getpid(), "memory": memory()}
            pixels = torch.from_numpy(np.stack([np.asarray(photo.image) for photo in photos])).permute(0, 3, 1, 2)
            with torch.inference_mode():
                classes = network(pixels.float() / 255).argmax(1).tolist()
            return [{"image": item.image, "class": k, **about} for item, k in zip(items, classes, strict=True)]

        return answer


def make_shards(folder: Path, rows: int) -> None:
    """Write tar shards of noise images."""
    random = np.random.default_rng(0)
    for shard in range(SHARDS):
        path = folder / f"{shard}.tar"
        with tarfile.open(path, "w") as tar:
            for number in range(shard, rows, SHARDS):
                file = io.BytesIO()
                Image.fromarray(random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(file, "PNG")
                entry = tarfile.TarInfo(f"{number:08}.png")
                entry.size = file.tell()
                file.seek(0)
                tar.addfile(entry, file)


def main() -> None:
    """Make the images, run, and print the lines."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--work", choices=["colour", "network"], default="colour")
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    images = given.folder / f"images-{given.rows}"
    if not images.exists():
        images.mkdir(parents=True)
        make_shards(images, given.rows)
    work = MeanColour() if given.work == "colour" else TinyNetwork()
    parts = given.folder / f"{given.work}-{given.engine}-{given.actors}"
    options = CorpusOptions(parts=parts, engine=given.engine, actors=given.actors, batch=64, part_rows=5_000)
    load = f"load={os.getloadavg()[0]:.0f}"
    print(f"# work={given.work} rows={given.rows} engine={given.engine} actors={given.actors} {load}")
    print("rows\tseconds\tdriver CPU s\tdriver MB\tactors MB", flush=True)
    seen: set[Path] = set()
    started = None
    for done in run_corpus(work, [f"{images}/*.tar"], options):
        started = started or time.monotonic()
        output = Parts(parts, work.about())
        new = sorted(set(output.files()) - seen)
        seen |= set(new)
        latest = {row["pid"]: row["memory"] for row in output.rows(new) if row["pid"] != os.getpid()}
        actors = " ".join(f"{latest[pid]:.0f}" for pid in sorted(latest))
        seconds = time.monotonic() - started
        print(f"{done.rows}\t{seconds:.1f}\t{time.process_time():.1f}\t{memory():.0f}\t{actors}", flush=True)
    print(f"# unique rows in the parts: {len(output.done()):,}, load={os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
