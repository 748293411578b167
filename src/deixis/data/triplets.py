"""Triplets (image, text, box) of any data set, for attention mask consistency (AMC).

Visual Genome has its own triplets, with attributes (:func:`deixis.data.visual_genome.triplets`). This module builds
triplets from phrases with boxes, from COCO instances, and from detections as pseudo boxes. All of them add box
supervision to the training, which is recorded in the trained model.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deixis import boxes as geometry
from deixis.data import coco, vg_triplets, visual_genome
from deixis.data.reading import BadFile, BadRecord, get, get_numbers, get_text, read_packed_json
from deixis.data.sample import Sample
from deixis.data.visual_genome import Triplet, spatial_texts
from deixis.language.names import COCO_NOUNS, with_article
from deixis.types import Box

if TYPE_CHECKING:
    from deixis.language.parse import Parse

MAX_BYTES = 2 * 2**30  # of a detection file, compressed or not


@dataclass(frozen=True)
class Named:
    """A box with the name of its object."""

    name: str
    box: Box
    score: float = 1.0


def phrase_triplets(sample: Sample, min_area: float = 0.0) -> Iterator[Triplet]:
    """Yield each phrase of the captions with each box of its entity (scenes, Flickr30k Entities, RefCOCO)."""
    width, height = sample.image_size()
    for caption in sample.captions:
        for phrase in caption.phrases:
            entity = sample.entity(phrase.entity or "")
            for box in () if entity is None else entity.boxes.tolist():
                if _area(box) >= min_area * width * height:
                    yield Triplet(sample.image_id, phrase.text, geometry.as_box(box), "region")


def instance_triplets(sample: Sample, min_area: float = 0.0) -> Iterator[Triplet]:
    """Yield triplets of the named entities of an image, such as COCO instances, without crowds."""
    objects = [
        Named(entity.label, geometry.as_box(box))
        for entity in sample.entities
        if entity.label and "crowd" not in entity.types
        for box in entity.boxes.tolist()
    ]
    return named_triplets(sample.image_id, sample.image_size(), objects, min_area)


def named_triplets(
    image_id: str, size: tuple[int, int], objects: Iterable[Named], min_area: float = 0.0
) -> Iterator[Triplet]:
    """Yield ``object`` triplets ("a dog") and, for objects of one name, ``spatial`` ones (AMC 4.1).

    Boxes under ``min_area`` of the image have no triplets; positions are those among all boxes of a name.
    """
    width, height = size
    by_name: defaultdict[str, list[tuple[str, Box]]] = defaultdict(list)
    for item in objects:
        by_name[item.name].append((item.name, item.box))
        if _area(item.box) >= min_area * width * height:
            yield Triplet(image_id, with_article(item.name), item.box, "object")
    for group in by_name.values():
        for text, box in spatial_texts(group, width, height):
            if _area(box) >= min_area * width * height:
                yield Triplet(image_id, text, box, "spatial")


def caption_triplets(
    sample: Sample,
    parses: Sequence[Parse],
    objects: Sequence[Named],
    names: Mapping[str, str] | None = None,
) -> Iterator[Triplet]:
    """Yield the noun phrases of an image's captions that match a detection, with each box of that name.

    ``parses`` are the parses of the captions. ``names`` maps lemmas of head nouns to names, by default
    :data:`COCO_NOUNS`; a noun that equals a name needs no entry. "a man in red" is thus paired with each box of a
    person, because detections do not distinguish objects of the same name.
    """
    names = COCO_NOUNS if names is None else names
    found: defaultdict[str, list[Box]] = defaultdict(list)
    for item in objects:
        found[item.name].append(item.box)
    for parse in parses:
        for phrase in parse.phrases:
            head = parse.head(phrase.start, phrase.end)
            if head is None or not parse.nouns[head]:
                continue
            noun = parse.lemmas[head]
            for box in found.get(names.get(noun, noun), ()):
                yield Triplet(sample.image_id, phrase.text, box, "region")


def data_triplets(dataset: str) -> Callable[[Sample, float], Iterable[Triplet]]:
    """Return the function that makes the triplets of a sample, by the name of its data set."""
    makers: dict[str, Callable[[Sample, float], Iterable[Triplet]]] = {
        visual_genome.NAME: visual_genome.triplets,
        vg_triplets.NAME: vg_triplets.triplets,
        coco.NAME: instance_triplets,
    }
    return makers.get(dataset, phrase_triplets)


# Detections ---------------------------------------------------------------------------------------------------------


def read_detections(path: Path, min_score: float = 0.3) -> dict[str, list[Named]]:
    """Image id -> detections with a score >= ``min_score``, from COCO results with names (``.json``, ``.json.gz``)."""
    records = read_packed_json(path, MAX_BYTES)
    if not isinstance(records, list):
        raise BadFile(path, "expected a COCO results list of {image_id, category, bbox, score}")
    found: defaultdict[str, list[Named]] = defaultdict(list)
    for number, record in enumerate(records):
        try:
            [score] = get_numbers({"score": [get(record, "score")]}, "score", 1)
            name, corners = get_text(record, "category"), get_numbers(record, "bbox", 4)
        except BadRecord as error:
            raise BadFile(path, f"record {number}: {error}") from None
        if score >= min_score:
            box = geometry.as_box(geometry.from_xywh(corners))
            found[str(get(record, "image_id"))].append(Named(name, box, score))
    if not found:
        raise BadFile(path, f"no detection has a score >= {min_score:g}")
    return dict(found)


# Mirror images ------------------------------------------------------------------------------------------------------

_OTHER = {"left": "right", "right": "left"}
_SIDE = re.compile(r"(?<![a-z])(left|right)(?=most|wards?|hand|side|[^a-z]|\Z)", re.IGNORECASE)


def mirror(text: str) -> str:
    """Swap left and right in a text, for the mirrored image; also in "leftmost" and "right-hand"."""
    return _SIDE.sub(lambda side: _like(side[0], _OTHER[side[0].lower()]), text)


def _like(written: str, word: str) -> str:
    return word.upper() if written.isupper() else word.capitalize() if written[0].isupper() else word


def _area(box: Sequence[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
