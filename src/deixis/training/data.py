"""Data of a training run: samples of two splits, their regions, and the region extractor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.data import Sample, recognise
from deixis.errors import DeixisError
from deixis.language.classes import ObjectClasses
from deixis.language.vocabulary import Vocabulary
from deixis.types import Json, Regions
from deixis.vision.head import ClassHead
from deixis.vision.store import FeatureStore

PIXELS: Json = {"name": "pixels", "description": {}}
"""Extractor of data without regions."""


@dataclass(frozen=True)
class TrainingData:
    """Training and validation samples with their regions."""

    training: Sequence[Sample]
    validation: Sequence[Sample]
    regions: Mapping[str, Regions]  # by image id
    extractor: Json  # {"name", "description"} of the region extractor
    source: str  # name of the data set, for the model card
    head: ClassHead | None = None  # class head of the detector of the regions, where the feature store has one
    vocabulary: Vocabulary | None = None  # of a published file; None: the frequent words of the training captions
    classes: ObjectClasses | None = None  # of a published file; None: the frequent nouns of the training phrases
    val_source: str = ""  # name of the validation data set, where it is another

    @classmethod
    def from_folder(
        cls,
        root: Path,
        store: FeatureStore | None,
        train: str = "train",
        val: str = "val",
        val_root: Path | None = None,
    ) -> TrainingData:
        """Read two splits, with regions from a feature store; without a store, for models that read pixels.

        The validation split is one of ``val_root`` where it is given.
        """
        loader, other = recognise(root), recognise(val_root or root)
        training, validation = loader.load(root, train), other.load(val_root or root, val)
        source = other.NAME if val_root else ""
        if store is None:
            return cls(training, validation, {}, PIXELS, loader.NAME, val_source=source)
        extractor = {"name": store.extractor, "description": store.contents.description}
        return cls(training, validation, store, extractor, loader.NAME, store.head(), val_source=source)

    @property
    def pixels(self) -> bool:
        """Whether there are no regions: the model reads pixels."""
        return self.extractor == PIXELS

    def words(self, min_count: int) -> Vocabulary:
        """Return the given vocabulary, or the words with ``min_count`` uses in the training captions."""
        if self.vocabulary is not None:
            return self.vocabulary
        return Vocabulary.build((c.tokens for s in self.training for c in s.captions), min_count)

    def usable(self) -> TrainingData:
        """Keep only samples with captions and, where they are read, regions; raise an error if a split has none."""

        def used(sample: Sample) -> bool:
            return bool(sample.captions) and (self.pixels or sample.image_id in self.regions)

        kept = replace(
            self,
            training=[sample for sample in self.training if used(sample)],
            validation=[sample for sample in self.validation if used(sample)],
        )
        for name, samples in (("training", kept.training), ("validation", kept.validation)):
            if not samples:
                raise DeixisError(
                    f"{self.source}: no {name} image has a caption."
                    if self.pixels
                    else f"{self.source}: no {name} image has both a caption and features. "
                    "Extract the features of the whole data set first (deixis features)."
                )
        return kept
