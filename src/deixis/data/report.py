"""What a folder holds: counts for every split, what had to be skipped, and what is missing."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deixis.data import Dataset, Expected, Loader, Sample, Skipped, recognise
from deixis.data.reading import BadFile
from deixis.errors import DeixisError
from deixis.images import image_size

HEADERS = 500
"""How many pictures of a split are compared with the size that their annotation tells."""


MIN_VALIDATION = 20
"""Validation images below which scores are too uncertain to choose a model."""


@dataclass(frozen=True)
class Counts:
    """What one split holds; a box that belongs to two entities counts twice."""

    images: int
    captions: int
    phrases: int
    boxed_images: int
    boxes: int


@dataclass(frozen=True)
class Missing:
    """A file that is not there, or a folder where ``count`` files are not there."""

    file: str  # relative to the root
    purpose: str
    publisher: str  # in words
    required: bool
    count: int = 1
    examples: tuple[str, ...] = ()  # of such files, relative to the root too


@dataclass(frozen=True)
class Report:
    """The answer of :func:`inspect`."""

    dataset: str
    splits: dict[str, Counts]
    skipped: tuple[Skipped, ...]
    missing: tuple[Missing, ...]
    warnings: tuple[str, ...]  # sentences about pictures that do not fit their annotation

    def to_json(self) -> dict[str, Any]:
        """``{"dataset", "splits", "skipped", "missing"}``."""
        return {
            "dataset": self.dataset,
            "splits": {split: asdict(counts) for split, counts in self.splits.items()},
            "skipped": [asdict(entry) for entry in self.skipped],
            "missing": [asdict(entry) for entry in self.missing],
        }


def inspect(root: Path, started: Callable[[str], None] = lambda split: None) -> Report:
    """Read every split of the data set in a folder; ``started`` is called with the name of each before it is read."""
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
        counts[split] = count(dataset)
        skipped += dataset.skipped
        present = _note_absent(dataset, listings, absent)
        warnings += _compare_sizes(present, split)
    warnings += _small_validation(counts)
    # Splits that share a file tell of its faults once each.
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


def count(samples: Iterable[Sample]) -> Counts:
    """How much of everything some samples hold."""
    images = captions = phrases = boxed = boxes = 0
    for sample in samples:
        images += 1
        captions += len(sample.captions)
        phrases += sum(len(caption.phrases) for caption in sample.captions)
        here = sum(len(entity.boxes) for entity in sample.entities)
        boxes += here
        boxed += here > 0
    return Counts(images, captions, phrases, boxed, boxes)


def _note_absent(dataset: Dataset, listings: dict[Path, set[str]], absent: set[Path]) -> list[Sample]:
    """The samples whose files are all there; what others lack goes to ``absent``."""
    present: list[Sample] = []
    for sample in dataset:
        complete = True
        for path in sample.frames or ([sample.path] if sample.path else []):
            folder = path.parent
            if folder not in listings:  # one listing instead of a look at each of 30,000 files
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
    # Images are told by the folder that the distribution speaks of: one entry, not one for each of 30,000 pictures.
    elsewhere = Expected(".", "images that the captions name", "whoever keeps the pictures of this data set")
    folders: dict[Expected, list[str]] = defaultdict(list)
    for name in sorted(_relative(str(path), root) for path in absent):
        above = [entry for entry in expected if name.startswith(f"{entry.path}/")]
        folders[max(above, key=lambda entry: len(entry.path), default=elsewhere)].append(name)
    for entry, names in folders.items():
        lack = Missing(entry.path, entry.purpose, entry.publisher, entry.required, len(names), tuple(names[:3]))
        found[entry.path] = lack
    return tuple(found.values())


def _compare_sizes(samples: Sequence[Sample], split: str) -> list[str]:
    """Boxes are in pixels of the annotated picture: say so when the picture that is there has another size."""
    boxed = [
        (sample.path, sample.size)
        for sample in samples
        if sample.path and sample.size and any(len(entity.boxes) for entity in sample.entities)
    ]
    chosen = boxed[:: max(1, -(-len(boxed) // HEADERS))]
    other: list[str] = []
    broken: list[str] = []
    for path, (width, height) in chosen:
        try:
            real = image_size(path)
        except DeixisError as error:
            broken.append(str(error))
            continue
        if real != (width, height):
            other.append(f"{path.name} has {real[0]} x {real[1]} pixels, its annotation says {width} x {height}")
    told = []
    if broken:
        told.append(f"{split}: {len(broken)} of {len(chosen)} pictures looked at cannot be read: {broken[0]}")
    if other:
        told.append(
            f"{split}: {len(other)} of {len(chosen)} pictures looked at do not have the size that their boxes were "
            f"drawn on ({other[0]}); use the original pictures."
        )
    return told


def _relative(path: str, root: Path) -> str:
    return Path(path).relative_to(root).as_posix() if Path(path).is_relative_to(root) else path
