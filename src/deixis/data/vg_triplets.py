"""Triplets (image, text, box) of Visual Genome as the authors of AMC published them.

``vg_descriptions.json``         region descriptions
``vg_attributes.json``           objects with attributes
``vg_attributes_spatial.json``   objects with positions
``VG_100K/``, ``VG_100K_2/``     the photographs

Each file is a list of ``{"image": "VG_100K/2.jpg", "caption": text or texts, "bbox": [[x1, y1, x2, y2], ...]}``.
The sample of an image has a caption for each text; the whole caption is its only phrase, with the entity that has the
boxes. The first type of an entity is the source of its text. There is one split, ``train``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from deixis import boxes as geometry
from deixis.data.reading import BadRecord, get, get_list, get_text, inside
from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped
from deixis.data.visual_genome import Source, Triplet, json_elements
from deixis.errors import DeixisError
from deixis.language.tokenise import tokens
from deixis.types import Phrase

NAME = "vg_triplets"

FILES: dict[str, Source] = {
    "vg_descriptions.json": "region",
    "vg_attributes.json": "attribute",
    "vg_attributes_spatial.json": "spatial",
}
_AUTHORS = "Z. Yang and others, with their code for AMC"


def expected(root: Path) -> tuple[Expected, ...]:
    """List the files of the distribution; one file of texts is enough."""
    texts = [Expected(name, f"texts with boxes ({source})", _AUTHORS, required=False) for name, source in FILES.items()]
    return *texts, Expected("VG_100K", "the photographs", "the authors of Visual Genome (R. Krishna and others)")


def recognise(root: Path) -> bool:
    """Whether the folder has one of the files of texts."""
    return any((root / name).is_file() for name in FILES)


def splits(root: Path) -> tuple[str, ...]:
    """List the only split."""
    return ("train",)


def load(root: Path, split: str = "train") -> Dataset:
    """Load all triplets, in the order of the files; the files are read row by row."""
    if split != "train":
        raise DeixisError(f"{root} has no split '{split}'. Available: train. Validate on other data with --val-data.")
    skipped: list[Skipped] = []
    captions: dict[str, list[Caption]] = {}
    entities: dict[str, list[Entity]] = {}
    for name, source in FILES.items():
        if (root / name).is_file():
            for number, record in enumerate(json_elements(root / name)):
                try:
                    _add(record, source, captions, entities)
                except BadRecord as error:
                    skipped.append(Skipped(str(root / name), f"row {number}: {error}"))
    samples = []
    for image, texts in captions.items():
        try:
            path = inside(root, image)
        except BadRecord as error:
            skipped.append(Skipped(str(root), f"image {image[:80]}: {error}"))
            continue
        samples.append(Sample(image, tuple(texts), path=path, entities=tuple(entities[image])))
    return Dataset(NAME, split, tuple(samples), tuple(skipped))


def _add(record: Any, source: Source, captions: dict[str, list[Caption]], entities: dict[str, list[Entity]]) -> None:
    """Add one row to the captions and entities of its image."""
    image = PurePosixPath(get_text(record, "image")).as_posix()
    given = get(record, "caption")
    texts = given if isinstance(given, list) else [given]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise BadRecord('"caption" must be a text or a list of texts')
    try:
        boxes = np.array(get_list(record, "bbox"), dtype=np.float64).reshape(-1, 4)
    except (TypeError, ValueError):
        raise BadRecord('"bbox" must be a list of boxes [x1, y1, x2, y2]') from None
    if len(boxes) == 0 or not np.isfinite(boxes).all():
        raise BadRecord("the row has no finite box")
    own = entities.setdefault(image, [])
    entity = Entity(f"{source} {len(own)}", boxes, (source,))
    own.append(entity)
    for text in texts:
        words = tuple(map(sys.intern, tokens(text)))
        captions.setdefault(image, []).append(Caption(text, words, (Phrase(text, 0, len(words), entity=entity.id),)))


def triplets(sample: Sample, min_area: float = 0.0) -> Iterator[Triplet]:
    """Yield the triplets of one image, with boxes cut to the image and of at least ``min_area`` of it."""
    width, height = sample.image_size()
    entities = {entity.id: entity for entity in sample.entities}
    for caption in sample.captions:
        for phrase in caption.phrases:
            entity = entities[phrase.entity or ""]
            for x1, y1, x2, y2 in entity.boxes.tolist():
                box = max(x1, 0.0), max(y1, 0.0), min(x2, float(width)), min(y2, float(height))
                across, down = box[2] - box[0], box[3] - box[1]
                if across > 0 and down > 0 and across * down >= min_area * width * height:
                    yield Triplet(sample.image_id, phrase.text, geometry.as_box(box), entity.types[0])  # type: ignore[arg-type]
