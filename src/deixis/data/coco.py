"""COCO captions and instances, and Karpathy's splits of COCO, Flickr30k and Flickr8k.

Two kinds of files, alone or together in one folder (or in its subfolder ``annotations``):

``captions_<split>.json``, ``instances_<split>.json``   the official files; splits ``train2014``, ``val2017`` ...
``dataset_coco.json``, ``dataset_flickr30k.json``,      Karpathy's files; splits ``train``, ``restval``, ``val``,
``dataset_flickr8k.json``                               ``test``, or ``coco:train`` ... if there are several files

Each instance is an :class:`Entity`. Its label is the category. Its types are the supercategory and, for a crowd
annotation, ``"crowd"``. Karpathy's split of COCO uses the boxes of the official instances.

``labels80.jsonl``, if present, has image-level labels of COCO images: lines ``{"image_id", "labels"}`` with the numbers
of the 80 classes from 0. They become :attr:`Sample.labels`. They are a supervision of their own: a model that uses them
says so on its card.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.reading import (
    MAX_JSON,
    BadFile,
    BadRecord,
    get_int,
    get_list,
    get_numbers,
    get_size,
    get_text,
    good_records,
    plain_name,
    read_json,
    read_json_lines,
    read_text,
)
from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import tokens

NAME = "coco"

OFFICIAL_SPLITS = ("train2014", "val2014", "train2017", "val2017")
KARPATHY_SPLITS = ("train", "restval", "val", "test")
KARPATHY_SETS = ("coco", "flickr30k", "flickr8k")

CLASSES = (
    *("person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light"),
    *("fire hydrant", "", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow"),
    *("elephant", "bear", "zebra", "giraffe", "", "backpack", "umbrella", "", "", "handbag", "tie", "suitcase"),
    *("frisbee", "skis", "snowboard", "sports ball", "kite", "baseball bat", "baseball glove", "skateboard"),
    *("surfboard", "tennis racket", "bottle", "", "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana"),
    *("apple", "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch"),
    *("potted plant", "bed", "", "dining table", "", "", "toilet", "", "tv", "laptop", "mouse", "remote"),
    *("keyboard", "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", "", "book", "clock", "vase"),
    *("scissors", "teddy bear", "hair drier", "toothbrush"),
)
"""Category names by their official numbers from 1; an empty name is a gap."""
LABELS = "labels80.jsonl"
_LABELLED = tuple(name for name in CLASSES if name)  # by the numbers of labels80.jsonl, from 0

_COCO = "the COCO consortium, on the download page of its site"
_KARPATHY = "A. Karpathy (Stanford), in the caption data sets archive of the deep visual-semantic alignments page"
_OWNERS = {
    "flickr30k": "the authors of Flickr30k (P. Young and others, University of Illinois), by request",
    "flickr8k": "the authors of Flickr8k (M. Hodosh and others, University of Illinois), by request",
}
# Unused fields, which are most of a file.
_UNUSED = (
    "segmentation",
    "area",
    "tokens",
    "sentids",
    "license",
    "licenses",
    "info",
    "coco_url",
    "flickr_url",
    "date_captured",
)
_SPLIT = re.compile(r'(?<!\\)"split"\s*:\s*"([a-z]+)"')
_FOLDERS = {
    "flickr30k": ("flickr30k-images", "flickr30k_images", "images"),
    "flickr8k": ("Flicker8k_Dataset", "Flickr8k_Dataset", "images"),  # the first is the official spelling
}


def expected(root: Path) -> tuple[Expected, ...]:
    """List the official files of the data sets in the folder; those of COCO 2014 if it has none."""
    official, karpathy = _official(root), _karpathy(root)
    years = {split[-4:] for split in official}
    photographs: tuple[str, ...] = ()  # image folders of Karpathy's split of COCO
    if "coco" in karpathy or not (official or karpathy):
        photographs = _image_folders(root)
    files: list[Expected] = []
    for split in (split for split in OFFICIAL_SPLITS if split[-4:] in years or split in photographs):
        wanted = split in official or not (official or karpathy)
        files += [
            Expected(_annotation(root, f"captions_{split}.json"), f"the captions of {split}", _COCO, wanted),
            Expected(_annotation(root, f"instances_{split}.json"), f"the boxes and classes of {split}", _COCO, False),
            Expected(
                _folder(root, split),
                f"the images of {split}",
                _COCO,
                wanted or split in photographs,
            ),
        ]
    for name in karpathy:
        files.append(Expected(_annotation(root, f"dataset_{name}.json"), f"Karpathy's splits of {name}", _KARPATHY))
        if name != "coco":
            files.append(Expected(_folder(root, *_FOLDERS[name]), f"the photographs of {name}", _OWNERS[name]))
    return tuple(files)


def recognise(root: Path) -> bool:
    """Whether the folder or its subfolder ``annotations`` has a COCO captions file or one of Karpathy's files."""
    return bool(_official(root) or _karpathy(root))


def splits(root: Path) -> tuple[str, ...]:
    """List the official splits with a captions file, then the splits that occur in Karpathy's files."""
    karpathy = _karpathy(root)
    found = list(_official(root))
    for name in karpathy:
        path = root / _annotation(root, f"dataset_{name}.json")
        parts = _karpathy_splits(path, path.stat().st_mtime_ns)
        found += parts if len(karpathy) == 1 else [f"{name}:{part}" for part in parts]
    return tuple(found)


def load(root: Path, split: str) -> Dataset:
    """Load one split, in file order."""
    if split not in splits(root):
        raise DeixisError(f"{root} has no split '{split}'. Available: {', '.join(splits(root)) or 'none'}.")
    skipped: list[Skipped] = []
    if split in OFFICIAL_SPLITS:
        samples = _load_official(root, split, skipped)
    else:
        name, part = split.split(":") if ":" in split else (_karpathy(root)[0], split)
        samples = _load_karpathy(root, name, part, skipped)
    return Dataset(NAME, split, samples, tuple(skipped))


def _load_official(root: Path, split: str, skipped: list[Skipped]) -> tuple[Sample, ...]:
    path = root / _annotation(root, f"captions_{split}.json")
    content = _read(path, ("images", "annotations"))
    captions: dict[int, list[Caption]] = {}
    sizes: dict[int, tuple[int, int]] = {}
    names: dict[int, str] = {}

    def image(record: Any) -> None:
        number = get_int(record, "id")
        if number in names:
            raise BadRecord(f"duplicate image {number}")
        name, size = plain_name(get_text(record, "file_name")), get_size(record)
        names[number], sizes[number], captions[number] = name, size, []

    def annotation(record: Any) -> None:
        number = get_int(record, "image_id")
        if number not in captions:
            raise BadRecord(f"image {number} is not in the list of images")
        captions[number].append(_caption(get_text(record, "caption")))

    good_records(content["images"], path, "image", image, skipped)
    good_records(content["annotations"], path, "annotation", annotation, skipped)
    instances = _instances(root, split, skipped)
    folder = root / _folder(root, split)
    samples: list[Sample] = []
    for number, found in captions.items():
        if found:
            entities = instances.entities(number)
            place = folder / names[number]
            samples.append(Sample(str(number), tuple(found), path=place, size=sizes[number], entities=entities))
        else:
            skipped.append(Skipped(str(path), f"image {number} has no usable caption"))
    return tuple(samples)


def _load_karpathy(root: Path, name: str, part: str, skipped: list[Skipped]) -> tuple[Sample, ...]:
    path = root / _annotation(root, f"dataset_{name}.json")
    content = _read(path, ("images",))
    samples: list[Sample] = []
    photographs = root / _folder(
        root, *_FOLDERS.get(name, (name,))
    )  # for Flickr; records of COCO have their own folder
    sources: dict[str, tuple[Path, _Instances]] = {}  # COCO folder -> its path and its boxes
    labels = _labels(root, skipped) if name == "coco" else {}

    def image(record: Any) -> None:
        split = get_text(record, "split")
        if split not in KARPATHY_SPLITS:
            raise BadRecord(f"unknown split '{split}'")
        if split != part:
            return
        file = plain_name(get_text(record, "filename"))
        captions: list[Caption] = []

        def sentence(record: Any) -> None:
            captions.append(_caption(get_text(record, "raw")))

        good_records(get_list(record, "sentences"), path, f"{file}, sentence", sentence, skipped)
        if not captions:
            raise BadRecord(f"{file} has no usable caption")
        if name != "coco":
            samples.append(Sample(Path(file).stem, tuple(captions), path=photographs / file))
            return
        number, folder = get_int(record, "cocoid"), plain_name(get_text(record, "filepath"))
        if folder not in sources:
            sources[folder] = root / _folder(root, folder), _instances(root, folder, skipped)
        place, instances = sources[folder]
        size, entities = instances.sizes.get(number), instances.entities(number)
        samples.append(
            Sample(
                str(number),
                tuple(captions),
                path=place / file,
                size=size,
                entities=entities,
                labels=labels.get(number),
            )
        )

    good_records(content["images"], path, "image", image, skipped)
    return tuple(samples)


def _labels(root: Path, skipped: list[Skipped]) -> dict[int, tuple[str, ...]]:
    """Image -> names of the classes in it, from ``labels80.jsonl``; empty if there is no such file."""
    path = root / LABELS
    found: dict[int, tuple[str, ...]] = {}
    if not path.is_file():
        return found
    for line, record in read_json_lines(path, skipped):
        try:
            numbers = get_list(record, "labels")
            if not all(type(number) is int and 0 <= number < len(_LABELLED) for number in numbers):
                raise BadRecord(f'"labels" must be numbers from 0 to {len(_LABELLED) - 1}')
            found[get_int(record, "image_id")] = tuple(_LABELLED[number] for number in numbers)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), line))
    return found


def _caption(text: str) -> Caption:
    # Interned words save memory: one pointer per word for 600,000 captions.
    return Caption(text, tuple(map(sys.intern, tokens(text))))


# Instances ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Instances:
    """Boxes of one instances file, in flat arrays sorted by image (about 40 MB for 900,000 boxes)."""

    ids: npt.NDArray[np.int64]  # [N]
    boxes: npt.NDArray[np.floating]  # [N, 4]
    categories: npt.NDArray[np.int64]  # [N]
    crowd: npt.NDArray[np.bool_]  # [N]
    rows: dict[int, tuple[int, int]]  # image -> first and last row + 1
    names: dict[int, tuple[str, tuple[str, ...]]]  # category -> name, and supercategory if given
    sizes: dict[int, tuple[int, int]]
    skipped: tuple[Skipped, ...]

    def entities(self, image: int) -> tuple[Entity, ...]:
        """Entities of one image."""
        return tuple(self._entity(row) for row in range(*self.rows.get(image, (0, 0))))

    def _entity(self, row: int) -> Entity:
        name, supercategory = self.names[int(self.categories[row])]
        types = (*supercategory, "crowd") if self.crowd[row] else supercategory
        return Entity(str(self.ids[row]), self.boxes[row : row + 1], types, name)


_EMPTY = _Instances(np.zeros(0, int), np.zeros((0, 4)), np.zeros(0, int), np.zeros(0, bool), {}, {}, {}, ())


def _instances(root: Path, split: str, skipped: list[Skipped]) -> _Instances:
    """Read the boxes of a split; empty if the file is missing or invalid."""
    path = root / _annotation(root, f"instances_{split}.json")
    if not path.is_file():
        return _EMPTY
    try:
        found = _read_instances(path, path.stat().st_mtime_ns)
    except BadFile as error:
        skipped.append(error.skipped)
        return _EMPTY
    skipped += found.skipped
    return found


@lru_cache(maxsize=2)
def _read_instances(path: Path, modified: int) -> _Instances:
    # Cached: three of Karpathy's splits share one large file. `modified` invalidates the entry if the file changes.
    content = _read(path, ("images", "annotations", "categories"))
    skipped: list[Skipped] = []
    names: dict[int, tuple[str, tuple[str, ...]]] = {}
    sizes: dict[int, tuple[int, int]] = {}
    found: list[tuple[int, int, int, bool]] = []  # image, id, category, crowd
    corners: list[list[float]] = []  # x, y, width, height

    def category(record: Any) -> None:
        supercategory = (get_text(record, "supercategory"),) if "supercategory" in record else ()  # optional
        names[get_int(record, "id")] = get_text(record, "name"), supercategory

    def image(record: Any) -> None:
        sizes[get_int(record, "id")] = get_size(record)

    def annotation(record: Any) -> None:
        number, kind = get_int(record, "image_id"), get_int(record, "category_id")
        if number not in sizes:
            raise BadRecord(f"image {number} is not in the list of images")
        if kind not in names:
            raise BadRecord(f"category {kind} is not in the list of categories")
        entry = number, get_int(record, "id"), kind, record.get("iscrowd") == 1
        corners.append(get_numbers(record, "bbox", 4))
        found.append(entry)

    good_records(content["categories"], path, "category", category, skipped)
    good_records(content["images"], path, "image", image, skipped)
    good_records(content["annotations"], path, "annotation", annotation, skipped)

    table = np.array(found, dtype=np.int64).reshape(-1, 4)
    limits = np.array([sizes[number] for number in table[:, 0].tolist()], dtype=np.float64).reshape(-1, 2)
    boxes = np.clip(geometry.from_xywh(corners), 0, np.tile(limits, 2))
    good = geometry.area(boxes) > 0
    for row in np.flatnonzero(~good):
        reason = f"annotation id {table[row, 1]}: the box {corners[row]} is empty or outside the image"
        skipped.append(Skipped(str(path), reason))
    table, boxes = table[good], boxes[good]
    order = np.argsort(table[:, 0], kind="stable")
    images, starts, counts = np.unique(table[order, 0], return_index=True, return_counts=True)
    rows = {int(n): (int(start), int(start + count)) for n, start, count in zip(images, starts, counts, strict=True)}
    _, ids, categories, crowd = table[order].T
    return _Instances(ids, boxes[order], categories, crowd == 1, rows, names, sizes, tuple(skipped))


# Files --------------------------------------------------------------------------------------------------------------


def _read(path: Path, lists: tuple[str, ...]) -> dict[str, Any]:
    content = read_json(path, drop=_UNUSED)
    for name in lists:
        if not isinstance(content, dict) or not isinstance(content.get(name), list):
            raise BadFile(path, f'the list "{name}" is missing')
    return content


def _official(root: Path) -> tuple[str, ...]:
    return tuple(split for split in OFFICIAL_SPLITS if (root / _annotation(root, f"captions_{split}.json")).is_file())


def _karpathy(root: Path) -> tuple[str, ...]:
    return tuple(name for name in KARPATHY_SETS if (root / _annotation(root, f"dataset_{name}.json")).is_file())


@lru_cache(maxsize=8)
def _karpathy_splits(path: Path, modified: int) -> tuple[str, ...]:
    """Splits that occur in one of Karpathy's files, found without parsing it; all if none is found."""
    found = set(_SPLIT.findall(read_text(path, MAX_JSON)))
    return tuple(split for split in KARPATHY_SPLITS if split in found) or KARPATHY_SPLITS


def _image_folders(root: Path) -> tuple[str, ...]:
    """Image folders of COCO: those of 2014, as Karpathy's file has them, unless there are only others."""
    found = tuple(split for split in OFFICIAL_SPLITS if (root / _folder(root, split)).is_dir())
    return found if found and all("2014" not in split for split in found) else ("train2014", "val2014")


def _annotation(root: Path, name: str) -> str:
    """Relative path of a file: in ``annotations``, as in the archives, or in the root."""
    return name if (root / name).is_file() else f"annotations/{name}"


def _folder(root: Path, *names: str) -> str:
    """Image folder: the first existing one of ``names``, also inside ``images``."""
    candidates = [*names, *(f"images/{name}" for name in names)]
    return next((name for name in candidates if (root / name).is_dir()), names[0])
