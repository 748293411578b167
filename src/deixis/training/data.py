"""Data of a training run: samples of one or several data sets, their regions, and the region extractor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from deixis.data import Sample, recognise
from deixis.data.spool import kept
from deixis.errors import DeixisError
from deixis.language.classes import ObjectClasses
from deixis.language.vocabulary import Vocabulary
from deixis.training.parts import (
    JoinedRegions,
    Order,
    Part,
    check_lists,
    check_shared,
    check_stores,
    labels,
    qualified,
    read_samples,
    weighted_order,
)
from deixis.types import Json, Regions
from deixis.vision.head import ClassHead
from deixis.vision.segments import with_segments
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
    source: str  # name of the data set, for the model card; several are joined by "+"
    head: ClassHead | None = None  # class head of the detector of the regions, where the feature store has one
    vocabulary: Vocabulary | None = None  # of a published file; None: the frequent words of the training captions
    classes: ObjectClasses | None = None  # of a published file; None: the frequent nouns of the training phrases
    val_source: str = ""  # name of the validation data set, where it is another
    parts: tuple[Part, ...] = ()  # the data sets; empty: one, made by hand
    notes: tuple[str, ...] = ()  # what was left out, for the user

    @classmethod
    def from_folder(
        cls,
        root: Path,
        store: FeatureStore | None,
        train: str = "train",
        val: str = "val",
        val_root: Path | None = None,
    ) -> TrainingData:
        """Read two splits of a data set; see :meth:`from_folders`."""
        return cls.from_folders([root], [] if store is None else [store], (), train, val, val_root)

    @classmethod
    def from_folders(
        cls,
        roots: Sequence[Path],
        stores: Sequence[FeatureStore],
        weights: Sequence[float] = (),
        train: str = "train",
        val: str = "val",
        val_root: Path | None = None,
    ) -> TrainingData:
        """Read two splits of each data set.

        ``stores`` has one feature store for each data set, or one for all, or none for models that read pixels.
        ``weights`` are the shares of the data sets in an epoch; without them, every example occurs once. The validation
        split is one of ``val_root`` where it is given, whose store is then the last one. Without it, a data set without
        the validation split is only trained on.
        """
        apart = [val_root] if val_root is not None and len(roots) > 1 else []
        places = [*roots, *apart]
        check_lists(roots, len(places), stores, weights)
        stores = [*stores] if len(stores) != 1 else [*stores] * len(places)
        check_stores(places, stores)
        names = labels(places)
        kinds = [recognise(root) for root in places]
        parts = [
            Part(names[n], kinds[n].NAME, str(root), weights[n] if weights else 0.0) for n, root in enumerate(places)
        ]
        own = slice(len(roots))
        training = read_samples(kinds[own], roots, parts[own], train)
        validation: list[Sample] = []
        notes = []
        if val_root is not None:
            validation += qualified(parts[-1] if apart else parts[0], recognise(val_root).load(val_root, val))
        else:
            for part, kind, root in zip(parts, kinds, roots, strict=True):
                if len(roots) == 1 or val in kind.splits(root):
                    validation += qualified(part, kind.load(root, val))
                else:
                    notes.append(f"{root} has no split '{val}': it is used for training only.")
        made = cls(
            training,
            validation,
            {},
            PIXELS,
            "+".join(part.label or part.name for part in parts[: len(roots)]),
            val_source="" if val_root is None else recognise(val_root).NAME,
            parts=tuple(parts[: len(roots)]),
            notes=tuple(notes),
        )
        if not stores:
            return made
        check_shared(parts, chain(training, validation), stores)
        regions = stores[0] if len(places) == 1 else JoinedRegions(list(zip(parts, stores, strict=True)))
        return replace(
            made,
            regions=with_segments(regions, chain(training, validation)),
            extractor={"name": stores[0].extractor, "description": stores[0].contents.description},
            head=stores[0].head(),
        )

    def kind_of(self, image_id: str) -> str:
        """Return the name of the kind of data set of an image, such as "coco"."""
        return next((part.name for part in self.parts if part.has(image_id)), self.source)

    def own_id(self, image_id: str) -> str:
        """Return the id of an image in its data set."""
        return next((part.own_id(image_id) for part in self.parts if part.has(image_id)), image_id)

    @property
    def weighted(self) -> bool:
        """Whether the data sets have given shares in an epoch, so that the order needs the images of all examples."""
        return any(part.weight for part in self.parts)

    def order(self, images: Sequence[str]) -> Order | None:
        """Return the order of examples with these images in each epoch; None: every example once, shuffled."""
        return weighted_order(self.parts, images)

    def describe(self) -> str:
        """Return the data sets with their numbers of images, for the model card."""
        of = f" of {self.val_source}" if self.val_source else ""
        if len(self.parts) < 2:
            return f"{self.source}, {len(self.training)} training and {len(self.validation)} validation images{of}"
        texts = []
        for part in self.parts:
            train, val = (
                sum(part.has(sample.image_id) for sample in samples) for samples in (self.training, self.validation)
            )
            validated = "" if of else f" and {val} validation"
            weight = f", weight {part.weight:g}" if part.weight else ""
            texts.append(f"{part.label} ({part.name}): {train} training{validated} images{weight}")
        return "; ".join([*texts, f"{len(self.validation)} validation images{of}"] if of else texts)

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

        found = replace(
            self,
            training=kept(self.training, used),
            validation=kept(self.validation, used),
        )
        for name, samples in (("training", found.training), ("validation", found.validation)):
            if not samples:
                raise DeixisError(
                    f"{self.source}: no {name} image has a caption."
                    if self.pixels
                    else f"{self.source}: no {name} image has both a caption and features. "
                    "Extract the features of the whole data set first (deixis features)."
                )
        for part in self.parts:
            if not any(part.has(sample.image_id) for sample in found.training):
                raise DeixisError(
                    f"{part.folder}: no training image has both a caption and features. "
                    "Extract its features first (deixis features), or leave the data set out."
                )
        return found
