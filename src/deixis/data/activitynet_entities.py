"""ActivityNet-Entities: sentences about video segments, with boxes of object words in sampled frames.

The official files, in the root or in its subfolder ``data``:

``anet_entities_cleaned_class_thresh50_trainval.json``              sentences, object classes and boxes
``anet_entities_cleaned_class_thresh50_test_skeleton.json``         the same without boxes, which are not public
``anet_entities_cleaned_class_thresh50_hidden_test_skeleton.json``  segments without sentences
``split_ids_anet_entities.json``                                    the videos of training, validation and testing
``frames_10frm/<video>_segment_<00>/<01 .. 10>.jpg``                the frames, as in grounded video description
``videos/<video>.mp4`` (or .mkv, .webm ...)                         the videos, used where a segment has no frames

Each segment has ten equal clips. The annotated frame is the middle frame of a clip, resized to a width of 720 pixels
(its height may be more). Boxes are in pixels of these frames; frames of another size are resized when they are opened.
Frame ``i`` is the file ``i + 1``. Corners are inclusive (the official evaluator uses ``x2 - x1 + 1``), so the loader
adds one pixel to x2 and y2.

One sample is one segment, with the id ``<video>_segment_<number>``. Each object word is a phrase of one word: its head
is the word, its type the class (``men``: ``man``). Words with the same boxes ("the man ... he") share an entity.
``Entity.frames`` gives the frames of its boxes, and its label is the class of its first word. A word may have boxes of
several objects ("two girls"). A word has no box if its box is not public or invalid.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from deixis import boxes as geometry
from deixis.clips import FRAMES, SUFFIXES
from deixis.data.reading import (
    BadFile,
    BadRecord,
    box_in_image,
    get,
    get_int,
    get_list,
    get_numbers,
    plain_name,
    read_json,
)
from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Segment, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import align
from deixis.types import Box, Phrase

NAME = "activitynet_entities"

FRAME_WIDTH = 720

_STEM = "anet_entities_cleaned_class_thresh50_"
_SPLIT_FILE = "split_ids_anet_entities.json"
_ANNOTATIONS = {  # split -> its file, and its key in the list of videos
    "train": (f"{_STEM}trainval.json", "training"),
    "val": (f"{_STEM}trainval.json", "validation"),
    "test": (f"{_STEM}test_skeleton.json", "testing"),
    "hidden_test": (f"{_STEM}hidden_test_skeleton.json", None),
}
_FRAME_FOLDERS = ("frames_10frm", "frames")
_VIDEOS = "videos"
_AUTHORS = "the authors of ActivityNet-Entities (L. Zhou and others), in the data folder of their repository"
_NAMES = ("process_idx", "process_clss")
_PLACES = ("process_bnd_box", "frame_ind")  # empty in the skeletons


def expected(root: Path) -> tuple[Expected, ...]:
    """List the files of the official distribution."""
    purposes = {
        "train": ("the sentences, classes and boxes of training and validation", True),
        "test": ("the sentences and classes of the test segments, without boxes", False),
        "hidden_test": ("the segments of the hidden test", False),
    }
    return (
        Expected(_found(root, _SPLIT_FILE), "the videos of each split", _AUTHORS),
        *(
            Expected(_found(root, _ANNOTATIONS[split][0]), purpose, _AUTHORS, needed)
            for split, (purpose, needed) in purposes.items()
        ),
        Expected(
            _VIDEOS if (root / _VIDEOS).is_dir() and not (root / _frame_folder(root)).is_dir() else _frame_folder(root),
            f"the {FRAMES} frames of each segment, sampled from the videos; or the videos in the folder {_VIDEOS}",
            "the organisers of ActivityNet 1.3 (videos on request)",
        ),
    )


def recognise(root: Path) -> bool:
    """Whether the folder or its subfolder ``data`` has the list of videos or an annotation file."""
    files = {_SPLIT_FILE, *(name for name, _ in _ANNOTATIONS.values())}
    return any((root / _found(root, name)).is_file() for name in files)


def splits(root: Path) -> tuple[str, ...]:
    """List the splits with an annotation file and, if needed, the list of videos."""
    listed = (root / _found(root, _SPLIT_FILE)).is_file()
    return tuple(
        split
        for split, (name, key) in _ANNOTATIONS.items()
        if (root / _found(root, name)).is_file() and (listed or key is None)
    )


def load(root: Path, split: str) -> Dataset:
    """Load one split: videos in list order, segments in temporal order."""
    if split not in splits(root):
        raise DeixisError(f"{root} has no split '{split}'. Available: {', '.join(splits(root)) or 'none'}.")
    name, key = _ANNOTATIONS[split]
    path = root / _found(root, name)
    annotations = read_json(path, drop=("vocab",))
    annotations = annotations.get("annotations") if isinstance(annotations, dict) else None
    if not isinstance(annotations, dict):
        raise BadFile(path, 'the object "annotations" is missing')
    videos = list(annotations) if key is None else _listed(root / _found(root, _SPLIT_FILE), key)
    media = _Media(root)
    samples: list[Sample] = []
    skipped: list[Skipped] = []
    for video in dict.fromkeys(videos):
        try:
            if video not in annotations:
                raise BadRecord("the video is in the list of videos, but has no annotation")
            record = annotations[video]
            segments = list(_segments(record))
            for number, segment in segments:
                try:
                    place = _segment(record, segment, number, 1 + max(each for each, _ in segments))
                    samples.append(_sample(plain_name(video), number, segment, media, place, path, skipped))
                except BadRecord as error:
                    skipped.append(Skipped(str(path), f"{video}, segment {number}: {error}"))
        except BadRecord as error:
            skipped.append(Skipped(str(path), f"{video}: {error}"))
    return Dataset(NAME, split, tuple(samples), tuple(skipped))


def _listed(path: Path, key: str) -> list[str]:
    lists = read_json(path)
    videos = lists.get(key) if isinstance(lists, dict) else None
    if not isinstance(videos, list) or not all(isinstance(video, str) for video in videos):
        raise BadFile(path, f'the list of videos "{key}" is missing')
    return videos


def _segments(record: Any) -> Iterator[tuple[int, Any]]:
    segments = get(record, "segments")
    if not isinstance(segments, dict) or not all(re.fullmatch("0|[1-9][0-9]{0,5}", name) for name in segments):
        raise BadRecord('"segments" must be an object with numbers as keys')
    yield from ((int(name), segments[name]) for name in sorted(segments, key=int))


class _Media:
    """Frames and videos of the folder, listed once."""

    def __init__(self, root: Path) -> None:
        self.frames = root / _frame_folder(root)
        self.folders = {path.name for path in self.frames.iterdir()} if self.frames.is_dir() else set()
        videos = root / _VIDEOS
        listed = sorted(videos.iterdir()) if videos.is_dir() else []
        self.videos = {path.stem: path for path in listed if path.suffix.lower() in SUFFIXES}

    def find(self, video: str, number: int, segment: Segment | None) -> tuple[tuple[Path, ...], Segment | None]:
        """Frames of a segment and the segment with its video file; no frames where only the video exists."""
        name = f"{video}_segment_{number:02d}"
        if segment is not None and name not in self.folders and video in self.videos:
            return (), replace(segment, path=self.videos[video])
        return tuple(self.frames / name / f"{frame:02d}.jpg" for frame in range(1, FRAMES + 1)), segment


def _segment(record: Any, segment: Any, number: int, count: int) -> Segment | None:
    """Start and end of a segment, in seconds; None where the file does not give them."""
    if not isinstance(segment, dict) or "timestamps" not in segment or "duration" not in record:
        return None
    first, second = get_numbers(segment, "timestamps", 2)
    (duration,) = get_numbers({"duration": [record["duration"]]}, "duration", 1)
    start, end = max(min(first, second), 0.0), max(first, second)  # a few official ones are the wrong way round
    if duration <= 0 or end <= start:
        raise BadRecord(f"the segment from {first:g} to {second:g} s of {duration:g} s is empty")
    return Segment(start, end, duration, number=number, count=count, width=FRAME_WIDTH)


def _sample(
    video: str, number: int, record: Any, media: _Media, segment: Segment | None, path: Path, skipped: list[Skipped]
) -> Sample:
    official = get_list(record, "tokens")
    if not all(isinstance(token, str) for token in official):
        raise BadRecord('"tokens" must be a list of strings')
    place = f"{video}, segment {number}"
    objects, boxes = _objects(record, official, place, path, skipped)
    captions: tuple[Caption, ...] = ()
    entities: list[Entity] = []
    if any(official):
        text, spans = _joined(official)
        aligned = align(text)
        phrases: list[Phrase] = []
        # Words with the same objects share an entity; its id is the position of its first word.
        names: dict[tuple[int, ...], str] = {}
        for word, (label, rows) in sorted(objects.items()):
            start, end = aligned.span(*spans[word])
            if start == end:
                skipped.append(Skipped(str(path), f"{place}: the object word {word} ({official[word]!r}) has no token"))
                continue
            if tuple(rows) not in names:
                names[tuple(rows)] = str(word)
                drawn = [boxes[row] for row in rows if row in boxes]
                frames = np.array([frame for frame, _ in drawn], dtype=np.int64)
                corners = geometry.as_boxes([box for _, box in drawn])
                entities.append(Entity(str(word), corners, types=(label,), label=label, frames=frames))
            head = official[word].lower()
            phrases.append(Phrase(official[word], start, end, head, names[tuple(rows)], types=(label,)))
        captions = (Caption(text, tuple(map(sys.intern, aligned.tokens)), tuple(phrases)),)
    files, place_in_video = media.find(video, number, segment)
    name = f"{video}_segment_{number}"
    return Sample(name, captions, frames=files, entities=tuple(entities), segment=place_in_video)


def _joined(official: list[str]) -> tuple[str, list[tuple[int, int]]]:
    """Join the tokens; also return the character span of each. Some official tokens are empty."""
    text = ""
    spans: list[tuple[int, int]] = []
    for token in official:
        text += " " if text and token else ""
        spans.append((len(text), len(text) + len(token)))
        text += token
    return text, spans


def _objects(
    record: Any, official: list[str], place: str, path: Path, skipped: list[Skipped]
) -> tuple[dict[int, tuple[str, list[int]]], dict[int, tuple[int, Box]]]:
    """Read object words, ``word -> (class, objects)``, and boxes, ``object -> (frame, box)``.

    An object is a row of the record's parallel lists: one box in one frame, with its words.
    """
    lists = {name: get_list(record, name) for name in (*_NAMES, *_PLACES)}
    lengths = {name: len(values) for name, values in lists.items()}
    count = lengths["process_idx"]
    drawn = any(lengths[name] for name in _PLACES)
    if any(length != count for name, length in lengths.items() if drawn or name in _NAMES):
        listed = ", ".join(f"{length} {name}" for name, length in lengths.items())
        raise BadRecord(f"the lists of objects differ in length: {listed}")
    named: dict[int, tuple[str, list[int]]] = {}
    boxes: dict[int, tuple[int, Box]] = {}
    for row in range(count):
        item = {name: values[row] for name, values in lists.items() if values}
        try:
            for word, label in _words(item, len(official)).items():
                named.setdefault(word, (label, []))[1].append(row)
            if drawn:
                boxes[row] = _box(item)
        except BadRecord as error:
            skipped.append(Skipped(str(path), f"{place}, object {row}: {error}"))
    return named, boxes


def _words(item: dict[str, Any], count: int) -> dict[int, str]:
    """Word positions of an object, with their classes; the sentence has ``count`` tokens."""
    classes = get_list(item, "process_clss")
    words = get_numbers(item, "process_idx", len(classes))
    for word, label in zip(words, classes, strict=True):
        if word not in range(count):
            raise BadRecord(f"word {word:g} is not in the sentence of {count} tokens")
        if not isinstance(label, str) or not label:
            raise BadRecord("a class must be a nonempty string")
    return {int(word): label for word, label in zip(words, classes, strict=True)}


def _box(item: dict[str, Any]) -> tuple[int, Box]:
    frame = get_int(item, "frame_ind")
    if frame not in range(FRAMES):
        raise BadRecord(f"frame {frame} is not in the range 0 to {FRAMES - 1}")
    x1, y1, x2, y2 = get_numbers(item, "process_bnd_box", 4)
    if x2 <= x1 or y2 <= y1:  # the official evaluator also ignores boxes of one pixel
        raise BadRecord(f"the box from ({x1:g}, {y1:g}) to ({x2:g}, {y2:g}) is empty")
    return frame, box_in_image((x1, y1, x2 + 1, y2 + 1), (FRAME_WIDTH, math.inf))


def _found(root: Path, name: str) -> str:
    """Relative path of a file: in ``data``, as in the repository, or in the root."""
    return f"data/{name}" if (root / "data" / name).is_file() else name


def _frame_folder(root: Path) -> str:
    return next((name for name in _FRAME_FOLDERS if (root / name).is_dir()), _FRAME_FOLDERS[0])
