"""Label Studio: ``tasks.json`` with pre-annotations to import, and ``config.xml`` with the labelling interface.

Each caption is a task. Its boxes are rectangles in per cent of the image size, labelled with the head noun of their
phrase. Its sentence is a text area. The phrase predictions of a model for an image are one task without a sentence.
When reading, the last annotation of a task is used, or else its prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree

from deixis import boxes as geometry
from deixis.data.reading import BadRecord, get, get_int, get_list, get_numbers, get_size, get_text, good_records
from deixis.data.sample import Skipped
from deixis.exports.picture import (
    Answer,
    Picture,
    PictureBuilder,
    Size,
    box_of,
    find_words,
    head_nouns,
    sentence,
    sized,
)
from deixis.files import json_text, write_atomic
from deixis.language.tokenise import tokens
from deixis.show.draw import colour
from deixis.types import GroundedCaption, Grounding, Json

TASKS, CONFIG = "tasks.json", "config.xml"


def write(pictures: Sequence[Picture], out: Path, prefix: str, skipped: list[Skipped]) -> None:
    """Write tasks and interface; ``prefix`` plus the image name is the URL in Label Studio."""
    nouns = head_nouns(pictures)
    tasks: list[Json] = []
    used: set[str] = set()
    for picture, size in sized(pictures, skipped):
        used |= {nouns[grounding.text] for grounding in picture.places()}
        data: Json = {"image": prefix + quote(picture.file or picture.image), "name": picture.image}
        data |= {"width": size[0], "height": size[1]}
        for caption in picture.captions:
            spans = [{"start": g.start} for g in caption.groundings]
            result = [_sentence(sentence(caption)), *_rectangles(caption.groundings, spans, size, nouns)]
            tasks.append({"data": data, "predictions": [_prediction(result, caption.model)]})
        for model in dict.fromkeys(answer.model for answer in picture.answers):
            answers = [answer for answer in picture.answers if answer.model == model]
            places = [
                {name: at for name, at in (("caption", one.caption), ("start", one.start)) if at is not None}
                for one in answers
            ]
            result = _rectangles([answer.grounding for answer in answers], places, size, nouns)
            tasks.append({"data": data, "predictions": [_prediction(result, model)]})
    write_atomic(out / TASKS, json_text(tasks, indent=1))
    write_atomic(out / CONFIG, _config(sorted(used)))


def _prediction(result: Sequence[Json], model: str) -> Json:
    scores = [item["score"] for item in result if "score" in item]
    mean = {"score": sum(scores) / len(scores)} if scores else {}
    return {"model_version": model, **mean, "result": list(result)}


def _sentence(text: str) -> Json:
    value = {"text": [text]}
    return {"id": "caption", "type": "textarea", "from_name": "caption", "to_name": "image", "value": value}


def _rectangles(found: Sequence[Grounding], places: Sequence[Json], size: Size, nouns: dict[str, str]) -> list[Json]:
    rectangles = []
    for index, (grounding, place) in enumerate(zip(found, places, strict=True)):
        per_cent = geometry.to_xywh(geometry.to_normalised(grounding.box, *size)) * 100
        value: Json = dict(zip(("x", "y", "width", "height"), map(float, per_cent), strict=True))
        rectangles.append(
            {
                "id": f"box{index}",
                "type": "rectanglelabels",
                "from_name": "label",
                "to_name": "image",
                "original_width": size[0],
                "original_height": size[1],
                "image_rotation": 0,
                "score": grounding.score,
                "value": value | {"rotation": 0, "rectanglelabels": [nouns[grounding.text]]},
                "meta": {"text": [grounding.text], "label": nouns[grounding.text], **place},
            }
        )
    return rectangles


def _config(labels: Sequence[str]) -> str:
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Image", name="image", value="$image", zoom="true")
    group = ElementTree.SubElement(view, "RectangleLabels", name="label", toName="image")
    for index, label in enumerate(labels):
        ElementTree.SubElement(group, "Label", value=label, background=colour(index))
    options = {"name": "caption", "toName": "image", "editable": "true", "maxSubmissions": "1", "rows": "2"}
    ElementTree.SubElement(view, "TextArea", options)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def is_document(document: Any) -> bool:
    """Whether a JSON document has this format."""
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and isinstance(first.get("data"), dict)


def read(document: Any, path: Path, skipped: list[Skipped]) -> list[Picture]:
    """Read tasks written by Deixis or Label Studio. Rectangles without words in the sentence are phrases."""
    builder = PictureBuilder()
    good_records(document, path, "task", lambda task: _read_task(task, builder), skipped)
    return builder.pictures()


def _read_task(task: Any, builder: PictureBuilder) -> None:
    data = get(task, "data")
    if not isinstance(data, dict):
        raise BadRecord('"data" must be an object')
    image = get_text(data, "name") if data.get("name") else _file(get_text(data, "image"))
    annotation, model = _selected_annotation(task)
    found, sentences = [], []
    size = get_size(data) if data.get("width") else None
    for item in get_list(annotation, "result"):
        kind = get(item, "type")
        if kind == "rectanglelabels":
            grounding, meta, size = _rectangle(item)
            found.append((grounding, meta))
        elif kind == "textarea":
            text = get(get(item, "value"), "text")
            sentences.append(str(text[0] if isinstance(text, list) and text else text))
    if not sentences:
        for grounding, meta in found:
            builder.add_answer(image, Answer(grounding, model, meta.get("caption"), meta.get("start")), size)
        return
    words = tokens(sentences[0])
    placed, unplaced = [], []
    for grounding, meta in found:
        span = find_words(words, grounding.text, meta.get("start"))
        if span is None:
            unplaced.append(grounding)
        else:
            placed.append(replace(grounding, start=span[0], end=span[1]))
    width, height = size or (0, 0)
    builder.add_caption(GroundedCaption(words, tuple(placed), None, image, width, height, model, sentences[0]))
    for grounding in unplaced:
        builder.add_answer(image, Answer(grounding, model), size)


def _selected_annotation(task: Json) -> tuple[Json, str]:
    """Return the last completed annotation, or else the first prediction, and its model."""
    annotations, predictions = (
        [one for one in task[name] if isinstance(one, dict)] if isinstance(task.get(name), list) else []
        for name in ("annotations", "predictions")
    )
    completed = [one for one in annotations if not one.get("was_cancelled")]
    if completed:
        return completed[-1], ""
    if not predictions:
        raise BadRecord("the task has no annotation and no prediction")
    return predictions[0], str(predictions[0].get("model_version") or "")


def _rectangle(item: Json) -> tuple[Grounding, Json, Size]:
    value, size = get(item, "value"), (get_int(item, "original_width"), get_int(item, "original_height"))
    if not isinstance(value, dict):
        raise BadRecord('"value" of a rectangle must be an object')
    if value.get("rotation"):
        raise BadRecord("a rotated rectangle cannot be converted to a box")
    corners = get_numbers({"box": [value.get(name) for name in ("x", "y", "width", "height")]}, "box", 4)
    box = geometry.from_normalised(geometry.from_xywh(corners) / 100, *size)
    given = item.get("meta")
    meta: Json = given if isinstance(given, dict) else {}
    label, words = _first(value.get("rectanglelabels")), _first(meta.get("text"))
    if not words or meta.get("label", label) != label:  # new rectangle, or changed label
        words = label or "thing"
    text = get_text({"text": words}, "text")
    spans = {name: get_int(meta, name) for name in ("caption", "start") if meta.get(name) is not None}
    score = get_numbers({"score": [1.0 if item.get("score") is None else item["score"]]}, "score", 1)[0]
    return Grounding(text, box_of(geometry.clip(box, *size)), score), spans, size


def _first(texts: Any) -> Any:
    return (texts[0] if texts else None) if isinstance(texts, list) else texts


def _file(address: str) -> str:
    """Image name in a URL such as ``/data/local-files/?d=photos/1.jpg`` or ``s3://bucket/1.jpg``."""
    return unquote(address.partition("?d=")[2] or address.rpartition("/")[2])
