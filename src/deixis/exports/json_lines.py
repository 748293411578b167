"""Deixis JSON lines: grounded captions and phrase predictions. This format keeps all information.

A line is a grounded caption (:meth:`GroundedCaption.to_json`) or a phrase prediction: ``{"image", "width", "height",
"phrase", "box", "point", "score", "model"}``, with ``"caption"`` and ``"start"`` if the mention is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from deixis.data.reading import BadRecord, get_int, get_numbers, get_size, get_text, record_errors
from deixis.data.sample import Skipped
from deixis.errors import DeixisError
from deixis.exports.picture import Answer, Picture, PictureBuilder, box_of
from deixis.files import json_text, write_atomic
from deixis.types import GroundedCaption, Grounding, HeatMap, Json


def is_deixis_record(record: Any) -> bool:
    """Whether a record has this format."""
    return isinstance(record, dict) and ("groundings" in record or {"phrase", "box"} <= record.keys())


def read_records(
    records: Iterable[tuple[int | None, Any]], path: Path, skipped: list[Skipped], image: str = ""
) -> list[Picture]:
    """Read records with their line numbers; ``image`` is the default image. Invalid records are skipped."""
    builder = PictureBuilder()
    for line, record in records:
        try:
            with record_errors():
                _read_record(record, builder, image)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), line))
    return builder.pictures()


def _read_record(record: Any, builder: PictureBuilder, image: str) -> None:
    if not is_deixis_record(record):
        raise BadRecord("expected a grounded caption or a phrase with a box")
    name = _image(record, image)
    if "groundings" in record:
        builder.add_caption(_caption({**record, "image": name}))
    else:
        builder.add_answer(name, _answer(record), get_size(record) if record.get("width") else None)


def write(pictures: Sequence[Picture], out: Path) -> None:
    """Write the captions and phrases of the pictures, image by image."""
    lines: list[Json] = []
    for picture in pictures:
        lines += [caption.to_json() for caption in picture.captions]
        lines += [_answer_json(picture, answer) for answer in picture.answers]
    write_atomic(out, "".join(json_text(line) + "\n" for line in lines))


def _image(record: Json, default: str) -> str:
    name = record.get("image", record.get("image_id")) or default
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if not name:
        raise BadRecord('the field "image" is missing. Set --image')
    return get_text({"image": name}, "image")


def _caption(record: Json) -> GroundedCaption:
    try:
        return GroundedCaption.from_json(record)
    except DeixisError as error:
        raise BadRecord(str(error).rstrip(".")) from None


def _answer(record: Json) -> Answer:
    score = get_numbers({"score": [record.get("score", 1.0)]}, "score", 1)[0]
    x, y = get_numbers(record, "point", 2) if record.get("point") is not None else (None, None)
    try:
        heat = None if record.get("heat") is None else HeatMap.from_json(record["heat"])
    except (DeixisError, KeyError, TypeError, ValueError):
        raise BadRecord("invalid heat map. Expected {width, height, grid}") from None
    grounding = Grounding(
        get_text(record, "phrase"),
        box_of(get_numbers(record, "box", 4)),
        score,
        point=None if x is None or y is None else (x, y),
        heat=heat,
    )
    return Answer(grounding, str(record.get("model") or ""), _count(record, "caption"), _count(record, "start"))


def _count(record: Json, name: str) -> int | None:
    if record.get(name) is None:
        return None
    if (number := get_int(record, name)) < 0:
        raise BadRecord(f'"{name}" is {number}. Expected an integer >= 0')
    return number


def _answer_json(picture: Picture, answer: Answer) -> Json:
    width, height = picture.size or (0, 0)
    places = {"caption": answer.caption, "start": answer.start}
    return {
        "image": picture.image,
        "width": width,
        "height": height,
        **{name: value for name, value in places.items() if value is not None},
        **answer.grounding.to_phrase_json(answer.model),
    }
