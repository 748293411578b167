"""Train AMC on human boxes of COCO instances, and point at the objects of classes with one box.

    python experiments/amc/human_boxes.py COCO STORE INIT OUT [--more DATA STORE] [--seeds 3]

INIT is a finished ALBEF of the table (WORK/albef-0). --more adds a data set to the training, such as the photographs of
coco-more with boxes of people. Texts of the test split of COCO are "a NAME", for classes with one box in the image. The
interval is the middle 95 % of resampled images.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import tyro

from deixis.data import Sample, recognise
from deixis.language.names import with_article
from deixis.language.queries import phrase_queries
from deixis.localize.points import bicubic_maximum
from deixis.methods.albef.model import AlbefGrounder
from deixis.vision.store import FeatureStore


def main(
    coco: tyro.conf.Positional[Path],
    store: tyro.conf.Positional[Path],
    init: tyro.conf.Positional[Path],
    out: tyro.conf.Positional[Path],
    more: tuple[Path, Path] | None = None,
    seeds: int = 3,
) -> None:
    """Print a line of pointing for ALBEF and for each AMC."""
    sets, stores = ([coco], [store]) if more is None else ([coco, more[0]], [store, more[1]])
    samples = [s for s in recognise(coco).load(coco, "test") if single_names(s)]
    features = FeatureStore(store)
    print(f"{len(samples)} images, {sum(len(single_names(s)) for s in samples)} texts")
    report("ALBEF", init, samples, features)
    for seed in range(seeds):
        run = out / f"amc-human-{seed}"
        command = ["deixis", "train", "amc-gradcam-small", "--data", *sets, "--features", *stores, "--init-from", init]
        subprocess.run([*map(str, command), "--seed", str(seed), "--monitor", "R@1", "--out", str(run)], check=True)
        report(f"AMC, human boxes, seed {seed}", run, samples, features)


def single_names(sample: Sample) -> dict[str, np.ndarray]:
    """Return the classes with one box in an image, and that box."""
    labels = [entity.label for entity in sample.entities for _ in entity.boxes]
    return {e.label: e.boxes[0] for e in sample.entities if len(e.boxes) == 1 and labels.count(e.label) == 1}


def report(title: str, model: Path, samples: list[Sample], features: FeatureStore) -> None:
    """Print pointing with its interval, and that of the image centre."""
    grounder = AlbefGrounder.from_pretrained(model)
    hits, centres = [], []
    for sample in samples:
        wanted = single_names(sample)
        (encoded,) = grounder.encode([features[sample.image_id]])
        found = grounder.ground(encoded, phrase_queries([with_article(name) for name in wanted]), "threshold")
        points = [bicubic_maximum(one.heat) for one in found if one.heat is not None]
        width, height = sample.image_size()
        hits.append([inside(point, box) for point, box in zip(points, wanted.values(), strict=True)])
        centres.append([inside((width / 2, height / 2), box) for box in wanted.values()])
    print(f"{title}: pointing {interval(hits)}; image centre {interval(centres)}", flush=True)
    sys.stdout.flush()


def inside(point: tuple[float, float], box: np.ndarray) -> bool:
    """Return whether a point is strictly inside a box."""
    return bool(box[0] < point[0] < box[2] and box[1] < point[1] < box[3])


def interval(hits: list[list[bool]], resamples: int = 10_000) -> str:
    """Return the share of hits in per cent with its bootstrap interval over images."""
    right, total = (np.array([function(one) for one in hits], dtype=float) for function in (sum, len))
    dice = np.random.default_rng(0)
    counts = dice.multinomial(len(hits), np.full(len(hits), 1 / len(hits)), resamples)
    low, high = np.percentile((counts @ right) / (counts @ total), [2.5, 97.5])
    return f"{100 * right.sum() / total.sum():.1f} ({100 * low:.1f} to {100 * high:.1f})"


if __name__ == "__main__":
    tyro.cli(main)
