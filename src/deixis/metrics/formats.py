"""Readers of prediction files: Deixis JSON lines, COCO results, GVD submissions, Florence-2 and Kosmos-2 outputs.

The format is detected from the content. Formats and their records:

``deixis``      JSON lines or a list. A grounded caption as written by ``deixis`` (:class:`GroundedCaption`), or a
                phrase: ``{"image", "phrase", "box", "score", "point", "heat", "candidates": [{"box", "score"}]}``,
                where ``score`` and the later fields are optional. ``"caption": 2, "start": 5`` selects one mention
                if several captions have the same words (caption number and first word of the phrase, from 0).
``coco``        a list of ``{"image_id", "caption"}``, or of ``{"image_id", "phrase", "bbox": [x, y, w, h], "score"}``
                (or ``"category"`` or ``"label"`` instead of ``"phrase"``); boxes of one phrase are candidates.
``gvd``         a submission to GVD's Flickr30k or ActivityNet evaluator: ``{"results": {image: [{"clss",
                "idx_in_sent", "bbox"}]}}``, or ``{video: {segment: {..., "bbox_for_all_frames"}}}``, with
                ``"eval_mode"``: ``"gen"`` or ``"GT"``.
``florence-2``  ``{"image", "<CAPTION_TO_PHRASE_GROUNDING>": {"bboxes": [[x1, y1, x2, y2], ...], "labels": [...]}}``,
                in pixels. With a ``"caption"`` text it is a grounded caption. Without it, the labels are phrases. With
                a number as ``"caption"``, they are phrases of that caption of the reference, from 0.
``kosmos-2``    ``{"image", "caption", "entities": [[phrase, [start, end], [[x1, y1, x2, y2], ...]], ...]}``: character
                offsets in the caption, and boxes as fractions of the image size.

Records of the last two formats may also be in one object, ``{image: output}``. A Kosmos-2 output is then the pair
``[caption, entities]`` of its processor. A phrase with several boxes gets their union as its box; the boxes are kept
as its parts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.reading import MAX_JSON, BadFile, read_json, read_text
from deixis.errors import DeixisError
from deixis.language.tokenise import align
from deixis.metrics.grounded_captions import ObjectWord, Sentence
from deixis.types import LARGEST, Box, GroundedCaption, Grounding, HeatMap, Point, optional_fields

FORMATS = ("deixis", "coco", "gvd", "florence-2", "kosmos-2")
EVAL_MODES = ("gen", "GT")
"""Values of "eval_mode" of a GVD submission: boxes of generated sentences, or of ground-truth sentences."""
FLORENCE = "<CAPTION_TO_PHRASE_GROUNDING>"
SLACK = 1.0
"""Tolerance in pixels for boxes that extend past the image, because of rounding or inclusive corners."""


@dataclass(frozen=True)
class Images:
    """Image ids, file names and sizes of a reference."""

    ids: frozenset[str]  # the scored images
    aliases: Mapping[str, str] = field(default_factory=dict)  # file name or stem -> id
    size: Callable[[str], tuple[int, int] | None] = lambda _: None
    in_other_split: Callable[[str], bool] = lambda _: False  # whether the image is in another split

    def find(self, name: str) -> str:
        """Find the image id from an id, an image path, a file name, or a file name without extension."""
        if name in self.ids:
            return name
        path = PurePath(name)
        return next((self.aliases[n] for n in (name, path.name, path.stem) if n in self.aliases), name)


@dataclass(frozen=True)
class Mention:
    """Phrase of a prediction; without caption and start, all mentions of these words in the image."""

    image: str
    phrase: str  # lower case, single spaces
    caption: int | None = None
    start: int | None = None


@dataclass(frozen=True)
class Predictions:
    """Content of a prediction file, by image id: usually captions, sentences or phrases."""

    path: Path
    format: str
    captions: Mapping[str, GroundedCaption] = field(default_factory=dict)
    sentences: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)
    phrases: Mapping[Mention, tuple[Grounding, ...]] = field(default_factory=dict)  # candidates, best first
    notes: tuple[str, ...] = ()  # messages about skipped records
    mode: str = ""  # of a GVD submission: "gen" (generated sentences) or "GT" (ground-truth sentences); "": not stated
    others: int = 0  # predictions for images of other splits, which are left out

    def images(self) -> set[str]:
        """Images with at least one prediction."""
        return {*self.captions, *self.sentences, *(mention.image for mention in self.phrases)}


def read_predictions(path: Path, images: Images, format: str = "auto") -> Predictions:
    """Read a prediction file; ``format`` is one of FORMATS, or "auto" to detect it.

    Each error is a :class:`DeixisError` with the file and the record: a duplicate, a number that is not finite, a box
    with x2 < x1 or y2 < y1 or outside its image, an image that is in no split of the reference. Predictions for images
    of other splits are skipped, with a note.
    """
    if format not in ("auto", *FORMATS):
        raise DeixisError(f"Unknown format '{format}'. Choose one of {', '.join(FORMATS)}.")
    document, lines = _parse(path)
    if not isinstance(document, dict | list) or not document:
        raise DeixisError(f"{path} has no predictions. Expected a JSON list, a JSON object or JSON lines.")
    found = _recognise(path, document) if format == "auto" else format
    return _Reader(path, images).read(document, lines, found)


def named_images(path: Path) -> frozenset[str]:
    """Names of all images in a prediction file, without a reference."""
    document, lines = _parse(path)
    if isinstance(document, dict) and isinstance(document.get("results"), dict):
        return frozenset(document["results"])
    names = set()
    for _, key, record in _records(document, lines) if isinstance(document, dict | list) else ():
        field_name = _image_field(record)
        name = key if field_name is None else record[field_name]
        names |= set() if name is None else {str(name)}
    return frozenset(names)


def read_proposals(path: Path, images: Images) -> dict[str, npt.NDArray[np.float64]]:
    """Image -> boxes ``[N, 4]`` from a COCO results file, best score first; the phrase or category is ignored."""
    document, lines = _parse(path)
    if not isinstance(document, list) or not document:
        raise DeixisError(f"{path} has no boxes. Expected a COCO results list of {{image_id, bbox, score}}.")
    reader = _Reader(path, images)
    scored: dict[str, list[tuple[float, Box]]] = {}
    for place, _, record in _records(document, lines):
        name = _image_field(record)
        if reader.start_record(place, None if name is None else record[name]):
            scored.setdefault(reader.image, []).append((reader.score(record), reader.coco_box(record)))
    return {
        image: geometry.as_boxes([box for _, box in sorted(boxes, key=lambda pair: -pair[0])]).astype(np.float64)
        for image, boxes in scored.items()
    }


def read_lemmas(path: Path) -> dict[str, str]:
    """Read a JSON object that maps words to lemmas."""
    lemmas = read_json(path)
    if not isinstance(lemmas, dict) or not all(isinstance(lemma, str) for lemma in lemmas.values()):
        raise DeixisError(f'{path} is not a lemma file. Expected a JSON object such as {{"men": "man"}}.')
    return lemmas


def phrase_key(text: str) -> str:
    """Normalise a phrase for comparison: lower case, single spaces."""
    return " ".join(text.lower().split())


def segment_id(video: str, segment: str) -> str:
    """Id of a video segment."""
    return f"{video}_segment_{segment}"


# Documents and records ----------------------------------------------------------------------------------------------


def _parse(path: Path) -> tuple[Any, list[int]]:
    """Parse a JSON or JSON lines file; also return the line of each record. NaN is checked later."""
    text = read_text(path, MAX_JSON)
    try:
        document = json.loads(text)
        return document, [1] if isinstance(document, dict) else []
    except json.JSONDecodeError as whole:
        records, lines = [], []
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                # if the first line fails, the file is one JSON document with an error
                cause = whole if not records else error
                line_number = whole.lineno if not records else number
                raise BadFile(path, f"not valid JSON ({cause.msg.lower()})", line_number) from None
            lines.append(number)
        return records, lines
    except RecursionError:
        raise BadFile(path, "not usable JSON (nested too deeply)") from None


def _records(document: Any, lines: Sequence[int]) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the place, the image name (if it is the key) and the value of each record."""
    if isinstance(document, dict) and all(isinstance(value, dict | list) for value in document.values()):
        yield from ((name, name, record) for name, record in document.items())
        return
    records = [document] if isinstance(document, dict) else document
    for index, record in enumerate(records):
        yield (f"line {lines[index]}" if lines else f"record {index}"), None, record


def _image_field(record: Any) -> str | None:
    return next((name for name in ("image", "image_id") if isinstance(record, dict) and name in record), None)


def _recognise(path: Path, document: Any) -> str:
    if isinstance(document, dict) and isinstance(document.get("results"), dict):
        return "gvd"
    _, _, record = next(_records(document, []))
    found = _format_of(record)
    if found is None:
        keys = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        raise DeixisError(
            f"{path}: unknown format (the first record has: {keys}). Set --format to one of {', '.join(FORMATS)}; "
            "'deixis score --help' describes them."
        )
    return found


def _format_of(record: Any) -> str | None:
    if isinstance(record, list):
        pair = len(record) == 2 and isinstance(record[0], str) and isinstance(record[1], list)
        return "kosmos-2" if pair else None
    if not isinstance(record, dict):
        return None
    if FLORENCE in record:
        return "florence-2"
    if "entities" in record:
        return "kosmos-2"
    if "groundings" in record or ("phrase" in record and "box" in record):
        return "deixis"
    if "image_id" in record and ("caption" in record or "bbox" in record):
        return "coco"
    return None


class _Reader:
    """Reader of one file; keeps the current record and the first place of each prediction for error messages."""

    def __init__(self, path: Path, images: Images) -> None:
        self.path = path
        self.images = images
        self.place = ""  # of the record, e.g. "line 3"
        self.image = ""
        self.first: dict[object, str] = {}
        self.captions: dict[str, GroundedCaption] = {}
        self.sentences: dict[str, tuple[Sentence, ...]] = {}
        self.phrases: dict[Mention, list[Grounding]] = {}
        self.other_splits = 0
        self.unplaced = 0
        self.mode = ""

    def error_at(self, reason: str) -> DeixisError:
        image = f" (image {self.image})" if self.image and self.image != self.place else ""
        return DeixisError(f"{self.path}, {self.place}{image}: {reason}.")

    def start_record(self, place: str, name: object) -> bool:
        """Start the record at a place; return whether its image is scored."""
        self.place, self.image = place, ""
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise self.error_at('the field "image" (or "image_id") is missing, or not a string or integer')
        image = self.images.find(str(name))
        if image not in self.images.ids:
            if self.images.in_other_split(image):
                self.other_splits += 1
                return False
            raise self.error_at(f"image '{name}' is not in the reference. Check the data set and the split")
        self.image = image
        return True

    def check_unique(self, key: object, what: str) -> None:
        before = self.first.setdefault(key, self.place)
        if before != self.place:
            raise self.error_at(f"duplicate: {what} (first at {before}). Remove one of them")

    def read(self, document: Any, lines: Sequence[int], format: str) -> Predictions:
        if format == "gvd":
            self.submission(document)
        else:
            for place, name, record in _records(document, lines):
                if format == "kosmos-2" and isinstance(record, list) and len(record) == 2:
                    record = {"caption": record[0], "entities": record[1]}
                self.place, self.image = place, ""
                if not isinstance(record, dict):
                    raise self.error_at(f"expected a JSON object, got {_brief(record)}")
                field_name = _image_field(record)
                if self.start_record(place, name if field_name is None else record[field_name]):
                    self.record(record, format)
        notes = []
        if self.other_splits:
            notes.append(f"{self.other_splits} predictions for images of other splits were skipped")
        if self.unplaced:
            notes.append(f"{self.unplaced} groundings whose words are not in their caption were skipped")
        return Predictions(
            self.path,
            format,
            captions=self.captions,
            sentences=self.sentences,
            # stable sort: equal scores keep the order of the file
            phrases={m: tuple(sorted(found, key=lambda g: -g.score)) for m, found in self.phrases.items()},
            notes=tuple(notes),
            mode=self.mode,
            others=self.other_splits,
        )

    def record(self, record: Mapping[str, Any], format: str) -> None:
        if format == "florence-2":
            self.florence(record)
        elif format == "kosmos-2":
            self.kosmos(record)
        elif format == "coco" and "bbox" in record:
            self.coco_phrase(record)
        elif format == "coco":
            self.grounded(self.text(record, "caption"), [])
        elif "groundings" in record:
            self.caption(record)
        else:
            self.phrase(record)

    # Fields

    def text(self, record: Mapping[str, Any], name: str) -> str:
        value = record.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self.error_at(f'the field "{name}" is missing or empty')
        return value

    def numbers(self, value: Any, count: int, what: str) -> list[float]:
        valid = isinstance(value, list | tuple) and len(value) == count
        if not valid or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in value):
            raise self.error_at(f"{what} is {_brief(value)}. Expected {count} numbers")
        if not all(abs(number) <= LARGEST for number in value):  # NaN, infinity, or too large for a float
            raise self.error_at(f"{what} is {_brief(value)}. Expected finite numbers")
        return [float(x) for x in value]

    def place_of(self, record: Mapping[str, Any], name: str) -> int | None:
        value = record.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise self.error_at(f'"{name}" of a phrase is {_brief(value)}. Expected an integer >= 0')
        return value

    def score(self, record: Mapping[str, Any]) -> float:
        return self.numbers([record.get("score", 1.0)], 1, "the score")[0]

    def box(self, corners: npt.ArrayLike, what: str) -> Box:
        """Check the corners of a box (our convention) and clip it to its image."""
        x1, y1, x2, y2 = (float(x) for x in np.asarray(corners, dtype=np.float64))
        text = f"[{x1:g}, {y1:g}, {x2:g}, {y2:g}]"
        if x2 < x1 or y2 < y1:
            raise self.error_at(f"invalid box {text} of '{what}': x2 < x1 or y2 < y1")
        size = self.images.size(self.image)
        width, height = size if size is not None else (math.inf, math.inf)
        if x1 < -SLACK or y1 < -SLACK or x2 > width + SLACK or y2 > height + SLACK:
            extent = "" if size is None else f" of {width} x {height} pixels"
            raise self.error_at(f"the box {text} of '{what}' is outside the image{extent}")
        return min(max(x1, 0.0), width), min(max(y1, 0.0), height), min(max(x2, 0.0), width), min(max(y2, 0.0), height)

    # Deixis format

    def caption(self, record: Mapping[str, Any]) -> None:
        try:
            caption = GroundedCaption.from_json(record)
        except DeixisError as error:
            raise self.error_at(str(error).rstrip(".")) from None
        self.check_unique(self.image, "a caption of this image")
        groundings, words = (
            tuple(self.grounding(g) for g in each) for each in (caption.groundings, caption.word_groundings)
        )
        self.captions[self.image] = replace(caption, image=self.image, groundings=groundings, word_groundings=words)

    def grounding(self, given: Grounding) -> Grounding:
        """Check the boxes of a grounding and clip them to the image."""
        track = tuple(replace(one, box=self.box(one.box, given.text)) for one in given.track)
        return replace(given, box=self.box(given.box, given.text), track=track)

    def phrase(self, record: Mapping[str, Any]) -> None:
        phrase = self.text(record, "phrase")
        mention = Mention(
            self.image, phrase_key(phrase), self.place_of(record, "caption"), self.place_of(record, "start")
        )
        self.check_unique(mention, f"'{phrase}'")
        answer = self.answer(record, phrase)
        rest = record.get("candidates", [])
        if not isinstance(rest, list):
            raise self.error_at(f'"candidates" is {_brief(rest)}. Expected a list')
        # the first candidate may repeat the predicted box
        others = [other for candidate in rest if (other := self.answer(candidate, phrase)).box != answer.box]
        # the predicted box stays first, also if a candidate has a higher score
        top = max([answer.score, *(other.score for other in others)])
        self.phrases[mention] = [replace(answer, score=top), *others]

    def answer(self, record: Any, phrase: str) -> Grounding:
        if not isinstance(record, dict) or "box" not in record:
            raise self.error_at(f"a prediction for '{phrase}' has no \"box\"")
        box = self.box(self.numbers(record["box"], 4, f"the box of '{phrase}'"), phrase)
        point: Point | None = None
        if record.get("point") is not None:
            x, y = self.numbers(record["point"], 2, f"the point of '{phrase}'")
            point = (x, y)
        heat = None if record.get("heat") is None else self.heat(record["heat"], phrase)
        try:
            clip = optional_fields({name: record.get(name) for name in ("frame", "time", "track")})
        except DeixisError as error:
            raise self.error_at(str(error).rstrip(".")) from None
        return self.grounding(Grounding(phrase, box, self.score(record), point=point, heat=heat, **clip))

    def heat(self, value: Any, phrase: str) -> HeatMap:
        try:
            heat = HeatMap.from_json(value)
        except (DeixisError, ValueError) as error:
            raise self.error_at(f"invalid heat map of '{phrase}': {str(error).rstrip('.')}") from None
        size = self.images.size(self.image)
        if size is not None and heat.size != size:
            raise self.error_at(f"the heat map of '{phrase}' has size {heat.size}, but the image has size {size}")
        return heat

    # Formats of other projects

    def coco_phrase(self, record: Mapping[str, Any]) -> None:
        name = next((n for n in ("phrase", "category", "label") if isinstance(record.get(n), str)), None)
        if name is None:
            raise self.error_at('a box without a phrase. Add the field "phrase" (or "category", "label")')
        grounding = Grounding(record[name], self.coco_box(record), self.score(record))
        self.phrases.setdefault(Mention(self.image, phrase_key(record[name])), []).append(grounding)

    def coco_box(self, record: Mapping[str, Any]) -> Box:
        return self.box(geometry.from_xywh(self.numbers(record.get("bbox"), 4, '"bbox"')), "detection")

    def florence(self, record: Mapping[str, Any]) -> None:
        output = record.get(FLORENCE)
        boxes, labels = (output.get("bboxes"), output.get("labels")) if isinstance(output, dict) else (None, None)
        if not isinstance(boxes, list) or not isinstance(labels, list) or len(boxes) != len(labels):
            raise self.error_at(f'"{FLORENCE}" must have lists "bboxes" and "labels" of equal length')
        groups: dict[str, list[Box]] = {}
        for corners, label in zip(boxes, labels, strict=True):
            if not isinstance(label, str) or not label.strip():
                raise self.error_at(f"a label is {_brief(label)}. Expected a nonempty string")
            box = self.box(self.numbers(corners, 4, f"the box of '{label}'"), label)
            groups.setdefault(label.strip(), []).append(box)
        if not isinstance(record.get("caption"), str):
            number = self.place_of(record, "caption")
            for label, found in groups.items():
                mention = Mention(self.image, phrase_key(label), number)
                self.check_unique(mention, f"'{label}'")
                self.phrases[mention] = [_merged(label, found)]
            return
        caption = self.text(record, "caption")
        spans, after = [], 0
        for label, found in groups.items():
            # labels are in caption order; if a label is not found after the previous one, search from the start
            start = caption.lower().find(label.lower(), after)
            start = caption.lower().find(label.lower()) if start < 0 else start
            after = start + len(label) if start >= 0 else after
            spans.append((label, start, start + len(label), found))
        self.grounded(caption, spans)

    def kosmos(self, record: Mapping[str, Any]) -> None:
        caption = self.text(record, "caption" if "caption" in record else "text")
        entities = record.get("entities")
        if not isinstance(entities, list):
            raise self.error_at('"entities" must be a list')
        size = self.images.size(self.image)
        if size is None and isinstance(record.get("width"), int) and isinstance(record.get("height"), int):
            size = record["width"], record["height"]
        if size is None:
            raise self.error_at('the boxes are fractions, and the image size is unknown. Add "width" and "height"')
        spans = []
        for entity in entities:
            valid = isinstance(entity, list) and len(entity) == 3 and isinstance(entity[0], str)
            if not valid or not isinstance(entity[2], list) or not entity[2]:
                raise self.error_at(f"an entity is {_brief(entity)}. Expected [phrase, [start, end], boxes]")
            name, span, boxes = entity
            start, end = (int(x) for x in self.numbers(span, 2, f"the span of '{name}'"))
            fractions = [self.numbers(box, 4, f"a box of '{name}'") for box in boxes]
            spans.append((name, start, end, [self.box(geometry.from_normalised(f, *size), name) for f in fractions]))
        self.grounded(caption, spans)

    def grounded(self, caption: str, spans: Sequence[tuple[str, int, int, list[Box]]]) -> None:
        """Add a caption with phrases at character offsets [start, end); phrases that cover no word are skipped."""
        self.check_unique(self.image, "a caption of this image")
        aligned = align(caption)
        groundings = []
        for text, start, end, found in spans:
            first, last = aligned.span(start, end) if start >= 0 else (0, 0)
            if first < last:
                groundings.append(replace(_merged(text, found), start=first, end=last))
            else:
                self.unplaced += 1
        image = self.image
        self.captions[image] = GroundedCaption(aligned.tokens, tuple(groundings), image=image, caption=caption)

    # GVD

    def submission(self, document: Any) -> None:
        results = document.get("results") if isinstance(document, dict) else None
        if not isinstance(results, dict):
            raise DeixisError(f'{self.path} is not a GVD submission. Expected an object "results".')
        self.mode = document.get("eval_mode", "")
        if self.mode not in ("", *EVAL_MODES):
            raise DeixisError(f'{self.path}: "eval_mode" is {_brief(self.mode)}. Expected {" or ".join(EVAL_MODES)}.')
        for name, entry in results.items():
            if isinstance(entry, dict):
                parts = {segment_id(name, segment): [record] for segment, record in entry.items()}
            else:
                parts = {name: entry}
            for place, records in parts.items():
                if not self.start_record(place, place):
                    continue
                if not isinstance(records, list) or not records:
                    raise self.error_at(f"expected a list of captions or an object of segments, got {_brief(records)}")
                self.check_unique(self.image, "this image")
                self.sentences[self.image] = tuple(self.sentence(record, isinstance(entry, dict)) for record in records)

    def sentence(self, record: Any, video: bool) -> Sentence:
        """Read classes, word positions and boxes (one per frame in a video); corners are inclusive."""
        names = ("clss", "idx_in_sent", "bbox_for_all_frames" if video else "bbox")
        if self.mode == "GT" and isinstance(record, dict) and isinstance(record.get("idx_in_sent"), list):
            record = {"clss": [""] * len(record["idx_in_sent"])} | record  # the official evaluation never reads it
        columns = [record.get(name) if isinstance(record, dict) else None for name in names]
        lists = [column for column in columns if isinstance(column, list)]
        if len(lists) < 3 or len(set(map(len, lists))) > 1:
            raise self.error_at(f"expected lists {', '.join(names)} of equal length")
        words = []
        for name, index, places in zip(*lists, strict=True):
            if not isinstance(name, str) or isinstance(index, bool) or not isinstance(index, int):
                raise self.error_at(
                    f"invalid word {_brief(name)} at {_brief(index)}. Expected a class name and an integer position"
                )
            rows = places if video else [places]
            if not isinstance(rows, list) or not rows:
                raise self.error_at(f"the boxes of '{name}' are {_brief(rows)}. Expected one box per frame")
            # a row of a video may have more than four values
            corners = [row[:4] if video and isinstance(row, list) else row for row in rows]
            exact = [self.numbers(corner, 4, f"the box of '{name}'") for corner in corners]
            boxes = tuple(self.box(geometry.from_zero_based_inclusive(corner), name) for corner in exact)
            words.append(ObjectWord(name, index, boxes, tuple(range(len(boxes))) if video else ()))
        return Sentence(tuple(words))


def _merged(text: str, boxes: Sequence[Box], score: float = 1.0) -> Grounding:
    """Merge several boxes into one grounding: their union, with the boxes as parts."""
    x1, y1, x2, y2 = (float(x) for x in geometry.union(boxes))
    return Grounding(text, (x1, y1, x2, y2), score, parts=tuple(boxes) if len(boxes) > 1 else ())


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
