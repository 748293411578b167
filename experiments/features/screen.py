"""Compare feature blocks on the same boxes: a two-epoch POS-SCAN matcher on 2,000 photographs, one seed.

    python screen.py path/to/flickr30k-entities NAME --out MODELS

NAME is one of ROWS: the blocks of a feature and the number of boxes. A block is a grid ("head", "grid32", "grid16",
"grid8") or its contrast with the surroundings ("grid32-d"), or "position". Prints one JSON line, as measure.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from measure import score, train

from deixis import data
from deixis.training.data import TrainingData
from deixis.types import ByteGrid, Regions
from deixis.vision import pooling
from deixis.vision.lite2 import Lite2
from deixis.vision.proposals import fast_search

PHOTOGRAPHS = 2000
ROWS = {
    "head, 48 boxes": (("head",), 48),
    "head, contrasts, position, 36 boxes": (("head", "grid32-d", "grid16-d", "position"), 36),
    "three strides, contrasts, position, 48 boxes": (
        ("grid32", "grid32-d", "grid16", "grid16-d", "grid8", "grid8-d", "position"),
        48,
    ),
}


def feature(
    grids: dict[str, ByteGrid], boxes: np.ndarray, size: tuple[int, int], blocks: tuple[str, ...]
) -> np.ndarray:
    """Features ``[N, D]`` of boxes from named blocks; all grids but the head are divided by 3, as in version 2."""
    found = []
    for block in blocks:
        name, _, contrast = block.partition("-")
        if name == "position":
            found.append(pooling.position(boxes, size))
            continue
        values = pooling.box_means(grids[name], boxes, size)
        if contrast:
            outside = np.clip(pooling.surroundings(boxes), 0, np.tile(size, 2))
            values = values - pooling.box_means(grids[name], outside, size)
        found.append(values if name == "head" else values * pooling.GRID_WEIGHT)
    return np.concatenate(found, axis=1).astype(np.float16)


def main() -> None:
    """Extract, train and print the scores of one row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("name", choices=ROWS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    (blocks, limit), network = ROWS[options.name], Lite2()
    training, validation = data.load(options.data, "train"), data.load(options.data, "val")
    spread = np.linspace(0, len(training) - 1, PHOTOGRAPHS).round().astype(int)
    training = [training[int(i)] for i in spread]
    regions = {}
    for sample in [*training, *validation]:
        image = sample.open()
        boxes = fast_search(limit).propose(np.asarray(image)).boxes
        maps = network.maps(image)
        grids = {"head": maps.head} | dict(zip(("grid8", "grid16", "grid32"), maps.grids, strict=True))
        values = feature(grids, boxes, image.size, blocks)
        regions[sample.image_id] = Regions(boxes, values, image.size, extractor="screen")
    parts = {part: {"name": "screen", "supervision": "none"} for part in ("backbone", "proposals")}
    extractor = {"name": "screen", "description": parts}
    known = TrainingData(training, list(validation), regions, extractor, "flickr30k_entities")
    grounder, recalls = train(known, 0, options.out / options.name)
    print(json.dumps({"row": options.name, "recall_sum": recalls, "scores": score(grounder, validation, regions)}))


if __name__ == "__main__":
    main()
