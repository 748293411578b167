"""Report about a data set folder: counts per split, skipped records, missing files."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from deixis.data import Dataset, Expected, Loader, Sample, Skipped, recognise, vg_triplets, visual_genome
from deixis.data.reading import BadFile
from deixis.data.triplets import data_triplets
from deixis.errors import DeixisError
from deixis.images import image_size

HEADERS = 500
"""Maximum number of images per split whose size is compared with the annotation."""


OWN_IDS = ("pairs", "scenes")
"""Kinds of data sets whose image ids are file names or numbers; equal ids are not equal images."""

MIN_VALIDATION = 20
"""Validation images below which scores are too uncertain to choose a model."""


@dataclass(frozen=True)
class Counts:
    """Counts of one split; a box of two entities counts twice."""

    images: int
    captions: int
    phrases: int
    boxed_images: int
    boxes: int
    labelled_images: int = 0  # with image-level labels
    triplets: Mapping[str, int] = field(default_factory=dict)  # source -> triplets (Visual Genome)

    def to_json(self) -> dict[str, Any]:
        """All counts; labelled images and triplets only where there are any."""
        optional = ("labelled_images", "triplets")
        return {name: value for name, value in asdict(self).items() if value or name not in optional}


@dataclass(frozen=True)
class Missing:
    """A missing file, or a folder with ``count`` missing files."""

    file: str  # relative to the root
    purpose: str
    publisher: str  # in words
    required: bool
    count: int = 1
    examples: tuple[str, ...] = ()  # of missing files, relative to the root


@dataclass(frozen=True)
class Report:
    """Result of :func:`inspect`."""

    dataset: str
    splits: dict[str, Counts]
    skipped: tuple[Skipped, ...]
    missing: tuple[Missing, ...]
    warnings: tuple[str, ...]  # messages about images that do not match their annotation

    def to_json(self) -> dict[str, Any]:
        """``{"dataset", "splits", "skipped", "missing"}``."""
        return {
            "dataset": self.dataset,
            "splits": {split: counts.to_json() for split, counts in self.splits.items()},
            "skipped": [asdict(entry) for entry in self.skipped],
            "missing": [asdict(entry) for entry in self.missing],
        }


def inspect(root: Path, started: Callable[[str], None] = lambda split: None) -> Report:
    """Read all splits of the data set in a folder; ``started`` is called with the name of each split first."""
    loader = recognise(root)
    counts: dict[str, Counts] = {}
    skipped: list[Skipped] = []
    absent: set[Path] = set()
    warnings: list[str] = []
    listings: dict[Path, set[str]] = {}
    for split in loader.splits(root):
        started(split)
        try:
            dataset = loader.load(root, split)
        except BadFile as error:
            skipped.append(error.skipped)
            continue
        except DeixisError as error:
            skipped.append(Skipped(str(root), f"split {split}: {error}"))
            continue
        counts[split] = replace(count(dataset), triplets=count_triplets(dataset))
        skipped += dataset.skipped
        present = _note_absent(dataset, listings, absent)
        warnings += _compare_sizes(present, split)
    warnings += _small_validation(counts)
    warnings += [
        f"{split}: boxes, but no phrases for them. Grounding is not scored on this split."
        for split, each in counts.items()
        if each.boxes and not each.phrases
    ]
    # Splits that share a file report the same errors; keep each once.
    short = (replace(entry, file=_relative(entry.file, root)) for entry in dict.fromkeys(skipped))
    return Report(loader.NAME, counts, tuple(short), _missing(loader, root, absent), tuple(warnings))


def _small_validation(counts: Mapping[str, Counts]) -> list[str]:
    """Warn of validation splits with too few images."""
    small = {split: each.images for split, each in counts.items() if split.startswith("val")}
    return [
        f"{split}: {images} images are too few to choose a model by its validation scores. Use at least "
        f"{MIN_VALIDATION} validation images."
        for split, images in small.items()
        if images < MIN_VALIDATION
    ]


def shared_images(roots: Sequence[Path]) -> list[str]:
    """Warn of images of one data set's validation or test split that another one of the same kind trains on.

    Data sets of one kind (two selections of COCO) have the same ids for the same images. Own images have none.
    """
    ids: dict[Path, dict[str, set[str]]] = {}
    kinds = {root: recognise(root) for root in roots}
    for root, loader in kinds.items():
        if loader.NAME not in OWN_IDS:
            ids[root] = {split: {s.image_id for s in loader.load(root, split)} for split in loader.splits(root)}
    found = []
    for root, splits in ids.items():
        for other, others in ids.items():
            if root == other or kinds[root].NAME != kinds[other].NAME:
                continue
            for split, images in splits.items():
                if not split.startswith("train") and (seen := images & others.get("train", set())):
                    found.append(f"{len(seen):,} images of {root} ({split}) are in the training split of {other}.")
    return found


def count(samples: Iterable[Sample]) -> Counts:
    """Count images, captions, phrases and boxes of samples."""
    images = captions = phrases = boxed = boxes = labelled = 0
    for sample in samples:
        images += 1
        captions += len(sample.captions)
        phrases += sum(len(caption.phrases) for caption in sample.captions)
        in_sample = sum(len(entity.boxes) for entity in sample.entities)
        boxes += in_sample
        boxed += in_sample > 0
        labelled += sample.labels is not None
    return Counts(images, captions, phrases, boxed, boxes, labelled)


def count_triplets(dataset: Dataset) -> dict[str, int]:
    """Count the triplets of AMC by source, for data sets that have them; images without a known size are left out."""
    if dataset.name not in (visual_genome.NAME, vg_triplets.NAME):
        return {}
    make, found = data_triplets(dataset.name), Counter[str]()
    for sample in dataset:
        with suppress(DeixisError, OSError):
            found.update(triplet.source for triplet in make(sample, visual_genome.MIN_AREA))
    return dict(found)


def _note_absent(dataset: Dataset, listings: dict[Path, set[str]], absent: set[Path]) -> list[Sample]:
    """Return the samples with all files; add missing files to ``absent``."""
    present: list[Sample] = []
    for sample in dataset:
        complete = True
        for path in sample.frames or ([sample.path] if sample.path else []):
            folder = path.parent
            if folder not in listings:  # one directory listing instead of 30,000 file checks
                listings[folder] = {entry.name for entry in os.scandir(folder)} if folder.is_dir() else set()
            if path.name not in listings[folder]:
                absent.add(path)
                complete = False
        if complete:
            present.append(sample)
    return present


def _missing(loader: Loader, root: Path, absent: Iterable[Path]) -> tuple[Missing, ...]:
    expected = loader.expected(root)
    found = {
        entry.path: Missing(entry.path, entry.purpose, entry.publisher, entry.required)
        for entry in expected
        if not (root / entry.path).exists()
    }
    # One entry per image folder of the distribution, not one per image.
    other_images = Expected(".", "images of the captions", "the provider of the images")
    folders: dict[Expected, list[str]] = defaultdict(list)
    for name in sorted(_relative(str(path), root) for path in absent):
        above = [entry for entry in expected if name.startswith(f"{entry.path}/")]
        folders[max(above, key=lambda entry: len(entry.path), default=other_images)].append(name)
    for entry, names in folders.items():
        lack = Missing(entry.path, entry.purpose, entry.publisher, entry.required, len(names), tuple(names[:3]))
        found[entry.path] = lack
    return tuple(found.values())


def _compare_sizes(samples: Sequence[Sample], split: str) -> list[str]:
    """Warn about images with another size than their annotation, because boxes are in pixels."""
    boxed = [
        (sample.path, sample.size)
        for sample in samples
        if sample.path and sample.size and any(len(entity.boxes) for entity in sample.entities)
    ]
    checked = boxed[:: max(1, -(-len(boxed) // HEADERS))]
    other: list[str] = []
    broken: list[str] = []
    for path, (width, height) in checked:
        try:
            real = image_size(path)
        except DeixisError as error:
            broken.append(str(error))
            continue
        if real != (width, height):
            other.append(f"{path.name} has {real[0]} x {real[1]} pixels, its annotation has {width} x {height}")
    messages = []
    if broken:
        messages.append(f"{split}: {len(broken)} of {len(checked)} checked images cannot be read: {broken[0]}")
    if other:
        messages.append(
            f"{split}: {len(other)} of {len(checked)} checked images do not have the annotated size ({other[0]}). "
            "Use the original images."
        )
    return messages


def _relative(path: str, root: Path) -> str:
    return Path(path).relative_to(root).as_posix() if Path(path).is_relative_to(root) else path
