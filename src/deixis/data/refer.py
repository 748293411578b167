"""Referring expressions: RefCOCO, RefCOCO+, RefCOCOg, and RefCLEF (the ReferItGame).

The official folder layout, with at least one of the four folders:

``refcoco/``, ``refcoco+/``, ``refcocog/``, ``refclef/``   each with ``instances.json`` and ``refs(<partition>).p``
``images/mscoco/images/train2014/``                         the photographs of the first three
``images/saiapr_tc-12/``                                    the photographs of RefCLEF

A partition is named after its authors: ``unc``, ``google``, ``umd`` or ``berkeley``. A split has a name such as
``refcoco+:unc:testA``, or ``unc:testA`` if the root is one of the four folders. The first parts may be omitted if the
file is unambiguous. Some references of RefCLEF belong to several test sets (``testAB``): they are in ``testA`` and in
``testB``. ``test`` includes all test sets.

One sample is one image with all its sentences in the split, so that each image is processed once. Each sentence is a
caption with one phrase, the whole sentence, and its entity has the box. Accuracy is per sentence, the mean over the
phrases of a split. The text is the cleaned one (``sent``), as in published results.

The references are a pickle file. :mod:`deixis.data.plain_pickle` reads it without running code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from deixis import boxes as geometry
from deixis.data.plain_pickle import load_plain_pickle
from deixis.data.reading import (
    BadFile,
    BadRecord,
    box_in_image,
    get,
    get_list,
    get_numbers,
    get_size,
    get_text,
    good_records,
    inside,
    read_json,
)
from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import tokens
from deixis.types import Phrase

NAME = "refer"

PARTITIONS = {  # folder -> its official partitions, the most common first
    "refcoco": ("unc", "google"),
    "refcoco+": ("unc",),
    "refcocog": ("umd", "google"),
    "refclef": ("unc", "berkeley"),
}

_REFS = re.compile(r"refs\((\w+)\)\.p")
_UNC = "L. Yu and others (University of North Carolina), with their refer toolbox"
_COCO_IMAGES = Expected(
    "images/mscoco/images/train2014",
    "the photographs of RefCOCO, RefCOCO+ and RefCOCOg",
    "the COCO consortium, on the download page of its site (2014 train images)",
)
_CLEF_IMAGES = Expected(
    "images/saiapr_tc-12",
    "the photographs of RefCLEF",
    "the ImageCLEF campaign (SAIAPR TC-12); the refer toolbox has the required subset",
)


def expected(root: Path) -> tuple[Expected, ...]:
    """List the files of the data sets in the folder; the folders of the others are optional."""
    folders = _folders(root)
    alone = root in folders.values()
    files: list[Expected] = []
    for name, folder in folders.items():
        prefix = "" if alone else f"{name}/"
        files.append(Expected(f"{prefix}instances.json", f"the boxes and image sizes of {name}", _UNC))
        usual = PARTITIONS.get(name, ("unc",))
        for partition in usual:
            purpose = f"the sentences of {name}, as {partition} split them"
            needed = partition == usual[0] and not _partitions(folder)
            files.append(Expected(f"{prefix}refs({partition}).p", purpose, _UNC, needed))
    if not alone:
        absent = [name for name in PARTITIONS if name not in folders]
        files += [Expected(name, f"the data set {name}", _UNC, required=not folders) for name in absent]
    for images in dict.fromkeys(map(_images, folders)):
        files.append(Expected(f"../{images.path}" if alone else images.path, images.purpose, images.publisher))
    return tuple(files)


def recognise(root: Path) -> bool:
    """Whether the folder is one of the four folders, or contains one of them."""
    return bool(_folders(root))


def splits(root: Path) -> tuple[str, ...]:
    """List the splits of all reference files; the files are read and cached."""
    found: list[str] = []
    for name, path in _files(root).items():
        try:
            names = _split_names(_refs(path))
        except BadFile:
            names = ["train"]  # keep the file: `load` reports the error
        found += [f"{name}:{split}" for split in names]
    return tuple(found)


def load(root: Path, split: str, *, exclude: Collection[int | str] = ()) -> Dataset:
    """Load one split, with images in the order of their first reference.

    ``exclude`` has ids of images to leave out, without entries in the skipped records. The clean subset of RefCOCO+
    (AMC, appendix A) excludes the training images of Visual Genome.
    """
    *names, part = split.split(":")
    files = {name: path for name, path in _files(root).items() if set(names) <= set(name.split(":"))}
    if len(files) != 1:
        available = ", ".join(files or _files(root)) or "none"
        raise DeixisError(f"{root}: the split '{split}' must select one reference file. Available: {available}.")
    [(name, path)] = files.items()
    refs = _refs(path)
    wanted = [ref for ref in refs.good if _is_in(part, ref.split)]
    if not wanted:
        raise DeixisError(f"{path} has no split '{part}'. Available: {', '.join(_split_names(refs)) or 'none'}.")

    instances = _instances(path.with_name("instances.json"))
    skipped = [*refs.skipped, *instances.skipped]
    above = root / ".." if path.parent == root else root
    folder = above / _images(path.parent.absolute().name).path
    excluded = {str(image) for image in exclude}
    images: dict[str, _Image] = {}
    for ref in wanted:
        if ref.image in excluded:
            continue
        try:
            if ref.image not in images:
                images[ref.image] = _image(ref.image, instances, folder)
            _add(images[ref.image], ref, instances)
        except BadRecord as error:
            skipped.append(Skipped(str(path), f"reference {ref.id}: {error}"))
    samples = [
        Sample(number, tuple(image.captions), path=image.path, size=image.size, entities=tuple(image.entities.values()))
        for number, image in images.items()
        if image.captions
    ]
    return Dataset(NAME, f"{name}:{part}", tuple(samples), tuple(skipped))


# From records to samples --------------------------------------------------------------------------------------------


@dataclass
class _Image:
    """A sample under construction."""

    path: Path
    size: tuple[int, int]
    captions: list[Caption] = field(default_factory=list)
    entities: dict[str, Entity] = field(default_factory=dict)


def _image(number: str, instances: _Instances, folder: Path) -> _Image:
    if number not in instances.images:
        raise BadRecord(f"image {number} is not in instances.json")
    record = instances.images[number]
    return _Image(inside(folder, get_text(record, "file_name")), get_size(record))


def _add(image: _Image, ref: _Ref, instances: _Instances) -> None:
    """Add the entity and sentences of a reference to its image; raise before any change if the box is invalid."""
    if ref.annotation not in image.entities:
        record = instances.annotations.get(ref.annotation)
        if record is None:
            raise BadRecord(f"annotation {ref.annotation} is not in instances.json")
        if _id(record, "image_id") != ref.image:
            raise BadRecord(f"annotation {ref.annotation} belongs to another image")
        x, y, width, height = get_numbers(record, "bbox", 4)
        box = box_in_image((x, y, x + width, y + height), image.size)
        label = instances.categories.get(str(record.get("category_id")), "")
        image.entities[ref.annotation] = Entity(ref.annotation, geometry.as_boxes([box]), label=label)
    for text in ref.sentences:
        words = tuple(map(sys.intern, tokens(text)))
        phrase = Phrase(text, 0, len(words), entity=ref.annotation)
        image.captions.append(Caption(text, words, (phrase,)))


def _is_in(requested: str, split: str) -> bool:
    # "testAB" belongs to the test sets A and B; "test" selects all of them.
    if requested.startswith("test") and split.startswith("test"):
        return set(requested[4:]) <= set(split[4:])
    return requested == split


def _split_names(refs: _Refs) -> list[str]:
    found = {ref.split for ref in refs.good}
    tests = {f"test{letter}" for split in found if split.startswith("test") for letter in split[4:] or [""]}
    return sorted({split for split in found if not split.startswith("test")} | tests, key=_place)


def _place(split: str) -> tuple[int, str]:
    usual = ("train", "val")
    return (usual.index(split) if split in usual else len(usual)), split


# Files --------------------------------------------------------------------------------------------------------------


class _Ref(NamedTuple):
    id: str
    image: str
    annotation: str
    split: str
    sentences: tuple[str, ...]


class _Refs(NamedTuple):
    good: tuple[_Ref, ...]
    skipped: tuple[Skipped, ...]


class _Instances(NamedTuple):
    """``instances.json`` without its polygons; records are validated when a reference uses them."""

    images: dict[str, dict[str, Any]]
    annotations: dict[str, dict[str, Any]]
    categories: dict[str, str]
    skipped: tuple[Skipped, ...]


def _refs(path: Path) -> _Refs:
    return _read_refs(path, _stamp(path))


def _instances(path: Path) -> _Instances:
    return _read_instances(path, _stamp(path))


def _stamp(path: Path) -> tuple[int, int]:
    """Modification time and size of a file, the cache key."""
    if not path.is_file():
        raise DeixisError(f"{path} does not exist. Run 'deixis data check' on its folder for the source of the file.")
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)  # all official partitions: about 150 MB, seconds to read each
def _read_refs(path: Path, stamp: tuple[int, int]) -> _Refs:
    good: list[_Ref] = []
    skipped: list[Skipped] = []
    remaining = stamp[
        1
    ]  # Limit of sentences: a pickle can refer to one list many times, but a sentence has at least a byte.

    def ref(record: Any) -> None:
        nonlocal remaining
        number, image, annotation = (_id(record, name) for name in ("ref_id", "image_id", "ann_id"))
        split, records = sys.intern(get_text(record, "split")), get_list(record, "sentences")
        remaining -= len(records)
        if remaining < 0:
            raise BadFile(path, "more sentences than bytes (repeated references to one list)")
        sentences: list[str] = []

        def sentence(record: Any) -> None:
            text = get_text(record, "sent" if isinstance(record, dict) and record.get("sent") else "raw")
            if not any(map(str.isalnum, text)):
                raise BadRecord("the sentence has no words")
            sentences.append(text)

        good_records(records, path, f"reference {number}, sentence", sentence, skipped)
        if sentences:
            good.append(_Ref(number, image, annotation, split, tuple(sentences)))
        else:
            raise BadRecord("the reference has no usable sentence")

    good_records(load_plain_pickle(path), path, "reference", ref, skipped)
    return _Refs(tuple(good), tuple(skipped))


@lru_cache(maxsize=1)  # splits of one data set are usually read in succession
def _read_instances(path: Path, stamp: tuple[int, int]) -> _Instances:
    content = read_json(path, drop=("segmentation", "area", "coco_url", "flickr_url", "date_captured", "licenses"))
    skipped: list[Skipped] = []
    images: dict[str, dict[str, Any]] = {}
    annotations: dict[str, dict[str, Any]] = {}
    categories: dict[str, str] = {}

    def category(record: Any) -> None:
        categories[_id(record, "id")] = get_text(record, "name")

    def image(record: Any) -> None:
        images[_id(record, "id")] = record

    def annotation(record: Any) -> None:
        annotations[_id(record, "id")] = record

    for name, kind, use in (
        ("images", "image", image),
        ("annotations", "annotation", annotation),
        ("categories", "category", category),
    ):
        if not isinstance(content, dict) or name not in content:
            raise BadFile(path, f'the list "{name}" is missing')
        good_records(content[name], path, kind, use, skipped)
    return _Instances(images, annotations, categories, tuple(skipped))


def _id(record: Any, name: str) -> str:
    value = get(record, name)
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise BadRecord(f'"{name}" must be an integer or a nonempty string')
    return str(value)


def _folders(root: Path) -> dict[str, Path]:
    """Data sets of this root: the root itself, or the existing ones of the four folders."""
    own = root.absolute().name  # "." has no name
    if _partitions(root) or (own in PARTITIONS and (root / "instances.json").is_file()):
        return {own: root}
    found = {name: root / name for name in PARTITIONS}
    return {name: path for name, path in found.items() if _partitions(path) or (path / "instances.json").is_file()}


def _partitions(folder: Path) -> list[str]:
    names = (_REFS.fullmatch(path.name) for path in sorted(folder.glob("refs(*).p")))
    return [name[1] for name in names if name]


def _files(root: Path) -> dict[str, Path]:
    """Reference files by the first parts of their split names."""
    return {
        partition if folder == root else f"{name}:{partition}": folder / f"refs({partition}).p"
        for name, folder in _folders(root).items()
        for partition in _partitions(folder)
    }


def _images(name: str) -> Expected:
    return _CLEF_IMAGES if name == "refclef" else _COCO_IMAGES
