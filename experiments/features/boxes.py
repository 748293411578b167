"""Recall, precision of the first box and number of distinct boxes of the regions in a feature store.

python boxes.py path/to/flickr30k-entities STORE --split val
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from deixis import boxes as geometry
from deixis import data
from deixis.vision.proposals.recall import targets
from deixis.vision.store import FeatureStore


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--split", default="val")
    options = parser.parse_args()
    store = FeatureStore(options.store)
    found, first, distinct, types = [], [], [], []
    for sample in data.load(options.data, options.split):
        wanted = targets(sample)
        if not len(wanted):
            continue
        boxes = store[sample.image_id].boxes.astype(np.float64)
        right = geometry.iou(wanted.boxes, boxes) >= 0.5
        found += right.any(1).tolist()
        first += right[:, min(1, len(boxes) - 1)].tolist()
        types += [kinds[0] if kinds else "" for kinds in wanted.types]
        distinct.append((1 / (geometry.iou(boxes, boxes) >= 0.5).sum(1)).sum())
    by_type = {
        kind: np.mean([f for f, k in zip(found, types, strict=True) if k == kind]) for kind in sorted(set(types))
    }
    shown = " ".join(f"{kind} {share:.2f}" for kind, share in by_type.items())
    print(f"recall {np.mean(found):.3f}, first {np.mean(first):.3f}, distinct {np.mean(distinct):.1f}, {shown}")


if __name__ == "__main__":
    main()
