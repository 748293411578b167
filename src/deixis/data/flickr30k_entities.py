"""Flickr30k Entities: captions with phrases, and boxes of coreference chains.

``Sentences/<id>.txt``      five captions, phrases marked ``[/EN#<chain>/<type>[/<type>...] words]``
``Annotations/<id>.xml``    the boxes of each chain; images without this file have no boxes
``train.txt`` ...           the image ids of each split
``dataset_flickr30k.json``  Karpathy's splits, optional: ``karpathy:train`` ...
``split_ids_flickr30k_entities.json``   GVD's splits (29,000 / 1,014 / 1,000), optional: ``gvd:train`` ...
``UNRELATED_CAPTIONS``      captions that do not describe their image: image id and number from 1

A chain is an :class:`Entity`. Chain 0 marks phrases that are not visible; they keep their types and have no entity.
Captions listed as unrelated are left out without an entry in the skipped records.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from deixis import boxes as geometry
from deixis.data.reading import BadFile, BadRecord, Node, plain_name, read_json, read_lines, read_xml
from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import align
from deixis.types import Phrase

NAME = "flickr30k_entities"

CAPTIONS_PER_IMAGE = 5
SPLITS = ("train", "val", "test")
OTHER_LISTS = {"karpathy": "dataset_flickr30k.json", "gvd": "split_ids_flickr30k_entities.json"}
"""Other splits of the same images: prefix of the split's name -> file."""
IMAGE_FOLDERS = ("flickr30k-images", "flickr30k_images")

_REPOSITORY = "the authors of Flickr30k Entities (B. Plummer and others), in their repository"
_ARCHIVE = f"{_REPOSITORY}, inside the annotations archive"
_PHRASE = re.compile(r"\[/EN#(\d+)((?:/[^/\s\[\]]+)+)\s+([^\[\]]*[^\[\]\s])\s*\]")
_CHAIN = re.compile(r"/EN#(\d+)/")


def expected(root: Path) -> tuple[Expected, ...]:
    """List the files of the official distribution."""
    return (
        Expected("Sentences", "the captions, with their phrases and chains", _ARCHIVE),
        Expected("Annotations", "the boxes of the chains, for scoring only", _ARCHIVE, False),
        *(Expected(f"{split}.txt", f"the image ids of the {split} split", _REPOSITORY) for split in SPLITS),
        Expected("UNRELATED_CAPTIONS", "the captions that do not describe their image", _REPOSITORY, False),
        Expected(
            _image_folder(root).name,
            "the photographs",
            "the authors of Flickr30k (P. Young and others, University of Illinois), by request",
        ),
    )


def recognise(root: Path) -> bool:
    """Whether the folder has ``Sentences`` and either ``Annotations`` or a split list."""
    return (root / "Sentences").is_dir() and ((root / "Annotations").is_dir() or bool(splits(root)))


def splits(root: Path) -> tuple[str, ...]:
    """List the splits with a list of image ids, then those of Karpathy and GVD if their files are there."""
    found = [split for split in SPLITS if (root / f"{split}.txt").is_file()]
    for family, name in OTHER_LISTS.items():
        if (root / name).is_file():
            found += [f"{family}:{split}" for split in SPLITS]
    return tuple(found)


def load(root: Path, split: str) -> Dataset:
    """Load one split, in list order."""
    if split not in splits(root):
        raise DeixisError(f"{root / f'{split}.txt'} does not exist. Available: {', '.join(splits(root)) or 'none'}.")
    skipped: list[Skipped] = []
    unrelated = _unrelated(root / "UNRELATED_CAPTIONS", skipped)
    images = _image_folder(root)
    samples: list[Sample] = []
    seen: set[str] = set()
    listing, ids = _listed(root, split)
    for line, image_id in ids:
        try:
            if plain_name(image_id) in seen:
                raise BadRecord(f"duplicate image {image_id}")
            seen.add(image_id)
            samples.append(_sample(root, images, image_id, unrelated.get(image_id, ()), skipped))
        except BadRecord as error:
            skipped.append(Skipped(str(listing), str(error), line))
        except BadFile as error:
            skipped.append(error.skipped)
    return Dataset(NAME, split, tuple(samples), tuple(skipped))


def _listed(root: Path, split: str) -> tuple[Path, list[tuple[int | None, str]]]:
    """The file that lists a split, and its image ids with their lines."""
    family, _, part = split.rpartition(":")
    if not family:
        path = root / f"{split}.txt"
        return path, [*read_lines(path)]
    path = root / OTHER_LISTS[family]
    if family == "gvd":
        value = read_json(path)
        names = value.get(part) if isinstance(value, dict) else None
    else:
        value = read_json(path, drop=("sentences", "sentids"))
        images = value.get("images", []) if isinstance(value, dict) else []
        names = [Path(str(image.get("filename"))).stem for image in images if image.get("split") == part]
    if not isinstance(names, list) or not names:
        raise BadFile(path, f"no images of the split '{part}'")
    return path, [(None, str(name)) for name in names]


def parse_caption(line: str) -> Caption:
    """Parse a caption with markup; raise :class:`BadRecord` if the markup is invalid."""
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
    """Text between two phrases; a bracket in it is invalid markup."""
    text = line[start:end]
    bracket = re.search(r"[\[\]]", text)
    if bracket is None:
        return text
    at = start + bracket.start()
    if line[at] == "]":
        raise BadRecord(f"unmatched ']' at column {at + 1}")
    raise BadRecord(f"invalid phrase '{line[at : at + 30]}' at column {at + 1}: unclosed, or without chain and type")


def _sample(root: Path, images: Path, image_id: str, unrelated: Collection[int], skipped: list[Skipped]) -> Sample:
    path = root / "Sentences" / f"{image_id}.txt"
    if not path.is_file():
        raise BadRecord(f"image {image_id} has no captions (Sentences/{path.name} is missing)")
    lines = read_lines(path)
    captions: list[Caption] = []
    chains: dict[str, list[str]] = {}  # chain -> its types in all captions, including skipped ones
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
        reason = f"expected {CAPTIONS_PER_IMAGE} captions, found {len(lines)}; these are used"
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
    """Annotation of one chain."""

    boxes: list[geometry.Array] = field(default_factory=list)
    scene: bool = False
    no_box: bool = False


def _read_boxes(path: Path, places: dict[str, _Place], skipped: list[Skipped]) -> tuple[int, int] | None:
    """Read the boxes of the chains into ``places``; return the image size if given."""
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
    for item in root.all("object"):
        names = [name.text.strip() for name in item.all("name")]
        try:
            if not names:
                raise BadRecord("<object> has no <name>")
            box = _box(item, size)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), item.line))
            continue
        for name in names:
            place = places.get(name)
            if place is None:
                skipped.append(Skipped(str(path), f"chain {name} is not in any caption", item.line))
                continue
            if box is not None:
                place.boxes.append(box)
            place.scene |= item.flag("scene")
            place.no_box |= item.flag("nobndbox")
    return size


def _size(node: Node) -> tuple[int, int]:
    width, height = int(node.number("width")), int(node.number("height"))
    if min(width, height) < 1:
        raise BadRecord(f"invalid image size {width} x {height}")
    return width, height


def _box(item: Node, size: tuple[int, int] | None) -> geometry.Array | None:
    """Box ``[4]`` of an object, clipped to the image; None for a scene or an object without a box."""
    node = item.find("bndbox")
    if node is None:
        if item.flag("scene") or item.flag("nobndbox"):
            return None
        raise BadRecord("<object> has no <bndbox>, and neither <scene> nor <nobndbox> is 1")
    corners = [node.number(tag) for tag in ("xmin", "ymin", "xmax", "ymax")]
    box = geometry.from_inclusive(corners)
    text = ", ".join(f"{number:g}" for number in corners)
    if geometry.area(box) == 0:
        raise BadRecord(f"invalid box {text}: xmax < xmin or ymax < ymin")
    if size is not None:
        box = geometry.clip(box, *size)
        if geometry.area(box) == 0:
            raise BadRecord(f"the box {text} is outside the image of {size[0]} x {size[1]} pixels")
    return box


def _unrelated(path: Path, skipped: list[Skipped]) -> dict[str, set[int]]:
    """Image id -> numbers (from 1) of its unrelated captions."""
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
            skipped.append(Skipped(str(path), "expected an image id and a caption number", line_number))
    return found


def _image_folder(root: Path) -> Path:
    return next((root / name for name in IMAGE_FOLDERS if (root / name).is_dir()), root / IMAGE_FOLDERS[0])
