"""Regions of better detectors, from the boxes of a data set (Cyclical, Table 3).

:func:`perfect_detector`: the regions of an image are its true boxes, and the feature of a box is the mean of the
one-hot vectors of its object words, so that the first layer of a captioner learns an embedding of each object word.

:func:`biased_detector`: a classifier of the regions is tuned on the object words of the training boxes. Its hidden
layer becomes the region feature, and its output the class probabilities. It begins with the class head of the store,
where there is one.

Feature grids, image vectors and temporal features stay those of the given store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis import boxes as geometry
from deixis.data import Sample, recognise
from deixis.data.dictionary import read_classes
from deixis.errors import DeixisError, UsageError
from deixis.language.classes import ObjectClasses
from deixis.language.spacy_parse import spacy_parse
from deixis.metrics.object_words import default_minimum, find_classes, phrase_class
from deixis.types import Json, Regions
from deixis.vision.head import ClassHead
from deixis.vision.layouts import open_source
from deixis.vision.layouts.records import ImportOptions, Record, Source
from deixis.vision.store import FeatureStore

Detector = Literal["perfect-detector", "biased-detector"]
DETECTORS: tuple[Detector, ...] = get_args(Detector)

BACKGROUND = "__background__"
POSITIVE = 0.5  # a region with a larger IoU with a true box has its class; other regions are background
BATCH_IMAGES = 32
LR = 1e-3


def open_features(path: Path, layout: str, options: ImportOptions, unpack: Path) -> Source:
    """Open published features, or the regions of a better detector."""
    if layout not in DETECTORS:
        return open_source(path, layout, options, unpack)  # type: ignore[arg-type]
    if options.data is None:
        raise UsageError(f"--layout {layout} needs --data, the data set with the boxes; --from is a feature store.")
    store = FeatureStore(path)
    boxes = TrueBoxes.read(options.data, options.classes)
    return perfect_detector(store, boxes) if layout == "perfect-detector" else biased_detector(store, boxes, options)


@dataclass(frozen=True)
class Boxes:
    """True boxes of an image with their object words."""

    boxes: npt.NDArray[np.float64]  # [M, 4]
    words: npt.NDArray[np.float32]  # [M, C] shares of the object classes that captions give to a box
    frames: npt.NDArray[np.int64] | None = None  # [M] of a clip


@dataclass(frozen=True)
class TrueBoxes:
    """True boxes of all images of a data set."""

    name: str  # of the data set
    classes: tuple[str, ...]  # [C] without the background
    images: dict[str, Boxes]  # those with a box whose word has a class
    training: tuple[str, ...]  # ids of the training split

    @classmethod
    def read(cls, root: Path, classes: Path | None = None, train: str = "train") -> TrueBoxes:
        """Read the boxes of all splits. Classes: of a published list, else the frequent nouns of training phrases."""
        loader = recognise(root)
        splits = {split: list(loader.load(root, split)) for split in loader.splits(root)}
        if train not in splits:
            raise DeixisError(f"{root} has no split '{train}'. Available: {', '.join(splits) or 'none'}.")
        training = splits[train]
        known = read_classes(classes) if classes else find_classes(training, default_minimum(len(training)), quiet=True)
        images: dict[str, Boxes] = {}
        for samples in splits.values():
            images |= _boxes(samples, known)
        if not images:
            raise DeixisError(f"{root} has no box whose phrase has an object class. Choose a data set with boxes.")
        return cls(loader.NAME, known.names, images, tuple(sample.image_id for sample in training))


def _boxes(samples: Sequence[Sample], classes: ObjectClasses) -> dict[str, Boxes]:
    """True boxes of samples; several boxes of an entity in one photograph become their union, as scores have it."""
    number = {name: index for index, name in enumerate(classes.names)}
    parses = iter(spacy_parse([caption.text for sample in samples for caption in sample.captions], quiet=True))
    found = {}
    for sample in samples:
        words: dict[str, npt.NDArray[np.float32]] = {}
        for caption in sample.captions:
            parsed = next(parses)
            for phrase in caption.phrases:
                name = phrase_class(parsed, phrase, classes)
                if name in number and phrase.entity is not None:
                    counts = words.setdefault(phrase.entity, np.zeros(len(number), np.float32))
                    counts[number[name]] += 1
        boxes: list[npt.NDArray[np.float64]] = []
        rows: list[npt.NDArray[np.float32]] = []
        frames: list[npt.NDArray[np.integer]] = []
        for entity in sample.entities:
            if entity.id not in words or not len(entity.boxes):
                continue
            given = geometry.union(entity.boxes)[None] if entity.frames is None else entity.boxes
            boxes.append(np.asarray(given, dtype=np.float64))
            rows += [words[entity.id] / words[entity.id].sum()] * len(given)
            frames += [] if entity.frames is None else [entity.frames]
        if boxes:
            joined = np.concatenate(frames).astype(np.int64) if frames else None
            found[sample.image_id] = Boxes(np.concatenate(boxes), np.stack(rows), joined)
    return found


# Perfect detector ---------------------------------------------------------------------------------------------------


def perfect_detector(store: FeatureStore, true: TrueBoxes) -> Source:
    """Regions that are the true boxes of the images of a store, with their object words as features."""

    def regions(image_id: str) -> Regions | str:
        own, given = true.images.get(image_id), store[image_id]
        if own is None:
            return f"{true.name} has no box with an object class in this image"
        boxes = geometry.clip(own.boxes, *given.size).astype(np.float32)
        kept = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        if not kept.any():
            return "all true boxes are outside the image"
        background = np.zeros((len(boxes), 1), np.float32)
        return replace(
            given,
            boxes=boxes[kept],
            features=own.words[kept],
            scores=np.ones(int(kept.sum()), np.float32),
            labels=None,
            frames=None if own.frames is None else own.frames[kept],
            class_probs=np.concatenate([background, own.words], 1)[kept],
            class_names=(BACKGROUND, *true.classes),
            maps=(),
        )

    description: Json = {
        **_description(store, "perfect-detector", true),
        "backbone": {"name": "object-words", "dim": len(true.classes), "supervision": "boxes and their object words"},
        "proposals": {"name": "truth", "supervision": f"boxes: the true boxes of {true.name}, at test time too"},
    }
    return _source(store, description, regions)


# Grounding-biased detector ------------------------------------------------------------------------------------------


class Classifier(nn.Module):
    """Classifier of region features, in the form of a class head."""

    def __init__(self, features: int, hidden: int, names: Sequence[str], head: ClassHead | None) -> None:
        super().__init__()
        if head is not None:
            hidden = len(head.fc7_bias)
        self.fc7, self.classify = nn.Linear(features, hidden), nn.Linear(hidden, len(names))
        nn.init.kaiming_normal_(self.fc7.weight, nonlinearity="relu")
        if head is not None:
            with torch.no_grad():
                self.fc7.weight.copy_(torch.from_numpy(head.fc7_weight))
                self.fc7.bias.copy_(torch.from_numpy(head.fc7_bias))
                if head.names == tuple(names):
                    self.classify.weight.copy_(torch.from_numpy(head.class_weight))
                    self.classify.bias.copy_(torch.from_numpy(head.class_bias))

    def hidden(self, features: Tensor) -> Tensor:
        """The hidden layer ``[N, H]`` of features ``[N, D]``."""
        return F.relu(self.fc7(features))

    def forward(self, features: Tensor) -> Tensor:
        """Logits ``[N, C]``, background first."""
        return F.linear(self.hidden(features), F.relu(self.classify.weight), self.classify.bias)


def targets(regions: Regions, own: Boxes) -> npt.NDArray[np.int64]:
    """Class of each region by its best true box, 0 for the background."""
    overlap = geometry.iou(regions.boxes, own.boxes)  # [N, M]
    if regions.frames is not None and own.frames is not None:
        overlap[np.asarray(regions.frames)[:, None] != own.frames] = 0
    classes = 1 + own.words.argmax(1)
    return np.where(overlap.max(1) > POSITIVE, classes[overlap.argmax(1)], 0)


def tune(store: FeatureStore, true: TrueBoxes, epochs: int, hidden: int = 0, seed: int = 0) -> Classifier:
    """Train a classifier on the regions of the training images; background and objects have equal weight."""
    torch.manual_seed(seed)
    ids = [image_id for image_id in true.training if image_id in store and image_id in true.images]
    if not ids:
        raise DeixisError(f"{store.path} has no training image of {true.name} with boxes. Extract its features first.")
    width = store[ids[0]].features.shape[1]
    network = Classifier(width, hidden or width, (BACKGROUND, *true.classes), store.head())
    optimiser = torch.optim.Adam(network.parameters(), lr=LR)
    order = np.random.default_rng(seed)
    for _ in range(epochs):
        shuffled = order.permutation(len(ids))
        for start in range(0, len(ids), BATCH_IMAGES):
            some = [ids[row] for row in shuffled[start : start + BATCH_IMAGES]]
            batch = [store[image_id] for image_id in some]
            wanted = torch.from_numpy(
                np.concatenate([targets(one, true.images[name]) for one, name in zip(batch, some, strict=True)])
            )
            features = torch.from_numpy(np.concatenate([one.features for one in batch]).astype(np.float32))
            losses = F.cross_entropy(network(features), wanted, reduction="none")
            sides = [losses[side].mean() for side in (wanted == 0, wanted > 0) if side.any()]
            optimiser.zero_grad()
            torch.stack(sides).mean().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return network.eval()


def biased_detector(store: FeatureStore, true: TrueBoxes, options: ImportOptions) -> Source:
    """Regions of a store with the features and class probabilities of a classifier tuned on the training boxes."""
    network = tune(store, true, options.epochs, options.hidden)
    names = (BACKGROUND, *true.classes)
    weight, bias = network.classify.weight.detach().numpy(), network.classify.bias.detach().numpy()
    width = len(network.fc7.bias)
    # the head begins where the classifier ends: its fc7 layer passes the features on
    head = ClassHead(np.eye(width, dtype=np.float32), np.zeros(width, np.float32), weight, bias, names)

    @torch.inference_mode()
    def regions(image_id: str) -> Regions:
        given = store[image_id]
        features = network.hidden(torch.from_numpy(np.asarray(given.features, np.float32)))
        hidden = features.half().float().numpy()  # as the store keeps it
        probs = head.class_probs(hidden)
        return replace(given, features=hidden, labels=None, class_probs=probs, class_names=names, maps=())

    taught = f"boxes and their object words of {true.name}, training split"
    description: Json = {
        **_description(store, "biased-detector", true),
        "backbone": {"name": "tuned-classifier", "dim": width, "supervision": taught},
        "epochs": options.epochs,
        "head_sha256": head.digest(),
        "fc7_sha256": _digest(network),
    }
    return _source(store, description, regions, head)


def _digest(network: Classifier) -> str:
    state = {name: part.detach().numpy() for name, part in network.fc7.named_parameters()}
    return ClassHead(state["weight"], state["bias"], np.zeros((0, len(state["bias"])), np.float32),
                     np.zeros(0, np.float32), ()).digest()  # fmt: skip


# Both ---------------------------------------------------------------------------------------------------------------


def _description(store: FeatureStore, layout: Detector, true: TrueBoxes) -> Json:
    return {**store.contents.description, "layout": layout, "classes_of": true.name, "from": store.extractor}


def _source(
    store: FeatureStore,
    description: Json,
    regions: Callable[[str], Regions | str],
    head: ClassHead | None = None,
) -> Source:
    def records(done: Collection[str]) -> Iterator[Record]:
        for image_id in store:
            if image_id not in done:
                found = regions(image_id)
                yield Record(image_id, reason=found) if isinstance(found, str) else Record(image_id, found)

    return Source(description, records, len(store), head)
