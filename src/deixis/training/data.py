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

    @classmethod
    def from_folder(cls, root: Path, store: FeatureStore, train: str = "train", val: str = "val") -> TrainingData:
        """Read two splits of a data set, with regions from a feature store."""
        loader = recognise(root)
        extractor = {"name": store.extractor, "description": store.contents.description}
        return cls(loader.load(root, train), loader.load(root, val), store, extractor, loader.NAME, store.head())

    def words(self, min_count: int) -> Vocabulary:
        """Return the given vocabulary, or the words with ``min_count`` uses in the training captions."""
        if self.vocabulary is not None:
            return self.vocabulary
        return Vocabulary.build((c.tokens for s in self.training for c in s.captions), min_count)

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
        return kept
