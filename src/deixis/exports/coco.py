"""COCO: ``annotations/instances_<split>.json`` with the boxes and ``captions_<split>.json`` with the captions.

The category of a box is the head noun of its phrase. Additional fields, which COCO readers ignore, keep the other
information: ``source`` of an image; ``phrase``, ``score`` and ``model`` of a box; ``caption_id``, ``start`` and ``end``
of a box in a caption; ``model`` and ``logprob`` of a caption.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deixis import boxes as geometry
from deixis.data.reading import (
    BadFile,
    BadRecord,
    get_int,
    get_numbers,
    get_size,
    get_text,
    good_records,
    read_json,
)
from deixis.data.sample import Skipped
from deixis.exports.picture import (
    Answer,
    Picture,
    PictureBuilder,
    box_of,
    file_names,
    head_nouns,
    place,
    sentence,
    sized,
    split_ending,
)
from deixis.files import json_text, write_atomic
from deixis.language.tokenise import tokens
from deixis.types import GroundedCaption, Grounding, Json

SPLIT = "val2017"
"""Default split; a name that COCO readers accept."""
UNUSED = ("segmentation", "area", "license", "licenses", "info", "coco_url", "flickr_url", "date_captured")


def write(pictures: Sequence[Picture], out: Path, split: str, skipped: list[Skipped]) -> None:
    """Write both files. Image ids are the numbers in the file names if all have one, else 1, 2, ..."""
    usable = list(sized(pictures, skipped))
    names, nouns = file_names(pictures), head_nouns(pictures)
    numbers = _numbers([names[picture.image] for picture, _ in usable])
    kinds = sorted({nouns[g.text] for picture, _ in usable for g in picture.places()})
    category = {name: number for number, name in enumerate(kinds, start=1)}
    images: list[Json] = []
    captions: list[Json] = []
    boxes: list[Json] = []

    def box(image: int, grounding: Grounding, **extra: object) -> None:
        x, y, width, height = (float(x) for x in geometry.to_xywh(grounding.box))
        annotation: Json = {"id": len(boxes) + 1, "image_id": image, "category_id": category[nouns[grounding.text]]}
        annotation |= {"bbox": [x, y, width, height], "area": width * height, "iscrowd": 0, "segmentation": []}
        boxes.append(annotation | {"phrase": grounding.text, "score": grounding.score} | extra)

    for (picture, (width, height)), number in zip(usable, numbers, strict=True):
        name = names[picture.image]
        images.append({"id": number, "file_name": name, "width": width, "height": height, "source": picture.image})
        for caption in picture.captions:
            about = {"id": len(captions) + 1, "image_id": number, "caption": sentence(caption)}
            captions.append(about | {"model": caption.model, "logprob": caption.logprob})
            for g in caption.groundings:
                box(number, g, caption_id=about["id"], start=g.start, end=g.end, model=caption.model)
        for answer in picture.answers:
            places = {"caption": answer.caption, "start": answer.start}
            given = {name: value for name, value in places.items() if value is not None}
            box(number, answer.grounding, model=answer.model, **given)
    categories = [{"id": number, "name": name, "supercategory": "object"} for name, number in category.items()]
    folder = out / "annotations"
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / f"instances_{split}.json", {"images": images, "annotations": boxes, "categories": categories})
    _write(folder / f"captions_{split}.json", {"images": images, "annotations": captions})


def _write(path: Path, content: Json) -> None:
    info = {"description": "predictions of Deixis"}
    write_atomic(path, json_text({"info": info} | content))


def _numbers(names: Sequence[str]) -> list[int]:
    """Numbers in the names (``COCO_val2014_000000000139.jpg``: 139) if all are unique, else 1, 2, ..."""
    found = [re.fullmatch(r"(?:COCO_(?:train|val|test)\d{4}_)?(\d{1,18})", split_ending(name)[0]) for name in names]
    numbers = [int(match[1]) for match in found if match is not None]
    return numbers if len(set(numbers)) == len(names) else list(range(1, len(names) + 1))


def files_in(folder: Path) -> list[Path]:
    """List the files of this format in a folder or in its subfolder ``annotations``, captions first."""
    places = (folder, folder / "annotations")
    return [path for kind in ("captions", "instances") for at in places for path in sorted(at.glob(f"{kind}_*.json"))]


def is_document(document: Any) -> bool:
    """Whether a JSON document has this format."""
    return isinstance(document, dict) and {"images", "annotations"} <= document.keys()


def read(paths: Sequence[Path], skipped: list[Skipped]) -> list[Picture]:
    """Read files of this format. A box without a caption becomes a prediction for its phrase or category."""
    builder = PictureBuilder()
    captions: dict[tuple[str, int], GroundedCaption] = {}  # split, id -> caption, until all its boxes are read
    for path in paths:
        _File(path, builder, captions, skipped).read()
    for (split, number), caption in captions.items():
        try:
            builder.add_caption(caption)
        except BadRecord as error:
            skipped.append(Skipped(str(paths[0].parent), f"caption {number} of {split}: {error}"))
    return builder.pictures()


class _File:
    """Reader of one file; captions stay incomplete until the files with their boxes are read."""

    def __init__(
        self,
        path: Path,
        builder: PictureBuilder,
        captions: dict[tuple[str, int], GroundedCaption],
        skipped: list[Skipped],
    ) -> None:
        self.path, self.builder, self.captions, self.skipped = path, builder, captions, skipped
        self.split = path.stem.partition("_")[2]
        self.images: dict[int, tuple[str, int, int]] = {}
        self.kinds: dict[int, str] = {}

    def read(self) -> None:
        content = read_json(self.path, drop=UNUSED)
        if not is_document(content):
            raise BadFile(self.path, 'the lists "images" and "annotations" are missing')
        good_records(content["images"], self.path, "image", self.image, self.skipped)
        good_records(content.get("categories", []), self.path, "category", self.category, self.skipped)
        good_records(content["annotations"], self.path, "annotation", self.annotation, self.skipped)

    def image(self, record: Any) -> None:
        size = get_size(record)
        name = get_text(record, "source" if record.get("source") else "file_name")
        self.images[get_int(record, "id")] = name, *size
        self.builder.add_image(name, size)

    def category(self, record: Any) -> None:
        self.kinds[get_int(record, "id")] = get_text(record, "name")

    def annotation(self, record: Any) -> None:
        image = self.images.get(get_int(record, "image_id"))
        if image is None:
            raise BadRecord(f"image {record['image_id']} is not in the list of images")
        if "bbox" in record:
            self.box(record, *image)
        else:
            name, width, height = image
            logprob = None if record.get("logprob") is None else get_numbers({"p": [record["logprob"]]}, "p", 1)[0]
            text, model = str(record.get("caption") or ""), str(record.get("model") or "")
            caption = GroundedCaption(tokens(text), (), logprob, name, width, height, model, text)
            self.captions[self.split, get_int(record, "id")] = caption

    def box(self, record: Json, name: str, width: int, height: int) -> None:
        kind = self.kinds.get(get_int(record, "category_id"), "thing")
        phrase = get_text(record, "phrase") if record.get("phrase") else kind
        box = box_of(geometry.from_xywh(get_numbers(record, "bbox", 4)))
        score = get_numbers({"score": [record.get("score", 1.0)]}, "score", 1)[0]
        grounding = Grounding(phrase, box, score)
        start, end, number, caption_id = (
            None if record.get(member) is None else get_int(record, member)
            for member in ("start", "end", "caption", "caption_id")
        )
        caption = None if caption_id is None else self.captions.get((self.split, caption_id))
        if caption_id is not None and caption is not None and start is not None and end is not None:
            placed = place(grounding, caption.words, start, end)
            self.captions[self.split, caption_id] = replace(caption, groundings=(*caption.groundings, placed))
        else:
            self.builder.add_answer(
                name, Answer(grounding, str(record.get("model") or ""), number, start), (width, height)
            )
