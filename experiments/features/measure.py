"""Measure a feature store: pointing and box accuracy of a two-epoch POS-SCAN matcher, by phrase type.

    python measure.py path/to/flickr30k-entities STORE --split val --seed 0 [--photos 1350] --out MODEL

Prints one JSON line. Controls on the same phrases: a random region, the centre of the image, the whole image, and votes
of uniform attention. "recall" is the share of phrases with a right region.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from deixis import boxes as geometry
from deixis import data
from deixis.data import Sample
from deixis.language.queries import caption_query
from deixis.language.spacy_parse import spacy_parse
from deixis.localize.points import bicubic_maximum
from deixis.localize.votes import vote_region
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.recipes import SCAN_RECIPES
from deixis.methods.scan.train import train_scan
from deixis.training.callbacks import Callbacks
from deixis.training.data import TrainingData
from deixis.types import Json, Regions
from deixis.vision.store import FeatureStore

COLUMNS = ("best region", "votes", "pointing", "random", "recall", "whole image", "centre", "uniform votes")


def train(training: TrainingData, seed: int, out: Path) -> tuple[ScanGrounder, float]:
    """Train POS-SCAN for two epochs; return it and the sum of its six recalls on the validation photographs."""
    recipe = SCAN_RECIPES["pos-scan-small"]
    phases = (recipe.phases[0], replace(recipe.phases[1], epochs=1))
    sums: list[float] = []
    callbacks = Callbacks(validated=lambda epoch, scores, best: sums.append(scores["recall_sum"]))
    train_scan(replace(recipe, seed=seed, phases=phases), training, out, callbacks)
    return ScanGrounder.from_pretrained(out), max(sums, default=float("nan"))


def score(grounder: ScanGrounder, samples: Sequence[Sample], regions: Mapping[str, Regions]) -> Json:
    """Percentages of ``COLUMNS`` over all phrases with a box, and by phrase type."""
    rows = [row for sample in samples for row in phrase_rows(grounder, sample, regions[sample.image_id])]
    types = np.array([kind for kind, _ in rows])
    values = 100 * np.array([each for _, each in rows])
    groups = {"all": np.ones(len(rows), dtype=bool)} | {kind: types == kind for kind in sorted(set(types))}
    return {
        name: {"phrases": int(rows.sum())} | dict(zip(COLUMNS, values[rows].mean(0).round(1).tolist(), strict=True))
        for name, rows in groups.items()
    }


def phrase_rows(grounder: ScanGrounder, sample: Sample, regions: Regions) -> Iterator[tuple[str, list[float]]]:
    """Yield type and scores of each phrase; the true box is the union of the boxes of its entity."""
    drawn = {entity.id: entity.boxes for entity in sample.entities if len(entity.boxes)}
    (photo,) = grounder.encode([regions])
    width, height = regions.size
    uniform = np.full(len(regions), 1 / len(regions))
    voted = regions.boxes[vote_region(regions, uniform, grounder.extractor.is_detector)]
    for caption in sample.captions:
        phrases = [phrase for phrase in caption.phrases if phrase.entity in drawn and phrase.end > phrase.start]
        if not phrases:
            continue
        query = caption_query(spacy_parse([caption.text], quiet=True)[0], phrases)
        answers = zip(*(grounder.ground(photo, [query], rule) for rule in ("attention", "vote")), strict=True)
        for phrase, (best, vote) in zip(phrases, answers, strict=True):
            true = drawn[phrase.entity]
            union = geometry.union(true)[None]
            right = geometry.iou([best.box, vote.box, (0, 0, width, height), voted], union)[:, 0] >= 0.5
            overlaps = geometry.iou(regions.boxes, union)[:, 0] >= 0.5
            points = [bicubic_maximum(vote.heat), (width / 2, height / 2)]
            hit, middle = (geometry.contains(true, point).any() for point in points)
            values = [right[0], right[1], hit, overlaps.mean(), overlaps.any(), right[2], middle, right[3]]
            yield (phrase.types[0] if phrase.types else ""), [float(value) for value in values]


def main() -> None:
    """Train on the photographs of the store and print the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--split", default="val")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--photos", type=int, help="train on the first photographs only")
    parser.add_argument("--out", type=Path, required=True, help="folder of the model; it is trained if it has none")
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = FeatureStore(options.store)
    known = TrainingData.from_folder(options.data, store).usable()
    known = replace(known, training=known.training[: options.photos])
    done = (options.out / "config.json").exists()
    grounder, recalls = (
        (ScanGrounder.from_pretrained(options.out), None) if done else train(known, options.seed, options.out)
    )
    samples = [each for each in data.load(options.data, options.split) if each.image_id in store and each.entities]
    about = {"store": options.store.name, "photos": len(known.training), "seed": options.seed, "split": options.split}
    print(json.dumps(about | {"recall_sum": recalls, "scores": score(grounder, samples, store)}))


if __name__ == "__main__":
    main()
