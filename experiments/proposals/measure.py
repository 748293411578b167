"""Measure recall and cost of many settings of the default proposals, on the validation split.

    python experiments/proposals/measure.py path/to/flickr30k-entities --split val > experiments/proposals/val.tsv

One line for each setting: recall of phrases at IoU .5 with 10, 50, 100 and 200 boxes; recall of entities at IoU .5 with
100 boxes; recall at IoU .7 and average recall with 100 boxes; mean number of boxes; milliseconds of CPU time per image.
Settings that differ only in the ranking share one search; its time counts for each of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import tyro
from rich.console import Console
from rich.progress import track

from deixis import boxes as geometry
from deixis.data import Sample, load
from deixis.vision.proposals import CocoSsd, CocoSsdAndSearch, Grid, Proposer, SelectiveSearch
from deixis.vision.proposals.base import whole_image
from deixis.vision.proposals.cover import cover
from deixis.vision.proposals.recall import best_overlaps, recall, targets

COUNTS = (10, 50, 100, 200)
Rank = Callable[[np.ndarray, np.ndarray], np.ndarray]  # boxes [N, 4], image -> ranked boxes

base = SelectiveSearch(limit=max(COUNTS))


def by_cover(search: SelectiveSearch) -> Rank:
    """Return the ranking of the package."""

    def rank(boxes: np.ndarray, image: np.ndarray) -> np.ndarray:
        whole = whole_image(image)
        return boxes[cover(boxes, search.weigh(boxes, image), search.limit - 1, search.ramp, whole)[0]]

    return rank


def largest(overlap: float) -> Rank:
    """Return a ranking by area without boxes that overlap a larger one: the usual way."""
    return lambda boxes, image: boxes[geometry.nms(boxes, geometry.area(boxes), overlap)]


def shuffled(boxes: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Rank boxes in random order, as OpenCV does if large and small groups have equal chances."""
    return boxes[np.random.default_rng(0).permutation(len(boxes))]


def opencv_fast(image: np.ndarray) -> np.ndarray:
    """Return the boxes of OpenCV's fast mode at 200 pixels; their order is random and differs between runs."""
    height, width = image.shape[:2]
    scale = 200 / max(height, width)
    small = (round(width * scale), round(height * scale))
    search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(cv2.resize(image, small, interpolation=cv2.INTER_AREA)[..., ::-1].copy())
    search.switchToSelectiveSearchFast()
    return geometry.from_xywh(search.process()) * np.tile([width / small[0], height / small[1]], 2)


def settings() -> list[tuple[str, SelectiveSearch, Rank]]:
    """Return the settings: name, search, ranking."""
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
    return rows + [(name, search, by_cover(search)) for name, search in rankings + searches]


RAMPS = ((0.3, 0.7), (0.3, 0.8), (0.3, 0.9), (0.4, 0.7), (0.4, 0.8), (0.5, 0.8), (0.5, 0.9))
SIZES = ((160, 50), (160, 64), (180, 60), (180, 100), (200, 80), (200, 100))
COARSENESS = ((200,), (100, 200), (100, 300), (200, 400), (150, 300), (50, 100, 200, 400))


class Table:
    """The photographs with boxes, and a line of recall for each setting."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        wanted = [(sample, targets(sample)) for sample in samples]
        self.targets = [each for _, each in wanted if len(each)]
        self.images = [np.asarray(sample.open()) for sample, each in wanted if len(each)]
        self._searched: dict[tuple[object, ...], tuple[list[np.ndarray], float]] = {}

    def search(self, search: SelectiveSearch) -> tuple[list[np.ndarray], float]:
        """Return the boxes of all photographs and the CPU seconds; a search is run once."""
        key = (search.side, search.coarseness, search.smooth, search.smallest)
        if key not in self._searched:
            self._searched[key] = timed(lambda: [search.search(image) for image in self.images])
        return self._searched[key]

    def print_line(self, name: str, boxes: list[np.ndarray], seconds: float) -> None:
        """Print the scores of ranked boxes."""
        overlaps = [best_overlaps(wanted, each, COUNTS) for wanted, each in zip(self.targets, boxes, strict=True)]
        rows = np.concatenate(overlaps)
        phrases = recall(rows, COUNTS)
        entities = recall(rows[np.concatenate([wanted.first for wanted in self.targets])], COUNTS)
        values = [phrases.recall[str(n)]["0.5"] for n in COUNTS]
        values += [entities.recall["100"]["0.5"], phrases.recall["100"]["0.7"], phrases.average["100"]]
        count = np.mean([len(each) for each in boxes])
        ms = 1000 * seconds / len(self.images)
        print("\t".join([name, *(f"{value:.3f}" for value in values), f"{count:.0f}", f"{ms:.0f}"]), flush=True)


def timed(compute: Callable[[], list[np.ndarray]]) -> tuple[list[np.ndarray], float]:
    """Return the result of a function and its CPU seconds."""
    start = time.process_time()
    result = compute()
    return result, time.process_time() - start


def rank_with_whole_image(table: Table, found: list[np.ndarray], rank: Rank) -> list[np.ndarray]:
    """Return the ranked boxes of each photograph, after the whole image."""
    pairs = zip(found, table.images, strict=True)
    return [np.concatenate([whole_image(image)[None], rank(boxes, image)]) for boxes, image in pairs]


def main(directory: tyro.conf.Positional[Path], split: str = "val", only: str = "", limit: int | None = None) -> None:
    """Print the table.

    Args:
        directory: the data set.
        split: its split.
        only: print only settings whose name contains this text.
        limit: use only this many photographs of the split.
    """
    cv2.setNumThreads(1)
    table = Table(load(directory, split).samples[:limit])
    print("\t".join(["setting", *(f"R.5@{n}" for n in COUNTS), "entities R.5@100", "R.7@100", "AR@100", "boxes", "ms"]))
    chosen = [setting for setting in settings() if only in setting[0]]
    for name, search, rank in track(chosen, console=Console(stderr=True)):
        found, seconds = table.search(search)
        ranked, more = timed(partial(rank_with_whole_image, table, found, rank))
        table.print_line(name, ranked, seconds + more)
    if only in "plain":
        found, seconds = timed(lambda: [opencv_fast(image) for image in table.images])
        table.print_line("plain", found, seconds)
        whole = rank_with_whole_image(table, found, lambda boxes, image: boxes)
        table.print_line("plain, with the whole image", whole, seconds)
    for proposer in (Grid(limit=200), CocoSsd(limit=200), CocoSsdAndSearch(limit=200)):
        name = str(proposer.describe()["name"])
        if only in name:
            proposer.propose(table.images[0])  # load models before the time is measured
            table.print_line(name, *timed(partial(propose, proposer, table.images)))


def propose(proposer: Proposer, images: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the boxes of each photograph."""
    return [proposer.propose(image).boxes for image in images]


if __name__ == "__main__":
    tyro.cli(main)
