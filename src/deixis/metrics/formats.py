"""Readers of what models write: our own JSON lines, COCO results, GVD submissions, Florence-2 and Kosmos-2 outputs.

A file is recognised by what is in it. The formats, and what one record of each looks like:

``deixis``      JSON lines or a list. A grounded caption as every verb writes it (:class:`GroundedCaption`), or a
                phrase: ``{"image", "phrase", "box", "score", "point", "heat", "candidates": [{"box", "score"}]}``,
                where all from ``score`` on may be absent. ``"caption": 2, "start": 5`` says which mention is meant
                where several captions have the same words (the caption's number, the phrase's first word, from 0).
``coco``        a list of ``{"image_id", "caption"}``, or of ``{"image_id", "phrase", "bbox": [x, y, w, h], "score"}``
                (``"category"`` or ``"label"`` will do for ``"phrase"``); boxes of one phrase are candidates.
``gvd``         a submission to GVD's Flickr30k or ActivityNet evaluator: ``{"results": {image: [{"clss",
                "idx_in_sent", "bbox"}]}}``, or ``{video: {segment: {..., "bbox_for_all_frames"}}}``.
``florence-2``  ``{"image", "<CAPTION_TO_PHRASE_GROUNDING>": {"bboxes": [[x1, y1, x2, y2], ...], "labels": [...]}}``,
                in pixels. With the text of a ``"caption"`` it is a grounded caption, without it answers to phrases;
                with a number it answers the phrases of that caption of the reference, from 0.
``kosmos-2``    ``{"image", "caption", "entities": [[phrase, [start, end], [[x1, y1, x2, y2], ...]], ...]}``: characters
                of the caption, and boxes as fractions of the image.

Records of the last two may also stand in one object, ``{image: output}``; a Kosmos-2 output is then the pair
``[caption, entities]`` that its processor returns. A phrase with several boxes gets the box around them, and keeps
them as parts.
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
from deixis.types import LARGEST, Box, GroundedCaption, Grounding, HeatMap, Point

FORMATS = ("deixis", "coco", "gvd", "florence-2", "kosmos-2")
FLORENCE = "<CAPTION_TO_PHRASE_GROUNDING>"
SLACK = 1.0
"""Pixels by which a box may stick out of its image before it is refused; rounding and inclusive corners do that."""


@dataclass(frozen=True)
class Images:
    """What the reference knows of image names and sizes."""

    ids: frozenset[str]  # the images that are scored
    aliases: Mapping[str, str] = field(default_factory=dict)  # file name or stem -> id
    size: Callable[[str], tuple[int, int] | None] = lambda _: None
    elsewhere: Callable[[str], bool] = lambda _: False  # whether the image is in another split

    def find(self, name: str) -> str:
        """The id that a prediction means: an id, a path to the image, its file name, or that without its ending."""
        if name in self.ids:
            return name
        path = PurePath(name)
        return next((self.aliases[n] for n in (name, path.name, path.stem) if n in self.aliases), name)


@dataclass(frozen=True)
class Mention:
    """Which phrase an answer is for; without caption and start, every mention of these words in the image."""

    image: str
    phrase: str  # lower case, single spaces
    caption: int | None = None
    start: int | None = None


@dataclass(frozen=True)
class Predictions:
    """What a file holds, by image id. Usually one of the three."""

    path: Path
    format: str
    captions: Mapping[str, GroundedCaption] = field(default_factory=dict)
    sentences: Mapping[str, tuple[Sentence, ...]] = field(default_factory=dict)
    phrases: Mapping[Mention, tuple[Grounding, ...]] = field(default_factory=dict)  # candidates, best first
    notes: tuple[str, ...] = ()  # what was left out, in sentences

    def images(self) -> set[str]:
        """The images that anything is said about."""
        return {*self.captions, *self.sentences, *(mention.image for mention in self.phrases)}


def read_predictions(path: Path, images: Images, format: str = "auto") -> Predictions:
    """Read a file of predictions; ``format`` is one of FORMATS, or "auto" to look at the content.

    Every fault is a :class:`DeixisError` that names the file and the record: a duplicate, a number that is not
    finite, a box that is inside out or outside its image, an image that no split of the reference has. Predictions
    for images of other splits are left out, with a note.
    """
    if format not in ("auto", *FORMATS):
        raise DeixisError(f"there is no format '{format}'; choose one of {', '.join(FORMATS)}.")
    document, lines = _parse(path)
    if not isinstance(document, dict | list) or not document:
        raise DeixisError(f"{path} holds no predictions; a JSON list, a JSON object or JSON lines belong there.")
    found = _recognise(path, document) if format == "auto" else format
    return _Reader(path, images).read(document, lines, found)


def named_images(path: Path) -> frozenset[str]:
    """The names of all images that a file of predictions speaks of, where there is no reference to ask."""
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
    """Image -> boxes ``[N, 4]`` from a COCO results file, best score first; the phrase or category is not looked at."""
    document, lines = _parse(path)
    if not isinstance(document, list) or not document:
        raise DeixisError(f"{path} holds no boxes; a COCO results list of {{image_id, bbox, score}} belongs there.")
    reader = _Reader(path, images)
    scored: dict[str, list[tuple[float, Box]]] = {}
    for place, _, record in _records(document, lines):
        name = _image_field(record)
        if reader.go_to(place, None if name is None else record[name]):
            scored.setdefault(reader.image, []).append((reader.score(record), reader.coco_box(record)))
    return {
        image: geometry.as_boxes([box for _, box in sorted(boxes, key=lambda pair: -pair[0])]).astype(np.float64)
        for image, boxes in scored.items()
    }


def read_lemmas(path: Path) -> dict[str, str]:
    """A JSON object that maps words to lemmas."""
    lemmas = read_json(path)
    if not isinstance(lemmas, dict) or not all(isinstance(lemma, str) for lemma in lemmas.values()):
        raise DeixisError(f'{path} is not a map of lemmas; a JSON object like {{"men": "man"}} belongs there.')
    return lemmas


def phrase_key(text: str) -> str:
    """Phrases are compared in lower case with single spaces."""
    return " ".join(text.lower().split())


def segment_id(video: str, segment: str) -> str:
    """What a video segment is called here."""
    return f"{video}_segment_{segment}"


# Documents and records ----------------------------------------------------------------------------------------------


def _parse(path: Path) -> tuple[Any, list[int]]:
    """The document, and the line of each record where it is JSON lines. NaN passes here; it is named later."""
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
                # one long document with a fault in it, rather than lines
                fault = whole if not records else error
                line_number = whole.lineno if not records else number
                raise BadFile(path, f"not valid JSON ({fault.msg.lower()})", line_number) from None
            lines.append(number)
        return records, lines
    except RecursionError:
        raise BadFile(path, "not usable JSON (nested too deeply)") from None


def _records(document: Any, lines: Sequence[int]) -> Iterator[tuple[str, str | None, Any]]:
    """Place, image name where it is the key, and value of every record."""
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
            f"{path} is of no format that is known here (its first record has: {keys}). "
            f"--format names one of {', '.join(FORMATS)}; 'deixis score --help' shows what each looks like."
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
    """Reads one file. It knows the record it is at, and where each thing was said first, to name them in faults."""

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

    def fault(self, reason: str) -> DeixisError:
        image = f" (image {self.image})" if self.image and self.image != self.place else ""
        return DeixisError(f"{self.path}, {self.place}{image}: {reason}.")

    def go_to(self, place: str, name: object) -> bool:
        """Begin the record at a place; whether its image is to be scored."""
        self.place, self.image = place, ""
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise self.fault('the field "image" (or "image_id") is missing or not a name')
        image = self.images.find(str(name))
        if image not in self.images.ids:
            if self.images.elsewhere(image):
                self.other_splits += 1
                return False
            raise self.fault(f"image '{name}' is not in the reference; it may be of another data set or split")
        self.image = image
        return True

    def once(self, key: object, what: str) -> None:
        before = self.first.setdefault(key, self.place)
        if before != self.place:
            raise self.fault(f"{what} is there twice (first at {before}); keep one of them")

    def read(self, document: Any, lines: Sequence[int], format: str) -> Predictions:
        if format == "gvd":
            self.submission(document)
        else:
            for place, name, record in _records(document, lines):
                if format == "kosmos-2" and isinstance(record, list) and len(record) == 2:
                    record = {"caption": record[0], "entities": record[1]}
                self.place, self.image = place, ""
                if not isinstance(record, dict):
                    raise self.fault(f"an object was expected, not {_brief(record)}")
                field_name = _image_field(record)
                if self.go_to(place, name if field_name is None else record[field_name]):
                    self.record(record, format)
        notes = []
        if self.other_splits:
            notes.append(f"{self.other_splits} predictions for images of other splits were left out")
        if self.unplaced:
            notes.append(f"{self.unplaced} groundings whose words are not in their caption were left out")
        return Predictions(
            self.path,
            format,
            captions=self.captions,
            sentences=self.sentences,
            # the sort is stable: equal scores keep the order of the file
            phrases={m: tuple(sorted(found, key=lambda g: -g.score)) for m, found in self.phrases.items()},
            notes=tuple(notes),
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
            raise self.fault(f'the field "{name}" is missing or empty')
        return value

    def numbers(self, value: Any, count: int, what: str) -> list[float]:
        sound = isinstance(value, list | tuple) and len(value) == count
        if not sound or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in value):
            raise self.fault(f"{what} is {_brief(value)}, not {count} numbers")
        if not all(abs(number) <= LARGEST for number in value):  # NaN, infinity, and more than a float can hold
            raise self.fault(f"{what} is {_brief(value)}, with a number that is not finite")
        return [float(x) for x in value]

    def place_of(self, record: Mapping[str, Any], name: str) -> int | None:
        value = record.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise self.fault(f'"{name}" of a phrase is {_brief(value)}, not a whole number from 0')
        return value

    def score(self, record: Mapping[str, Any]) -> float:
        return self.numbers([record.get("score", 1.0)], 1, "the score")[0]

    def box(self, corners: npt.ArrayLike, what: str) -> Box:
        """A box that is right way round and in its image, cut to it; corners in our convention."""
        x1, y1, x2, y2 = (float(x) for x in np.asarray(corners, dtype=np.float64))
        shown = f"[{x1:g}, {y1:g}, {x2:g}, {y2:g}]"
        if x2 < x1 or y2 < y1:
            raise self.fault(f"the box {shown} of '{what}' is turned inside out")
        size = self.images.size(self.image)
        width, height = size if size is not None else (math.inf, math.inf)
        if x1 < -SLACK or y1 < -SLACK or x2 > width + SLACK or y2 > height + SLACK:
            extent = "" if size is None else f" of {width} x {height} pixels"
            raise self.fault(f"the box {shown} of '{what}' lies outside the image{extent}")
        return min(max(x1, 0.0), width), min(max(y1, 0.0), height), min(max(x2, 0.0), width), min(max(y2, 0.0), height)

    # Our own

    def caption(self, record: Mapping[str, Any]) -> None:
        try:
            caption = GroundedCaption.from_json(record)
        except DeixisError as error:
            raise self.fault(str(error).rstrip(".")) from None
        self.once(self.image, "a caption of this image")
        groundings, words = (
            tuple(replace(g, box=self.box(g.box, g.text)) for g in each)
            for each in (caption.groundings, caption.word_groundings)
        )
        self.captions[self.image] = replace(caption, image=self.image, groundings=groundings, word_groundings=words)

    def phrase(self, record: Mapping[str, Any]) -> None:
        phrase = self.text(record, "phrase")
        mention = Mention(
            self.image, phrase_key(phrase), self.place_of(record, "caption"), self.place_of(record, "start")
        )
        self.once(mention, f"'{phrase}'")
        answer = self.answer(record, phrase)
        rest = record.get("candidates", [])
        if not isinstance(rest, list):
            raise self.fault(f'"candidates" is {_brief(rest)}, not a list')
        # the answer itself may head the candidates; it is one candidate, not two
        others = [other for candidate in rest if (other := self.answer(candidate, phrase)).box != answer.box]
        # the answer stays in front of candidates with a better score: it is what the model said
        top = max([answer.score, *(other.score for other in others)])
        self.phrases[mention] = [replace(answer, score=top), *others]

    def answer(self, record: Any, phrase: str) -> Grounding:
        if not isinstance(record, dict) or "box" not in record:
            raise self.fault(f"an answer to '{phrase}' has no \"box\"")
        box = self.box(self.numbers(record["box"], 4, f"the box of '{phrase}'"), phrase)
        point: Point | None = None
        if record.get("point") is not None:
            x, y = self.numbers(record["point"], 2, f"the point of '{phrase}'")
            point = (x, y)
        heat = None if record.get("heat") is None else self.heat(record["heat"], phrase)
        return Grounding(phrase, box, self.score(record), point=point, heat=heat)

    def heat(self, value: Any, phrase: str) -> HeatMap:
        try:
            heat = HeatMap.from_json(value)
        except (DeixisError, ValueError) as error:
            raise self.fault(f"the heat map of '{phrase}' is wrong: {str(error).rstrip('.')}") from None
        size = self.images.size(self.image)
        if size is not None and heat.size != size:
            raise self.fault(f"the heat map of '{phrase}' is for {heat.size} pixels, the image has {size}")
        return heat

    # Other people's

    def coco_phrase(self, record: Mapping[str, Any]) -> None:
        name = next((n for n in ("phrase", "category", "label") if isinstance(record.get(n), str)), None)
        if name is None:
            raise self.fault('a box without its words; "phrase" (or "category", "label") names them')
        grounding = Grounding(record[name], self.coco_box(record), self.score(record))
        self.phrases.setdefault(Mention(self.image, phrase_key(record[name])), []).append(grounding)

    def coco_box(self, record: Mapping[str, Any]) -> Box:
        return self.box(geometry.from_xywh(self.numbers(record.get("bbox"), 4, '"bbox"')), "detection")

    def florence(self, record: Mapping[str, Any]) -> None:
        output = record.get(FLORENCE)
        boxes, labels = (output.get("bboxes"), output.get("labels")) if isinstance(output, dict) else (None, None)
        if not isinstance(boxes, list) or not isinstance(labels, list) or len(boxes) != len(labels):
            raise self.fault(f'"{FLORENCE}" does not hold as many "bboxes" as "labels"')
        groups: dict[str, list[Box]] = {}
        for corners, label in zip(boxes, labels, strict=True):
            if not isinstance(label, str) or not label.strip():
                raise self.fault(f"a label is {_brief(label)}, not words")
            box = self.box(self.numbers(corners, 4, f"the box of '{label}'"), label)
            groups.setdefault(label.strip(), []).append(box)
        if not isinstance(record.get("caption"), str):
            number = self.place_of(record, "caption")
            for label, found in groups.items():
                mention = Mention(self.image, phrase_key(label), number)
                self.once(mention, f"'{label}'")
                self.phrases[mention] = [_merged(label, found)]
            return
        caption = self.text(record, "caption")
        spans, after = [], 0
        for label, found in groups.items():
            # labels come in the order of the caption; one that is not after the last is looked for from the start
            start = caption.lower().find(label.lower(), after)
            start = caption.lower().find(label.lower()) if start < 0 else start
            after = start + len(label) if start >= 0 else after
            spans.append((label, start, start + len(label), found))
        self.grounded(caption, spans)

    def kosmos(self, record: Mapping[str, Any]) -> None:
        caption = self.text(record, "caption" if "caption" in record else "text")
        entities = record.get("entities")
        if not isinstance(entities, list):
            raise self.fault('"entities" is not a list')
        size = self.images.size(self.image)
        if size is None and isinstance(record.get("width"), int) and isinstance(record.get("height"), int):
            size = record["width"], record["height"]
        if size is None:
            raise self.fault('boxes are fractions of an image whose size is not known; add "width" and "height"')
        spans = []
        for entity in entities:
            sound = isinstance(entity, list) and len(entity) == 3 and isinstance(entity[0], str)
            if not sound or not isinstance(entity[2], list) or not entity[2]:
                raise self.fault(f"an entity is {_brief(entity)}, not [phrase, [start, end], boxes]")
            name, span, boxes = entity
            start, end = (int(x) for x in self.numbers(span, 2, f"the span of '{name}'"))
            fractions = [self.numbers(box, 4, f"a box of '{name}'") for box in boxes]
            spans.append((name, start, end, [self.box(geometry.from_normalised(f, *size), name) for f in fractions]))
        self.grounded(caption, spans)

    def grounded(self, caption: str, spans: Sequence[tuple[str, int, int, list[Box]]]) -> None:
        """A caption with phrases at its characters [start, end); one that touches no word is left out."""
        self.once(self.image, "a caption of this image")
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
            raise DeixisError(f'{self.path} is not a GVD submission; an object "results" belongs there.')
        for name, entry in results.items():
            if isinstance(entry, dict):
                parts = {segment_id(name, segment): [record] for segment, record in entry.items()}
            else:
                parts = {name: entry}
            for place, records in parts.items():
                if not self.go_to(place, place):
                    continue
                if not isinstance(records, list) or not records:
                    raise self.fault(f"a list of captions or an object of segments belongs here, not {_brief(records)}")
                self.once(self.image, "this image")
                self.sentences[self.image] = tuple(self.sentence(record, isinstance(entry, dict)) for record in records)

    def sentence(self, record: Any, video: bool) -> Sentence:
        """Classes, the positions of their words, and a box of each (of each frame); corners are inclusive."""
        names = ("clss", "idx_in_sent", "bbox_for_all_frames" if video else "bbox")
        columns = [record.get(name) if isinstance(record, dict) else None for name in names]
        lists = [column for column in columns if isinstance(column, list)]
        if len(lists) < 3 or len(set(map(len, lists))) > 1:
            raise self.fault(f"lists of the same length called {', '.join(names)} belong here")
        words = []
        for name, index, places in zip(*lists, strict=True):
            if not isinstance(name, str) or isinstance(index, bool) or not isinstance(index, int):
                raise self.fault(f"the word {_brief(name)} at {_brief(index)} is not a class at a position")
            rows = places if video else [places]
            if not isinstance(rows, list) or not rows:
                raise self.fault(f"the boxes of '{name}' are {_brief(rows)}, not one for every frame")
            # a row of a video may carry more than its four corners
            corners = [row[:4] if video and isinstance(row, list) else row for row in rows]
            exact = [self.numbers(corner, 4, f"the box of '{name}'") for corner in corners]
            boxes = tuple(self.box(geometry.from_zero_based_inclusive(corner), name) for corner in exact)
            words.append(ObjectWord(name, index, boxes, tuple(range(len(boxes))) if video else ()))
        return Sentence(tuple(words))


def _merged(text: str, boxes: Sequence[Box], score: float = 1.0) -> Grounding:
    """One grounding of several boxes: the box around them, with them as its parts."""
    x1, y1, x2, y2 = (float(x) for x in geometry.union(boxes))
    return Grounding(text, (x1, y1, x2, y2), score, parts=tuple(boxes) if len(boxes) > 1 else ())


def _brief(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
