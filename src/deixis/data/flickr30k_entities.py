"""Flickr30k Entities: captions whose phrases are tied to boxes by coreference chains.

``Sentences/<id>.txt``      five captions, phrases marked ``[/EN#<chain>/<type>[/<type>...] words]``
``Annotations/<id>.xml``    the boxes of each chain; an image without this file has no boxes
``train.txt`` ...           the image ids of each split
``UNRELATED_CAPTIONS``      captions that do not describe their image, by image id and number from 1

A chain is an :class:`Entity`. Chain 0 marks what cannot be seen: such a phrase keeps its types and has no entity.
Captions listed as unrelated are left out; they are not errors, so they do not count as skipped.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from deixis import boxes as geometry
from deixis.data.reading import BadFile, BadRecord, Node, plain_name, read_lines, read_xml
from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import align
from deixis.types import Phrase

NAME = "flickr30k_entities"

CAPTIONS_PER_IMAGE = 5
SPLITS = ("train", "val", "test")
IMAGE_FOLDERS = ("flickr30k-images", "flickr30k_images")

_REPOSITORY = "the authors of Flickr30k Entities (B. Plummer and others), in their repository"
_ARCHIVE = f"{_REPOSITORY}, inside the annotations archive"
_PHRASE = re.compile(r"\[/EN#(\d+)((?:/[^/\s\[\]]+)+)\s+([^\[\]]*[^\[\]\s])\s*\]")
_CHAIN = re.compile(r"/EN#(\d+)/")


def expected(root: Path) -> tuple[Expected, ...]:
    """The files of the official distribution."""
    return (
        Expected("Sentences", "the captions, with their phrases and chains", _ARCHIVE),
        Expected("Annotations", "the boxes of the chains, needed for scoring and not for training", _ARCHIVE, False),
        *(Expected(f"{split}.txt", f"the image ids of the {split} split", _REPOSITORY) for split in SPLITS),
        Expected("UNRELATED_CAPTIONS", "the captions that do not describe their image", _REPOSITORY, False),
        Expected(
            _image_folder(root).name,
            "the photographs",
            "the authors of Flickr30k (P. Young and others, University of Illinois), who send a link on request",
        ),
    )


def recognise(root: Path) -> bool:
    """Whether the folder holds ``Sentences`` and either ``Annotations`` or a split list."""
    return (root / "Sentences").is_dir() and ((root / "Annotations").is_dir() or bool(splits(root)))


def splits(root: Path) -> tuple[str, ...]:
    """The splits whose list of image ids is there."""
    return tuple(split for split in SPLITS if (root / f"{split}.txt").is_file())


def load(root: Path, split: str) -> Dataset:
    """One split, in the order of its list."""
    if split not in splits(root):
        raise DeixisError(f"{root / f'{split}.txt'} does not exist; there is {', '.join(splits(root)) or 'no split'}.")
    skipped: list[Skipped] = []
    unrelated = _unrelated(root / "UNRELATED_CAPTIONS", skipped)
    images = _image_folder(root)
    samples: list[Sample] = []
    seen: set[str] = set()
    listing = root / f"{split}.txt"
    for line, image_id in read_lines(listing):
        try:
            if plain_name(image_id) in seen:
                raise BadRecord(f"image {image_id} is listed twice")
            seen.add(image_id)
            samples.append(_sample(root, images, image_id, unrelated.get(image_id, ()), skipped))
        except BadRecord as error:
            skipped.append(Skipped(str(listing), str(error), line))
        except BadFile as error:
            skipped.append(error.skipped)
    return Dataset(NAME, split, tuple(samples), tuple(skipped))


def parse_caption(line: str) -> Caption:
    """A caption from a line with markup; :class:`BadRecord` where a bracket or its contents is wrong."""
    text = ""
    marked: list[tuple[int, int, str, tuple[str, ...]]] = []
    end = 0
    for match in _PHRASE.finditer(line):
        text += _plain(line, end, match.start())
        chain, types, words = match.groups()
        marked.append((len(text), len(text) + len(words), chain, tuple(types[1:].split("/"))))
        text += words
        end = match.end()
    text += _plain(line, end, len(line))
    if not text.strip():
        raise BadRecord("the caption is empty")
    aligned = align(text)
    phrases = tuple(
        Phrase(text[start:stop], *aligned.span(start, stop), entity=None if chain == "0" else chain, types=types)
        for start, stop, chain, types in marked
    )
    return Caption(text, aligned.tokens, phrases)


def _plain(line: str, start: int, end: int) -> str:
    """The unmarked text between two phrases; a bracket in it belongs to broken markup."""
    text = line[start:end]
    bracket = re.search(r"[\[\]]", text)
    if bracket is None:
        return text
    at = start + bracket.start()
    if line[at] == "]":
        raise BadRecord(f"the bracket at column {at + 1} closes no phrase")
    raise BadRecord(f"the phrase '{line[at : at + 30]}' at column {at + 1} is not closed or not marked")


def _sample(root: Path, images: Path, image_id: str, unrelated: Collection[int], skipped: list[Skipped]) -> Sample:
    path = root / "Sentences" / f"{image_id}.txt"
    if not path.is_file():
        raise BadRecord(f"image {image_id} has no captions ({path.name} is not in Sentences)")
    lines = read_lines(path)
    captions: list[Caption] = []
    chains: dict[str, list[str]] = {}  # chain -> its types over all captions, even those left out
    for number, (line_number, line) in enumerate(lines, start=1):
        for chain in _CHAIN.findall(line):
            chains.setdefault(chain, [])
        try:
            caption = parse_caption(line)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), line_number))
            continue
        for phrase in caption.phrases:
            if phrase.entity is not None:
                chains[phrase.entity] += [kind for kind in phrase.types if kind not in chains[phrase.entity]]
        if number not in unrelated:
            captions.append(caption)
    if len(lines) != CAPTIONS_PER_IMAGE:
        reason = f"{len(lines)} captions where {CAPTIONS_PER_IMAGE} belong; those that are there are used"
        skipped.append(Skipped(str(path), reason))
    if not captions:
        raise BadRecord(f"image {image_id} has no usable caption")

    chains.pop("0", None)
    places = {chain: _Place() for chain in chains}
    annotation = root / "Annotations" / f"{image_id}.xml"
    size = _read_boxes(annotation, places, skipped) if annotation.is_file() else None
    entities = tuple(
        Entity(
            id=chain,
            boxes=geometry.as_boxes(place.boxes),
            types=tuple(chains[chain]),
            scene=place.scene,
            no_box=place.no_box,
        )
        for chain, place in places.items()
    )
    return Sample(image_id, tuple(captions), path=images / f"{image_id}.jpg", size=size, entities=entities)


@dataclass
class _Place:
    """What the annotation says about one chain."""

    boxes: list[geometry.Array] = field(default_factory=list)
    scene: bool = False
    no_box: bool = False


def _read_boxes(path: Path, places: dict[str, _Place], skipped: list[Skipped]) -> tuple[int, int] | None:
    """Fill in the places of the chains; the image's size where the file tells it."""
    try:
        root = read_xml(path)
    except BadFile as error:
        skipped.append(error.skipped)
        return None
    size = None
    for node in root.all("size"):
        try:
            size = _size(node)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), node.line))
    for thing in root.all("object"):
        names = [name.text.strip() for name in thing.all("name")]
        try:
            if not names:
                raise BadRecord("<object> has no <name>")
            box = _box(thing, size)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), thing.line))
            continue
        for name in names:
            place = places.get(name)
            if place is None:
                skipped.append(Skipped(str(path), f"chain {name} is in no caption", thing.line))
                continue
            if box is not None:
                place.boxes.append(box)
            place.scene |= thing.flag("scene")
            place.no_box |= thing.flag("nobndbox")
    return size


def _size(node: Node) -> tuple[int, int]:
    width, height = int(node.number("width")), int(node.number("height"))
    if min(width, height) < 1:
        raise BadRecord(f"an image of {width} x {height} pixels")
    return width, height


def _box(thing: Node, size: tuple[int, int] | None) -> geometry.Array | None:
    """The object's box ``[4]``, cut to the image; None for a scene or an object without one."""
    node = thing.find("bndbox")
    if node is None:
        if thing.flag("scene") or thing.flag("nobndbox"):
            return None
        raise BadRecord("<object> has neither a box nor a flag that says why")
    corners = [node.number(tag) for tag in ("xmin", "ymin", "xmax", "ymax")]
    box = geometry.from_inclusive(corners)
    shown = ", ".join(f"{number:g}" for number in corners)
    if geometry.area(box) == 0:
        raise BadRecord(f"the box {shown} is turned inside out")
    if size is not None:
        box = geometry.clip(box, *size)
        if geometry.area(box) == 0:
            raise BadRecord(f"the box {shown} lies outside the image of {size[0]} x {size[1]} pixels")
    return box


def _unrelated(path: Path, skipped: list[Skipped]) -> dict[str, set[int]]:
    """Image id -> numbers (from 1) of the captions that do not describe it."""
    found: dict[str, set[int]] = {}
    if not path.is_file():
        return found
    for line_number, line in read_lines(path):
        if line.startswith("#"):
            continue
        parts = line.split()
        if len(parts) == 2 and parts[1].isdecimal():
            found.setdefault(parts[0], set()).add(int(parts[1]))
        else:
            skipped.append(Skipped(str(path), "an image id and a caption number belong here", line_number))
    return found


def _image_folder(root: Path) -> Path:
    return next((root / name for name in IMAGE_FOLDERS if (root / name).is_dir()), root / IMAGE_FOLDERS[0])
