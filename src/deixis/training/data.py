"""Data of a training run: samples of one or several data sets, their regions, and the region extractor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.data import Sample, recognise
from deixis.errors import DeixisError
from deixis.training.parts import (
    JoinedRegions,
    Order,
    Part,
    check_lists,
    check_shared,
    check_stores,
    labels,
    qualified,
    weighted_order,
)
from deixis.types import Json, Regions
from deixis.vision.head import ClassHead
from deixis.vision.store import FeatureStore


@dataclass(frozen=True)
class TrainingData:
    """Training and validation samples with their regions."""

    training: Sequence[Sample]
    validation: Sequence[Sample]
    regions: Mapping[str, Regions]  # by image id
    extractor: Json  # {"name", "description"} of the region extractor
    source: str  # name of the data set, for the model card; several are joined by "+"
    head: ClassHead | None = None  # class head of the detector of the regions, where the feature store has one
    parts: tuple[Part, ...] = ()  # the data sets; empty: one, made by hand
    notes: tuple[str, ...] = ()  # what was left out, for the user

    @classmethod
    def from_folder(cls, root: Path, store: FeatureStore, train: str = "train", val: str = "val") -> TrainingData:
        """Read two splits of a data set, with regions from a feature store."""
        return cls.from_folders([root], [store], (), train, val)

    @classmethod
    def from_folders(
        cls,
        roots: Sequence[Path],
        stores: Sequence[FeatureStore],
        weights: Sequence[float] = (),
        train: str = "train",
        val: str = "val",
    ) -> TrainingData:
        """Read two splits of each data set.

        ``stores`` has one store for each data set, or one for all. ``weights`` are the shares of the data sets in an
        epoch; without them, every example occurs once. A data set without the validation split is only trained on.
        """
        check_lists(roots, stores, weights)
        stores = [*stores] if len(stores) == len(roots) else [*stores] * len(roots)
        check_stores(roots, stores)
        parts: list[Part] = []
        training: list[Sample] = []
        validation: list[Sample] = []
        notes = []
        for number, (root, label) in enumerate(zip(roots, labels(roots), strict=True)):
            loader = recognise(root)
            part = Part(label, loader.NAME, str(root), train, weights[number] if weights else 0.0)
            parts.append(part)
            training += qualified(part, loader.load(root, train))
            if len(roots) == 1 or val in loader.splits(root):
                validation += qualified(part, loader.load(root, val))
            else:
                notes.append(f"{root} has no split '{val}': it is used for training only.")
        check_shared(parts, (*training, *validation), stores)
        regions = stores[0] if len(roots) == 1 else JoinedRegions(list(zip(parts, stores, strict=True)))
        extractor = {"name": stores[0].extractor, "description": stores[0].contents.description}
        source = "+".join(part.label or part.name for part in parts)
        head = stores[0].head()
        return cls(training, validation, regions, extractor, source, head, parts=tuple(parts), notes=tuple(notes))

    def kind_of(self, image_id: str) -> str:
        """Return the name of the kind of data set of an image, such as "coco"."""
        return next((part.name for part in self.parts if part.has(image_id)), self.source)

    def own_id(self, image_id: str) -> str:
        """Return the id of an image in its data set."""
        return next((part.own_id(image_id) for part in self.parts if part.has(image_id)), image_id)

    def order(self, images: Sequence[str]) -> Order | None:
        """Return the order of examples with these images in each epoch; None: every example once, shuffled."""
        return weighted_order(self.parts, images)

    def describe(self) -> str:
        """Return the data sets with their numbers of images, for the model card."""
        if len(self.parts) < 2:
            return f"{self.source}, {len(self.training)} training and {len(self.validation)} validation images"
        texts = []
        for part in self.parts:
            train, val = (
                sum(part.has(sample.image_id) for sample in samples) for samples in (self.training, self.validation)
            )
            weight = f", weight {part.weight:g}" if part.weight else ""
            texts.append(f"{part.label} ({part.name}): {train} training and {val} validation images{weight}")
        return "; ".join(texts)

    def usable(self) -> TrainingData:
        """Keep only samples with captions and regions; raise an error if a split has none."""
        kept = replace(
            self,
            training=[s for s in self.training if s.captions and s.image_id in self.regions],
            validation=[s for s in self.validation if s.captions and s.image_id in self.regions],
        )
        for name, samples in (("training", kept.training), ("validation", kept.validation)):
            if not samples:
                raise DeixisError(
                    f"{self.source}: no {name} image has both a caption and features. "
                    "Extract the features of the whole data set first (deixis features)."
                )
        for part in self.parts:
            if not any(part.has(sample.image_id) for sample in kept.training):
                raise DeixisError(
                    f"{part.folder}: no training image has both a caption and features. "
                    "Extract its features first (deixis features), or leave the data set out."
                )
        return kept
