"""Referring expressions: RefCOCO, RefCOCO+, RefCOCOg, and RefCLEF (the ReferItGame).

The official folder layout, all of it or only some of the four folders:

``refcoco/``, ``refcoco+/``, ``refcocog/``, ``refclef/``   each with ``instances.json`` and ``refs(<partition>).p``
``images/mscoco/images/train2014/``                         the photographs of the first three
``images/saiapr_tc-12/``                                    the photographs of RefCLEF

A partition says who divided the data: ``unc``, ``google``, ``umd`` or ``berkeley``. A split is called
``refcoco+:unc:testA``, or ``unc:testA`` where the root is one of the four folders itself; the first parts may be left
out as long as one file is meant. RefCLEF files some references under several test sets (``testAB``): they are in
``testA`` and in ``testB``, and ``test`` takes all.

One sample is one image with every sentence about it in the split, so that an image is looked at once. Each sentence
is a caption with one phrase: the whole sentence, which points to the entity of its box. Accuracy in this field is
per sentence, so it is the mean over the phrases of a split. The text is the cleaned one (``sent``), on which the
field reports.

The references are a pickle, read by :mod:`deixis.data.plain_pickle`, which cannot run anything.
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

PARTITIONS = {  # folder -> its official partitions, the usual one first
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
    "the ImageCLEF campaign (SAIAPR TC-12); the refer toolbox has the part that is needed",
)


def expected(root: Path) -> tuple[Expected, ...]:
    """The files of the data sets that are there; the folders of the others are optional."""
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
    """Whether the folder is one of the four, or holds one of them."""
    return bool(_folders(root))


def splits(root: Path) -> tuple[str, ...]:
    """The splits of every references file; reads the files, once each as long as they stay the same."""
    found: list[str] = []
    for name, path in _files(root).items():
        try:
            names = _split_names(_refs(path))
        except BadFile:
            names = ["train"]  # so that the file is not passed by: `load` says what is wrong with it
        found += [f"{name}:{split}" for split in names]
    return tuple(found)


def load(root: Path, split: str, *, exclude: Collection[int | str] = ()) -> Dataset:
    """One split, its images in the order in which the references name them first.

    ``exclude`` holds ids of images to leave out; what is left out on purpose does not count as skipped. The clean
    subset of RefCOCO+ (AMC, appendix A) excludes the images that are among the training images of Visual Genome.
    """
    *names, part = split.split(":")
    files = {name: path for name, path in _files(root).items() if set(names) <= set(name.split(":"))}
    if len(files) != 1:
        there = ", ".join(files or _files(root)) or "none"
        raise DeixisError(f"{root}: '{split}' must mean one file of references out of these: {there}.")
    [(name, path)] = files.items()
    refs = _refs(path)
    wanted = [ref for ref in refs.good if _is_in(part, ref.split)]
    if not wanted:
        raise DeixisError(f"{path} has no split '{part}'; there is {', '.join(_split_names(refs)) or 'none'}.")

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
    """A sample in the making."""

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
    """Put a reference's entity and sentences into its image; where the box is bad, the image stays as it was."""
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


def _is_in(asked: str, split: str) -> bool:
    # "testAB" belongs to the test sets A and B; "test" asks for all of them.
    if asked.startswith("test") and split.startswith("test"):
        return set(asked[4:]) <= set(split[4:])
    return asked == split


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
    """``instances.json`` without its outlines; a record is looked into when a reference needs it."""

    images: dict[str, dict[str, Any]]
    annotations: dict[str, dict[str, Any]]
    categories: dict[str, str]
    skipped: tuple[Skipped, ...]


def _refs(path: Path) -> _Refs:
    return _read_refs(path, _stamp(path))


def _instances(path: Path) -> _Instances:
    return _read_instances(path, _stamp(path))


def _stamp(path: Path) -> tuple[int, int]:
    """What changes when the file does."""
    if not path.is_file():
        raise DeixisError(f"{path} does not exist; 'deixis data check' on its folder says where it comes from.")
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=8)  # all the official partitions: some 150 MB, and each takes seconds to read
def _read_refs(path: Path, stamp: tuple[int, int]) -> _Refs:
    good: list[_Ref] = []
    skipped: list[Skipped] = []
    room = stamp[1]  # A sentence takes more than a byte, but a pickle may name one list of them again and again.

    def ref(record: Any) -> None:
        nonlocal room
        number, image, annotation = (_id(record, name) for name in ("ref_id", "image_id", "ann_id"))
        split, records = sys.intern(get_text(record, "split")), get_list(record, "sentences")
        room -= len(records)
        if room < 0:
            raise BadFile(path, "it repeats its sentences without end")
        sentences: list[str] = []

        def sentence(record: Any) -> None:
            text = get_text(record, "sent" if isinstance(record, dict) and record.get("sent") else "raw")
            if not any(map(str.isalnum, text)):
                raise BadRecord("it has no words")
            sentences.append(text)

        good_records(records, path, f"reference {number}, sentence", sentence, skipped)
        if sentences:
            good.append(_Ref(number, image, annotation, split, tuple(sentences)))
        else:
            raise BadRecord("it has no usable sentence")

    good_records(load_plain_pickle(path), path, "reference", ref, skipped)
    return _Refs(tuple(good), tuple(skipped))


@lru_cache(maxsize=1)  # the splits of one data set come one after the other
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
            raise BadFile(path, f'no list "{name}" in it')
        good_records(content[name], path, kind, use, skipped)
    return _Instances(images, annotations, categories, tuple(skipped))


def _id(record: Any, name: str) -> str:
    value = get(record, name)
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise BadRecord(f'"{name}" is neither a number nor a name')
    return str(value)


def _folders(root: Path) -> dict[str, Path]:
    """The data sets of this root: itself, or those of the four folders that are in it."""
    own = root.absolute().name  # "." has no name
    if _partitions(root) or (own in PARTITIONS and (root / "instances.json").is_file()):
        return {own: root}
    found = {name: root / name for name in PARTITIONS}
    return {name: path for name, path in found.items() if _partitions(path) or (path / "instances.json").is_file()}


def _partitions(folder: Path) -> list[str]:
    names = (_REFS.fullmatch(path.name) for path in sorted(folder.glob("refs(*).p")))
    return [name[1] for name in names if name]


def _files(root: Path) -> dict[str, Path]:
    """The references files, by the first parts of their splits' names."""
    return {
        partition if folder == root else f"{name}:{partition}": folder / f"refs({partition}).p"
        for name, folder in _folders(root).items()
        for partition in _partitions(folder)
    }


def _images(name: str) -> Expected:
    return _CLEF_IMAGES if name == "refclef" else _COCO_IMAGES
