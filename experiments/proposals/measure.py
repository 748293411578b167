"""Recall and cost of many settings of the default proposals, to choose among them on the validation split.

    python experiments/proposals/measure.py path/to/flickr30k-entities --split val > experiments/proposals/val.tsv

One line for each setting: recall at IoU .5 with 10, 50, 100 and 200 boxes (phrases), with 100 boxes each entity once,
at IoU .7 with 100 boxes, average recall with 100 boxes, and milliseconds of CPU time for each image. Searching is
done once for all settings that differ only in how boxes are ranked; its time counts for each of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from rich.console import Console
from rich.progress import track

from deixis import boxes as geometry
from deixis import data
from deixis.vision.proposals import CocoSsd, CocoSsdAndSearch, Grid, SelectiveSearch
from deixis.vision.proposals.base import whole_image
from deixis.vision.proposals.cover import cover
from deixis.vision.proposals.recall import best_overlaps, recall, targets

COUNTS = (10, 50, 100, 200)
Rank = Callable[[np.ndarray, np.ndarray], np.ndarray]  # boxes [N, 4], image -> ranked boxes

base = SelectiveSearch(limit=max(COUNTS))


def chosen(search: SelectiveSearch) -> Rank:
    """As the package does it."""

    def rank(boxes: np.ndarray, image: np.ndarray) -> np.ndarray:
        whole = whole_image(image)
        return boxes[cover(boxes, search.weigh(boxes, image), search.limit - 1, search.ramp, whole)[0]]

    return rank


def largest(overlap: float) -> Rank:
    """Large boxes first, duplicates dropped: the usual way."""
    return lambda boxes, image: boxes[geometry.nms(boxes, geometry.area(boxes), overlap)]


def shuffled(boxes: np.ndarray, image: np.ndarray) -> np.ndarray:
    """What OpenCV's random ranking amounts to when large and small groups have equal chances."""
    return boxes[np.random.default_rng(0).permutation(len(boxes))]


def plain(image: np.ndarray) -> np.ndarray:
    """OpenCV's fast mode at 200 pixels in the order it gives, which is random and differs from run to run."""
    height, width = image.shape[:2]
    scale = 200 / max(height, width)
    small = (round(width * scale), round(height * scale))
    search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(cv2.resize(image, small, interpolation=cv2.INTER_AREA)[..., ::-1].copy())
    search.switchToSelectiveSearchFast()
    return geometry.from_xywh(search.process()) * np.tile([width / small[0], height / small[1]], 2)


def settings() -> list[tuple[str, SelectiveSearch, Rank]]:
    """Name, how to search, how to rank."""
    rows: list[tuple[str, SelectiveSearch, Rank]] = [
        ("random order", base, shuffled),
        *((f"largest first, IoU > {t} dropped", base, largest(t)) for t in (0.5, 0.6, 0.7, 0.8)),
    ]
    plain = replace(base, square_power=0.0, border=1.0)
    rankings = [
        ("cover, all boxes equal", replace(plain, area_power=0.0)),
        ("cover, area", plain),
        ("cover, area and squareness", replace(base, border=1.0)),
        ("cover, area and border", replace(base, square_power=0.0)),
        ("cover, area, squareness, border (default)", base),
        *((f"default, ramp {low}-{high}", replace(base, ramp=(low, high))) for low, high in RAMPS),
        *((f"default, area power {power}", replace(base, area_power=power)) for power in (0.25, 0.4, 0.6, 0.75)),
        *((f"default, square power {power}", replace(base, square_power=power)) for power in (0.5, 1.0)),
        *((f"default, border {weight}", replace(base, border=weight)) for weight in (0.5, 0.6, 0.8)),
    ]
    searches = [
        *((f"default, k {k}", replace(base, coarseness=k)) for k in COARSENESS),
        *((f"default, side {side}", replace(base, side=side)) for side in (160, 200, 220)),
        *((f"default, blur {sigma}", replace(base, smooth=sigma)) for sigma in (0.6, 1.0)),
        *((f"default, smallest {pixels}", replace(base, smallest=pixels)) for pixels in (40, 120)),
        *((f"side {side}, smallest {pixels}", replace(base, side=side, smallest=pixels)) for side, pixels in SIZES),
    ]
    return rows + [(name, search, chosen(search)) for name, search in rankings + searches]


RAMPS = ((0.3, 0.7), (0.3, 0.8), (0.3, 0.9), (0.4, 0.7), (0.4, 0.8), (0.5, 0.8), (0.5, 0.9))
SIZES = ((160, 50), (160, 64), (180, 60), (180, 100), (200, 80), (200, 100))
COARSENESS = ((200,), (100, 200), (100, 300), (200, 400), (150, 300), (50, 100, 200, 400))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--split", default="val")
    parser.add_argument("--only", default="", help="only settings whose name holds this text")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    samples = [
        (sample, wanted) for sample in data.load(arguments.directory, arguments.split) if len(wanted := targets(sample))
    ]
    images = [np.asarray(sample.open()) for sample, _ in samples]
    print("\t".join(["setting", *(f"R.5@{n}" for n in COUNTS), "entities R.5@100", "R.7@100", "AR@100", "boxes", "ms"]))
    found: dict[tuple[object, ...], tuple[list[np.ndarray], float]] = {}

    def report(name: str, boxes: list[np.ndarray], seconds: float) -> None:
        overlaps = [best_overlaps(wanted, each, COUNTS) for (_, wanted), each in zip(samples, boxes, strict=True)]
        rows = np.concatenate(overlaps)
        all_, once = recall(rows, COUNTS), recall(rows[np.concatenate([wanted.first for _, wanted in samples])], COUNTS)
        values = [all_.recall[str(n)]["0.5"] for n in COUNTS]
        values += [once.recall["100"]["0.5"], all_.recall["100"]["0.7"], all_.average["100"]]
        many = np.mean([len(each) for each in boxes])
        ms = 1000 * seconds / len(images)
        print("\t".join([name, *(f"{value:.3f}" for value in values), f"{many:.0f}", f"{ms:.0f}"]), flush=True)

    talk = Console(stderr=True)
    for name, search, rank in track([row for row in settings() if arguments.only in row[0]], console=talk):
        key = (search.side, search.coarseness, search.smooth, search.smallest)
        if key not in found:
            begun = time.process_time()
            found[key] = ([search.search(image) for image in images], time.process_time() - begun)
        raw, seconds = found[key]
        begun = time.process_time()
        ranked = [
            np.concatenate([whole_image(image)[None], rank(boxes, image)])
            for boxes, image in zip(raw, images, strict=True)
        ]
        report(name, ranked, seconds + time.process_time() - begun)
    if arguments.only in "plain":
        for name, first in (("plain", 0), ("plain, with the whole image", 1)):
            begun = time.process_time()
            boxes = [np.concatenate([whole_image(image)[None][:first], plain(image)]) for image in images]
            report(name, boxes, time.process_time() - begun)
    for proposer in (Grid(limit=200), CocoSsd(limit=200), CocoSsdAndSearch(limit=200)):
        name = str(proposer.describe()["name"])
        if arguments.only in name:
            proposer.propose(images[0])  # loads what it needs
            begun = time.process_time()
            boxes = [proposer.propose(image).boxes for image in images]
            report(name, boxes, time.process_time() - begun)


if __name__ == "__main__":
    main()
