"""Visual Genome: region descriptions, objects, attributes, and triplets (image, text, box).

The official files (versions 1.2 and 1.4):

``image_data.json``                       image sizes; the URL of an image contains its folder
``region_descriptions.json``              sentences about regions
``objects.json``, ``attributes.json``     names, boxes and attributes of objects
``VG_100K/``, ``VG_100K_2/``              the photographs
``train.txt``, ``val.txt``, ``test.txt``  optional: the lists of Anderson and others; AMC trains on their train list

The :class:`Sample` of an image has a caption for each region description. The whole caption is its only phrase, with
the entity ``region <id>`` and the region's box. Each object is an entity ``object <id>`` without a phrase: its label
is its first name, its types are its attributes. The split ``all`` has all images and is always available.

Memory: the large files are read one image at a time. They normally have the images in the same order; records out of
order stay in memory until their image is read. :func:`stream` keeps one sample at a time, and the table of image
sizes. :func:`load` keeps all samples, 57 kB for an image with 50 regions and 35 objects: about 6 GB for all 108,077
images. For training, use :func:`triplets` with :func:`stream`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from deixis import boxes as geometry
from deixis.data.reading import (
    BadFile,
    BadRecord,
    box_in_image,
    get,
    get_int,
    get_list,
    get_numbers,
    get_size,
    get_text,
    good_records,
    read_json,
    read_lines,
)
from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.files import open_text
from deixis.language.names import with_article
from deixis.language.tokenise import tokens
from deixis.types import Box, Phrase

NAME = "visual_genome"

MIN_AREA = 0.08
"""Minimum box area for a triplet, as a share of the image (AMC, section 4.1)."""

_IMAGES, _REGIONS, _OBJECTS, _ATTRIBUTES = (
    "image_data.json",
    "region_descriptions.json",
    "objects.json",
    "attributes.json",
)
_LISTS = ("train", "val", "test")
_FOLDERS = ("VG_100K", "VG_100K_2")
_STANFORD = "the authors of Visual Genome (R. Krishna and others), on the download page of its site"
_ANDERSON = "P. Anderson and others, with their bottom-up attention"


def expected(root: Path) -> tuple[Expected, ...]:
    """List the files of the official distribution."""
    bare = not _annotated(root)
    return (
        Expected(_IMAGES, "the images, their sizes and folders", _STANFORD),
        Expected(_REGIONS, "the region descriptions, which become captions", _STANFORD, required=bare),
        Expected(_OBJECTS, "the objects with their boxes", _STANFORD, required=bare),
        Expected(_ATTRIBUTES, "the attributes of the objects", _STANFORD, required=False),
        *(Expected(folder, "the photographs", _STANFORD) for folder in _FOLDERS),
        *(Expected(f"{name}.txt", f"the images of the {name} split", _ANDERSON, required=False) for name in _LISTS),
    )


def recognise(root: Path) -> bool:
    """Whether the folder has the image data or the region descriptions."""
    return (root / _IMAGES).is_file() or (root / _REGIONS).is_file()


def splits(root: Path) -> tuple[str, ...]:
    """List the splits with a list file; ``all`` if there is none."""
    return tuple(name for name in _LISTS if (root / f"{name}.txt").is_file()) or ("all",)


def load(root: Path, split: str = "all") -> Dataset:
    """Load one split into memory, in the order of ``image_data.json``."""
    skipped: list[Skipped] = []
    samples = tuple(stream(root, split, skipped))
    return Dataset(NAME, split, samples, tuple(skipped))


def stream(root: Path, split: str = "all", skipped: list[Skipped] | None = None) -> Iterator[Sample]:
    """Yield the samples of :func:`load`; add invalid records to ``skipped``.

    A truncated or malformed file raises :class:`BadFile` when the reader reaches that place.
    """
    if split not in ("all", *splits(root)):
        raise DeixisError(f"{root} has no split '{split}'. Available: {', '.join(('all', *splits(root)))}.")
    skipped = [] if skipped is None else skipped
    if not _annotated(root):
        raise DeixisError(f"{root} has no annotations. Run 'deixis data check {root}' for a list of the missing files.")
    images = _read_images(root, skipped)
    wanted = set(images) if split == "all" else _read_list(root / f"{split}.txt", images, skipped)
    records = {name: _Records(root / name, images, wanted, skipped) for name in (_REGIONS, _OBJECTS, _ATTRIBUTES)}
    for number, image in images.items():
        if number in wanted:
            yield _sample(number, image, {name: file.take(number) for name, file in records.items()}, root, skipped)
    for file in records.values():
        file.finish()


def coco_ids(root: Path, listed: Path | None = None) -> frozenset[str]:
    """Return the COCO ids of images that are also in COCO.

    The images are those of ``listed`` (a list of Visual Genome ids or file names), else of ``train.txt`` where it is
    there, else all.
    """
    images: dict[int, str] = {}

    def image(record: Any) -> None:
        number, other = _number(record, "image_id"), record.get("coco_id")
        images[number] = "" if other is None else str(get_int(record, "coco_id"))

    skipped: list[Skipped] = []
    good_records(read_json(root / _IMAGES), root / _IMAGES, "image", image, skipped)
    if listed is None and (root / "train.txt").is_file():
        listed = root / "train.txt"
    wanted = set(images) if listed is None else _read_list(listed, images, skipped)
    if not any(images.values()):
        raise DeixisError(f"{root / _IMAGES} has no coco_id. Use the official file of version 1.2 or later.")
    return frozenset(images[number] for number in wanted if images[number])


def _annotated(root: Path) -> bool:
    return any((root / name).is_file() for name in (_REGIONS, _OBJECTS, _ATTRIBUTES))


# Triplets -----------------------------------------------------------------------------------------------------------


Source = Literal["region", "object", "attribute", "spatial"]
"""Sources of the text of a triplet (AMC, section 4.1)."""


@dataclass(frozen=True)
class Triplet:
    """An image, a text, and the box of the object that the text describes."""

    image_id: str
    text: str
    box: Box
    source: Source


def triplets(sample: Sample, min_area: float = MIN_AREA) -> Iterator[Triplet]:
    """Yield the triplets of one image as in AMC (section 4.1), for boxes of at least ``min_area`` of the image.

    ``region``     each region description
    ``object``     "a dog"
    ``attribute``  "a brown dog", for each attribute
    ``spatial``    for several boxes of one name: "a brown dog on the left" (right) and "top brown dog" (bottom) for
                   the outermost box in this direction, "a brown dog to the top left" if it is also in a corner;
                   with the object's first attribute, if it has any

    The position is that of the box centre, among all boxes of the name, also those that are too small. The paper does
    not define a corner; here it is the outer third of the image in both directions. If two boxes have the same
    position, the text is ambiguous and left out.
    """
    width, height = sample.image_size()
    large: dict[str, Box] = {}
    for entity in sample.entities:
        for x1, y1, x2, y2 in entity.boxes.tolist():
            if (x2 - x1) * (y2 - y1) >= min_area * width * height:
                large[entity.id] = x1, y1, x2, y2
    for caption in sample.captions:
        for phrase in caption.phrases:
            if phrase.entity in large:
                yield Triplet(sample.image_id, phrase.text, large[phrase.entity], "region")
    by_name: defaultdict[str, list[tuple[str, Box]]] = defaultdict(list)  # name -> description and box of each object
    for entity in sample.entities:
        if not entity.label:
            continue
        padded_label = f" {entity.label} "
        described = [
            f"{attribute} {entity.label}" for attribute in entity.types if f" {attribute} " not in padded_label
        ]
        by_name[entity.label] += [((described or [entity.label])[0], geometry.as_box(box)) for box in entity.boxes]
        if entity.id in large:
            box = large[entity.id]
            yield Triplet(sample.image_id, with_article(entity.label), box, "object")
            for text in described:
                yield Triplet(sample.image_id, with_article(text), box, "attribute")
    for group in by_name.values():  # small boxes count for the position of the others
        for text, box in spatial_texts(group, width, height):
            if (box[2] - box[0]) * (box[3] - box[1]) >= min_area * width * height:
                yield Triplet(sample.image_id, text, box, "spatial")


def spatial_texts(group: list[tuple[str, Box]], width: float, height: float) -> Iterator[tuple[str, Box]]:
    """Yield texts that distinguish objects of one name by position, each with its box."""
    if len(group) < 2:
        return
    centres = [((x1 + x2) / 2, (y1 + y2) / 2) for _, (x1, y1, x2, y2) in group]
    farthest: dict[int, None] = {}
    for place, axis, end in (("left", 0, min), ("right", 0, max), ("top", 1, min), ("bottom", 1, max)):
        positions = [centre[axis] for centre in centres]
        if positions.count(end(positions)) > 1:
            continue
        index = positions.index(end(positions))
        farthest[index] = None
        text, box = group[index]
        yield (f"{with_article(text)} on the {place}" if axis == 0 else f"{place} {text}"), box
    corners = [_corner(x / width, y / height) for x, y in centres]
    for index in farthest:
        text, box = group[index]
        if corners[index] and corners.count(corners[index]) == 1:
            yield f"{with_article(text)} to the {corners[index]}", box


def _corner(x: float, y: float) -> str:
    across = "left" if x < 1 / 3 else "right" if x > 2 / 3 else ""
    down = "top" if y < 1 / 3 else "bottom" if y > 2 / 3 else ""
    return f"{down} {across}" if across and down else ""


# From records to samples --------------------------------------------------------------------------------------------


class _Image(NamedTuple):
    path: Path
    size: tuple[int, int]


def _sample(number: int, image: _Image, records: dict[str, Any], root: Path, skipped: list[Skipped]) -> Sample:
    captions: list[Caption] = []
    entities: dict[str, Entity] = {}
    attributes: defaultdict[int, list[str]] = defaultdict(list)

    def add(name: str, box: Box, label: str = "", types: tuple[str, ...] = ()) -> None:
        if name in entities:
            raise BadRecord(f"duplicate {name}")
        entities[name] = Entity(name, geometry.as_boxes([box]), types, label)

    def region(record: Any) -> None:
        name, text = f"region {_number(record, 'region_id')}", get_text(record, "phrase")
        words = tuple(map(sys.intern, tokens(text)))
        if not words:
            raise BadRecord("the phrase has no words")
        add(name, _box(record, image.size, "width", "height"))
        captions.append(Caption(text, words, (Phrase(text, 0, len(words), entity=name),)))

    def attribute(record: Any) -> None:
        key = _number(record, "object_id")
        values = [] if record.get("attributes") is None else get_list(record, "attributes")
        if not all(isinstance(value, str) for value in values):
            raise BadRecord("an attribute must be a string")
        attributes[key] += [sys.intern(_tidy(value)) for value in values]

    def object_record(record: Any) -> None:
        key, label, box = _number(record, "object_id"), _name(record), _box(record, image.size, "w", "h")
        merged = record.get("merged_object_ids")  # version 1.4: ids of the merged objects of version 1.2
        found = [attributes.get(each, []) for each in (key, *(merged if isinstance(merged, list) else ()))]
        add(f"object {key}", box, label, tuple(dict.fromkeys(value for values in found for value in values if value)))

    def both(record: Any) -> None:
        attribute(record)
        object_record(record)

    passes = [(_REGIONS, "regions", "region", region)]
    if records[_OBJECTS] is None:  # the attributes file also has names and boxes of objects
        passes += [(_ATTRIBUTES, "attributes", "object", both)]
    else:
        passes += [(_ATTRIBUTES, "attributes", "attribute", attribute), (_OBJECTS, "objects", "object", object_record)]
    for name, inside, kind, use in passes:
        if records[name] is not None:
            try:
                values = get_list(records[name], inside)
                good_records(values, root / name, f"image {number}, {kind}", use, skipped)
            except BadRecord as error:
                skipped.append(Skipped(str(root / name), f"image {number}: {error}"))
    return Sample(str(number), tuple(captions), path=image.path, size=image.size, entities=tuple(entities.values()))


def _number(record: Any, name: str) -> int:
    """Id of a record; the first versions use the field ``id`` everywhere."""
    return get_int(record, "id" if isinstance(record, dict) and name not in record and "id" in record else name)


def _name(record: Any) -> str:
    names = get(record, "names") if "names" in record else [get(record, "name")]
    if not isinstance(names, list) or not names or not isinstance(names[0], str) or not names[0].strip():
        raise BadRecord("the object has no name")
    return sys.intern(_tidy(names[0]))


def _tidy(text: str) -> str:
    return " ".join(text.lower().split())


def _box(record: Any, size: tuple[int, int], across: str, down: str) -> Box:
    corner = {"box": [get(record, name) for name in ("x", "y", across, down)]}
    x, y, width, height = get_numbers(corner, "box", 4)
    return box_in_image((x, y, x + width, y + height), size)


# Files --------------------------------------------------------------------------------------------------------------


def _read_images(root: Path, skipped: list[Skipped]) -> dict[int, _Image]:
    images: dict[int, _Image] = {}

    def image(record: Any) -> None:
        number = _number(record, "image_id")
        if number in images:
            raise BadRecord(f"duplicate image {number}")
        address = record.get("url")
        folder = PurePosixPath(address).parent.name if isinstance(address, str) else ""
        images[number] = _Image(
            root / (folder if folder in _FOLDERS else _FOLDERS[0]) / f"{number}.jpg", get_size(record)
        )

    good_records(read_json(root / _IMAGES), root / _IMAGES, "image", image, skipped)
    return images


def _read_list(path: Path, images: Collection[int], skipped: list[Skipped]) -> set[int]:
    """Read the images of a split; a line starts with ``VG_100K/<id>.jpg`` or with the id."""
    wanted: set[int] = set()
    for line, text in read_lines(path):
        name = PurePosixPath(text.split()[0]).stem
        if name.isascii() and name.isdigit() and int(name) in images:
            wanted.add(int(name))
        else:
            skipped.append(Skipped(str(path), f"'{name[:40]}' is not an image in {_IMAGES}", line))
    return wanted


class _Records:
    """Records of one large file, read image by image; empty if the file is missing."""

    def __init__(self, path: Path, images: dict[int, _Image], wanted: set[int], skipped: list[Skipped]) -> None:
        self.path, self.images, self.wanted, self.skipped = path, images, wanted, skipped
        self.unread = json_elements(path) if path.is_file() else iter(())
        self.waiting: dict[int, Any] = {}
        self.seen: set[int] = set()

    def take(self, number: int) -> Any:
        """Return the record of an image, or None; records read before it are kept for later."""
        while number not in self.waiting and self._read():
            pass
        return self.waiting.pop(number, None)

    def finish(self) -> None:
        """Read the remaining records, to report their errors."""
        while self._read():
            pass

    def _read(self) -> bool:
        record = next(self.unread, _END)
        if record is _END:
            return False
        try:
            number = _number(record, "image_id")
            if number not in self.images:
                raise BadRecord(f"image {number} is not in {_IMAGES}")
            if number in self.seen:
                raise BadRecord(f"duplicate image {number}")
            self.seen.add(number)
            if number in self.wanted:
                self.waiting[number] = record
        except BadRecord as error:
            self.skipped.append(Skipped(str(self.path), f"invalid record: {error}"))
        return True


_END = object()
_CHUNK = 2**20
_MAX_RECORD = 64 * 2**20
"""Maximum length of the record of one image, in characters."""
_SPACE = re.compile(r"\s*")


def json_elements(path: Path) -> Iterator[Any]:
    """Decode the elements of a JSON list one at a time."""
    decode = json.JSONDecoder().raw_decode
    try:
        file = open_text(path, encoding="utf-8-sig")
    except OSError as error:
        raise BadFile(path, f"cannot be read ({error.strerror or error})") from None
    with file:
        buffer, at, line = "", 0, 1

        def more(size: int) -> bool:
            nonlocal buffer, at, line
            line += buffer.count("\n", 0, at)
            try:
                piece = file.read(size)
            except UnicodeDecodeError:
                raise bad("not UTF-8 text", at) from None
            except OSError as error:
                raise bad(f"cannot be read ({error.strerror or error})", at) from None
            buffer, at = buffer[at:] + piece, 0
            return bool(piece)

        def mark() -> str:
            """Next nonspace character, or an empty string at the end."""
            nonlocal at
            while True:
                at = _SPACE.match(buffer, at).end()  # type: ignore[union-attr]
                if at < len(buffer) or not more(_CHUNK):
                    return buffer[at : at + 1]

        def bad(reason: str, where: int) -> BadFile:
            return BadFile(path, reason, line + buffer.count("\n", 0, where))

        if mark() != "[":
            raise bad("expected a list of images", at)
        at += 1
        going = mark() != "]"
        at += not going
        while going:
            mark()
            size = _CHUNK
            while True:
                try:
                    element, at = decode(buffer, at)
                    break
                except json.JSONDecodeError as error:
                    # The record may be longer than the buffer: read more.
                    offset = error.pos - at
                    if len(buffer) - at > _MAX_RECORD or not more(size):
                        raise bad(f"not valid JSON ({error.msg.lower()})", at + offset) from None
                    size *= 2
                except (RecursionError, ValueError) as error:
                    raise bad(f"not usable JSON ({error})", at) from None
            yield element
            if (separator := mark()) not in tuple(",]"):
                raise bad("not valid JSON (',' or ']' expected after a record)", at)
            going = separator == ","
            at += 1
        if mark():
            raise bad("unexpected text after the list", at)
