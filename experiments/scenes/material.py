"""Made scenes with partial proposals as material for training: the ground that all experiments in this folder share.

    python experiments/scenes/material.py --work path/to/folder

makes the features once, in some minutes, and goes on where it was stopped. Scripts import :func:`scenes`.

The proposals are those of :func:`deixis.data.scenes.proposals`: most boxes cover a thing only in part, a fifth of the
things has no box above IoU .5 at all, and no box is the whole picture. They are cut from the true boxes, so a detector
is played, not trained; what a box shows, and whether it is a good one, no method is told.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from deixis.data import Caption, Dataset, Sample
from deixis.data.scenes import make_scenes, proposals
from deixis.metrics.references import Reference, make_reference
from deixis.training.data import TrainingData
from deixis.types import Json, Regions
from deixis.vision.backbone import EfficientNetLite
from deixis.vision.extractor import RegionExtractor, extractor_name
from deixis.vision.proposals import Proposals
from deixis.vision.store import Contents, FeatureStore, StoreWriter

TRAINING, VALIDATION, TEST = 2000, 200, 400
BOXES = 50
LONG_SIDE = 448  # pictures have 224 pixels: at 288 a linear classifier names the thing in a box in 60 %, here in 72 %


@dataclass(frozen=True)
class Partial:
    """The partial proposals of made scenes, as an extractor wants them; there is no box of the whole picture."""

    samples: Mapping[str, Sample]
    limit: int = BOXES
    seed: int = 0

    def propose(self, image: np.ndarray, image_id: str = "") -> Proposals:
        """``limit`` boxes in random order, all with the same score."""
        boxes = proposals(self.samples[image_id], self.seed, self.limit).boxes.astype(np.float32)
        return Proposals(boxes, np.ones(len(boxes), dtype=np.float32))

    def describe(self) -> dict[str, Any]:
        """Where the boxes come from."""
        taught = "boxes: cut from the true boxes of the scenes, most of them partial"
        return {"name": "scenes-partial", "supervision": taught, "limit": self.limit, "seed": self.seed}


@dataclass(frozen=True, eq=False)
class Scenes:
    """Three splits with the regions of every picture."""

    training: Dataset
    validation: Dataset
    test: Dataset
    regions: Mapping[str, Regions]
    extractor: Json  # {"name", "description"}

    @property
    def material(self) -> TrainingData:
        """What recipes are trained on."""
        return TrainingData(self.training.samples, self.validation.samples, self.regions, self.extractor, "scenes")

    def reference(self, dataset: Dataset) -> Reference:
        """A split to score against, with the object classes of the training split."""
        return make_reference(dataset, training=lambda: self.training.samples)


def scenes(
    work: Path, training: int = TRAINING, validation: int = VALIDATION, test: int = TEST, talk: Console | None = None
) -> Scenes:
    """The first pictures of each split and their features, which are kept in ``work``; what is there is not remade."""
    talk = talk or Console(stderr=True, highlight=False)
    with talk.status("drawing scenes"):
        splits = [make_scenes(n, 0, name) for name, n in (("train", training), ("val", validation), ("test", test))]
    store = look(work / "scenes.store", [sample for dataset in splits for sample in dataset], talk)
    return Scenes(*splits, store, {"name": store.extractor, "description": store.contents.description})


def look(path: Path, samples: Sequence[Sample], talk: Console) -> FeatureStore:
    """The store with the regions of all samples; those it lacks are added."""
    eyes = RegionExtractor.of(EfficientNetLite(LONG_SIDE), Partial({sample.image_id: sample for sample in samples}))
    with StoreWriter(path, Contents(eyes.name, eyes.description)) as writer:
        missing = [sample for sample in samples if sample.image_id not in writer.image_ids]
        for sample in track(missing, "looking", console=talk, transient=True, disable=not talk.is_terminal):
            regions = eyes.extract(sample.open(), image_id=sample.image_id)
            writer.add(sample.image_id, replace(regions, labels=None))  # names of ImageNet: nobody here reads them
    return FeatureStore(path)


def naming_things(made: Scenes) -> Scenes:
    """The same with captions cut down to what they name: 'a bird and the red house' for 'A bird is over the red house.'

    Words that no pixel shows, and parts of things, are gone; a caption that names no thing is too.
    """

    def of(dataset: Dataset) -> Dataset:
        cut = (
            replace(s, captions=tuple(c for c in map(partial(_things_of, s), s.captions) if c.tokens)) for s in dataset
        )
        return replace(dataset, samples=tuple(sample for sample in cut if sample.captions))

    return replace(made, training=of(made.training), validation=of(made.validation), test=of(made.test))


def _things_of(sample: Sample, caption: Caption) -> Caption:
    things = {e.id for e in sample.entities if len(e.boxes) and ("." not in e.id or e.id.startswith("group."))}
    words: list[str] = []
    phrases = []
    for phrase in caption.phrases:
        if phrase.entity in things:
            words += ["and"] if words else []
            named = caption.tokens[phrase.start : phrase.end]
            phrases.append(replace(phrase, start=len(words), end=len(words) + len(named)))
            words += named
    return Caption(" ".join(words), tuple(words), tuple(phrases))


def whitened(made: Scenes, width: int) -> Scenes:
    """The same with region features whitened and cut to ``width`` dimensions, by what the training regions are like.

    Raw features share a large mean and a few large directions; a small network spends its first thousands of steps on
    undoing that.
    """
    some = np.concatenate([made.regions[s.image_id].features[::4].astype(np.float32) for s in made.training])
    middle = some.mean(0)
    some -= middle
    variance, directions = np.linalg.eigh((some.T @ some / len(some)).astype(np.float64))
    turn = (directions[:, -width:] / np.sqrt(variance[-width:])).astype(np.float32)  # [D, width]
    description = {**made.extractor["description"], "whitened": width}
    name = extractor_name(description)

    def turned(regions: Regions) -> Regions:
        return replace(regions, features=(regions.features.astype(np.float32) - middle) @ turn, extractor=name)

    regions = {image: turned(found) for image, found in made.regions.items()}
    return replace(made, regions=regions, extractor={"name": name, "description": description})


def main() -> None:
    """Make the material."""
    parser = argparse.ArgumentParser(description="Make scenes and their features, once.")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps the features")
    torch.set_num_threads(1)
    made = scenes(parser.parse_args().work)
    print(f"{made.extractor['name']}: {len(made.regions):,} pictures")


if __name__ == "__main__":
    main()
