"""How fast photographs become regions, and how fast they are read again.

    python benchmarks/vision.py --data path/to/flickr30k-entities --images 60
    python benchmarks/vision.py                    on crops of scikit-image's photographs

Stages are CPU seconds of one thread. Images per second are wall time over worker processes, so a busy machine shows:
the two-process figure is only as good as the second core is free. The share of the GEMM rate compares the backbone's
floating point operations with a square matrix product timed in the same run.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from deixis import boxes as geometry
from deixis.images import load_image
from deixis.types import Regions
from deixis.vision.bulk import Job, Workers
from deixis.vision.extractor import RegionExtractor, named_extractor
from deixis.vision.fill import find_jobs
from deixis.vision.grid_extractor import GridExtractor, repool
from deixis.vision.map_extractor import in_cells
from deixis.vision.pixels import resized
from deixis.vision.pooling import box_means
from deixis.vision.roi import roi_align, roi_mean
from deixis.vision.store import Contents, FeatureStore, StoreWriter

PACK = 7_991
"""Photographs in the part of Flickr30k Entities that the targets are set on."""


def main() -> None:
    """Measure, print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a data set or a folder of images")
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--extractor", choices=["v1", "v2", "v2-detector"], default="v1")
    parser.add_argument("--backbone", default="efficientnet-lite2")
    parser.add_argument("--proposals", default="selective-search")
    parser.add_argument("--boxes", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    folder = Path(tempfile.mkdtemp(prefix="deixis-vision-"))
    try:
        jobs = spread(find_jobs(options.data), options.images) if options.data else made_jobs(folder, options.images)
        if options.extractor == "v1":
            make = partial(named_extractor, options.backbone, options.proposals, options.boxes)
            found = measure(jobs, make, folder)
        else:
            found = measure_variant(jobs, partial(GridExtractor, options.extractor), folder)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(found, indent=2) if options.json else table(found))


def measure(jobs: list[Job], make: Callable[[], RegionExtractor], folder: Path) -> dict[str, float]:
    """Every figure by its name; the unit is in the name."""
    extractor = make()
    stages, flops, regions = by_stage(extractor, jobs)
    found = {f"{name}, ms": 1e3 * seconds for name, seconds in stages.items()}
    found["all of it, ms"] = 1e3 * sum(stages.values())
    rate = gemm_rate()
    found["matrix product, GFLOP/s"] = rate / 1e9
    found["backbone, GFLOP"] = flops / 1e9
    found["backbone, share of the GEMM rate"] = flops / stages["backbone"] / rate
    found["RoI mean as a matrix product, times faster than grid_sample"] = pooling_ratio(extractor, jobs[0])
    found["1 process, images/s"], _ = throughput(make, jobs, 1)
    found["2 processes, images/s"], memory = throughput(make, jobs, 2)
    found["two processes over one"] = found["2 processes, images/s"] / found["1 process, images/s"]
    found["memory of two workers at their peaks, GB"] = memory / 1e9
    found |= storage(regions, extractor, folder)
    found["pack on two cores by CPU time, min"] = PACK * sum(stages.values()) / 2 / 60
    found["pack on disk, GB"] = PACK * found["store, bytes an image"] / 1e9
    return found


def measure_variant(jobs: list[Job], make: Callable[[], GridExtractor], folder: Path) -> dict[str, float]:
    """Every figure of a variant of version 2 by its name; the unit is in the name."""
    extractor, stages, regions = make(), defaultdict[str, float](float), list[Regions]()
    extractor.extract(load_image(jobs[0].paths[0]))  # whatever is prepared once is not a stage
    for job in jobs:
        times = [time.process_time()]
        image = load_image(job.paths[0])
        pixels = np.asarray(image)
        times.append(time.process_time())
        proposals = extractor.proposer.propose(pixels, job.image_id)
        times.append(time.process_time())
        maps = extractor.backbone.maps([image])[0]
        times.append(time.process_time())
        repool(maps.grids, proposals.boxes, image.size)
        times.append(time.process_time())
        extractor.backbone.classify(box_means(maps.head, proposals.boxes, image.size))
        times.append(time.process_time())
        names = ("open and decode", "proposals", "resize and network", "pooling", "classes")
        for name, seconds in zip(names, np.diff(times), strict=True):
            stages[name] += float(seconds) / len(jobs)
        regions.append(extractor.extract(image, image_id=job.image_id))
    found = {f"{name}, ms": 1e3 * seconds for name, seconds in stages.items()}
    found["all of it, ms"] = 1e3 * sum(stages.values())
    found["1 process, images/s"], _ = throughput(make, jobs, 1)
    found["2 processes, images/s"], memory = throughput(make, jobs, 2)
    found["memory of two workers at their peaks, GB"] = memory / 1e9
    return found | storage(regions, extractor, folder)


def by_stage(extractor: RegionExtractor, jobs: list[Job]) -> tuple[dict[str, float], float, list[Regions]]:
    """Mean CPU seconds of each stage, mean floating point operations of the backbone, and the regions."""
    stages: dict[str, float] = defaultdict(float)
    flops, regions = 0.0, []

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        stages[name] += (time.process_time() - start) / len(jobs)

    extractor.extract(load_image(jobs[0].paths[0]))  # whatever is prepared once is not a stage
    for job in jobs:
        with stage("open and decode"):
            image = load_image(job.paths[0])
            pixels = np.asarray(image)
        with stage("proposals"):
            proposals = extractor.proposer.propose(pixels, job.image_id)
        size = extractor.backbone.input_size(*image.size)
        with stage("resize"):
            inputs = torch.from_numpy(resized(image, size))[None]
        with stage("backbone"):
            maps = extractor.backbone.feature_map(inputs)
        with stage("RoI pooling"):
            cells = in_cells(geometry.as_boxes(proposals.boxes) * np.tile(np.divide(size, image.size), 2), maps)
            features = roi_mean(maps.values[0], torch.from_numpy(cells.astype(np.float32)))
        with stage("classes"):
            extractor.backbone.classify(features).topk(5)
        with FlopCounterMode(display=False) as counter:
            extractor.backbone.feature_map(inputs)
        flops += counter.get_total_flops() / len(jobs)
        regions.append(extractor.extract(image, proposals.boxes))
    return dict(stages), flops, regions


def gemm_rate(side: int = 1024) -> float:
    """Floating point operations a second of a single precision matrix product on one thread."""
    a, b = torch.rand(2, side, side)
    return 2 * side**3 / fastest(lambda: a @ b, 20)


def pooling_ratio(extractor: RegionExtractor, job: Job) -> float:
    """The same means of 100 boxes both ways."""
    image = load_image(job.paths[0])
    size = extractor.backbone.input_size(*image.size)
    values = extractor.backbone.feature_map(torch.from_numpy(resized(image, size))[None]).values[0]
    corners = torch.rand(100, 2, 2, generator=torch.Generator().manual_seed(0)).sort(1).values
    boxes = (corners * torch.tensor([values.shape[2], values.shape[1]])).flatten(1)
    torch.testing.assert_close(roi_mean(values, boxes), roi_align(values, boxes, 1, 14)[:, :, 0, 0])
    return fastest(lambda: roi_align(values, boxes, 1, 14), 3) / fastest(lambda: roi_mean(values, boxes), 10)


def throughput(
    make: Callable[[], RegionExtractor | GridExtractor], jobs: list[Job], processes: int
) -> tuple[float, float]:
    """Images a second, from the first job to the last answer, and the peak memory of the workers in bytes.

    The workers have started and warmed up before.
    """
    with Workers(make, processes) as workers:
        list(workers.run(jobs[:1] * 2 * processes))
        start = time.perf_counter()
        done = sum(outcome.regions is not None for outcome in workers.run(jobs))
        rate = done / (time.perf_counter() - start)
        return rate, sum(peak_memory(child.pid) for child in multiprocessing.active_children())


def peak_memory(pid: int | None) -> float:
    """The most that a running process has had in memory, in bytes; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def storage(
    regions: list[Regions], extractor: RegionExtractor | GridExtractor, folder: Path, images: int = 512
) -> dict[str, float]:
    """Writing and random reading of a store that is in the page cache."""
    contents = Contents(extractor.name, extractor.description)
    start = time.process_time()
    with StoreWriter(folder / "store", contents) as writer:
        for number in range(images):
            writer.add(str(number), regions[number % len(regions)])
    writing = (time.process_time() - start) / images
    store = FeatureStore(folder / "store")
    order = [str(number) for number in np.random.default_rng(0).integers(0, images, 4_000)]
    start = time.process_time()
    for image_id in order:
        one = store[image_id]
        one.features.copy(), one.boxes.copy()
    reading = time.process_time() - start
    return {
        "store: write, ms": 1e3 * writing,
        "store: read at random, images/s": len(order) / reading,
        "store, bytes an image": store.bytes / images,
    }


def fastest(work: Callable[[], object], runs: int) -> float:
    """CPU seconds of the fastest run."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def spread(jobs: list[Job], count: int) -> list[Job]:
    """So many jobs, taken evenly from all of them."""
    return [jobs[i] for i in np.linspace(0, len(jobs) - 1, min(count, len(jobs))).round().astype(int)]


def made_jobs(folder: Path, count: int) -> list[Job]:
    """Crops of scikit-image's photographs, 320 pixels on the long side, as JPEG files."""
    try:
        from skimage import data
    except ImportError:
        sys.exit("there are no photographs: name a folder with --data, or install scikit-image")
    sources = [Image.fromarray(getattr(data, name)()) for name in ("astronaut", "chelsea", "coffee", "rocket")]
    rng, jobs = np.random.default_rng(0), []
    for number in range(count):
        source = sources[number % len(sources)]
        width, height = (round(length * rng.uniform(0.6, 1)) for length in source.size)
        x, y = (int(rng.integers(0, a - b + 1)) for a, b in zip(source.size, (width, height), strict=True))
        crop = source.crop((x, y, x + width, y + height))
        crop.thumbnail((320, 320))
        path = folder / f"{number}.jpg"
        crop.save(path)
        jobs.append(Job(path.name, (path,)))
    return jobs


def table(found: dict[str, float]) -> str:
    """One line for each figure."""
    width = max(map(len, found))
    return "\n".join(f"{name:<{width}}  {value:>12,.2f}" for name, value in found.items())


if __name__ == "__main__":
    main()
