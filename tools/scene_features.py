"""Write cheap region features of made scenes, photographs or clips, to a feature store for comparisons on two cores.

    python tools/scene_features.py scenes-video:64 scenes-video.store

Boxes are the proposals of the scenes (most of them on a part of a thing). A feature is the mean colour of the cells of
a 4 x 4 grid in the box, with the size of the box: 50 numbers between 0 and 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from deixis.data import Sample, scenes
from deixis.types import Regions
from deixis.vision.store import Contents, StoreWriter

CELLS, BOXES = 4, 12
NAME = "scene-proposals+mean-colours"
ABOUT = {"version": 1, "backbone": {"name": "mean-colours"}, "proposals": {"name": "scene-proposals", "limit": BOXES}}


def describe(pixels: npt.NDArray[np.uint8], box: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the feature of one box."""
    height, width = pixels.shape[:2]
    x1, y1 = np.floor(box[:2]).astype(int).clip(0, [width - 1, height - 1])
    x2, y2 = np.maximum(np.ceil(box[2:]).astype(int), [x1 + 1, y1 + 1])
    cells = cv2.resize(pixels[y1:y2, x1:x2], (CELLS, CELLS), interpolation=cv2.INTER_AREA) / 255.0
    return np.concatenate([cells.ravel(), [(x2 - x1) / width, (y2 - y1) / height]]).astype(np.float32)


def regions(sample: Sample) -> Regions:
    """Return the regions of a photograph or a clip."""
    assert sample.pixels is not None
    found = scenes.proposals(sample, n=BOXES)
    frames = [...] * len(found.boxes) if found.frames is None else found.frames.tolist()
    features = [describe(sample.pixels[frame], box) for frame, box in zip(frames, found.boxes, strict=True)]
    return Regions(found.boxes, np.stack(features), sample.image_size(), frames=found.frames, extractor=NAME)


def main(data: str, out: str) -> None:
    """Write the regions of all splits."""
    with StoreWriter(Path(out), Contents(NAME, ABOUT)) as writer:
        for split in scenes.splits(data):
            for sample in scenes.load(data, split):
                if sample.image_id not in writer.image_ids:
                    writer.add(sample.image_id, regions(sample))
            writer.flush()
            print(f"{split}: {len(writer.image_ids)} images", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
