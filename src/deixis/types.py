"""Value types: what vision makes, what models answer, what drawing, metrics and pages take.

Boxes follow the one convention of :mod:`deixis.boxes`. All types are frozen; arrays inside them are not copied.
"""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.errors import DeixisError

Box = tuple[float, float, float, float]
Place = Literal["attention", "vote"]
"""Box rules for attention over regions: the region with the most attention, or the one with the most votes."""
HeatPlace = Literal["heat", "alpha", "threshold"]
"""Box rules for heat maps: the best region by our rule or by AMC's, or the box around the hottest connected area."""
SCHEMA = 3
"""Version of the JSON of captions and groundings; raised when a field is added."""
Point = tuple[float, float]
Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Labels:
    """The k best classes of each region, best first: ``ids [N, k]`` into ``names``, ``probs [N, k]``."""

    ids: npt.NDArray[np.integer]
    probs: npt.NDArray[np.floating]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.ids.ndim != 2 or self.ids.shape != self.probs.shape:
            raise ValueError(f"class ids {self.ids.shape} and probabilities {self.probs.shape} must both be [N, k]")
        if self.ids.size and not 0 <= self.ids.min() <= self.ids.max() < len(self.names):
            raise ValueError(f"a class id lies outside the {len(self.names)} class names")

    def __len__(self) -> int:
        return len(self.ids)

    def best(self, region: int) -> tuple[str, float]:
        """Name and probability of the region's best class."""
        return self.names[int(self.ids[region, 0])], float(self.probs[region, 0])

    def select(self, rows: npt.ArrayLike) -> Labels:
        """The labels of some regions, by index or mask."""
        return Labels(self.ids[np.asarray(rows)], self.probs[np.asarray(rows)], self.names)


@dataclass(frozen=True, eq=False)
class ByteGrid:
    """Features of an image on a regular grid as bytes: ``scale * (values - zero)``.

    The outer cells are centred on the outer pixels of the image.
    """

    values: npt.NDArray[np.uint8]  # [h, w, D]
    scale: float
    zero: int

    def __post_init__(self) -> None:
        if self.values.ndim != 3 or 0 in self.values.shape or self.values.dtype != np.uint8:
            raise ValueError(f"a grid must be [h, w, D] uint8, not {self.values.shape} {self.values.dtype}")


@dataclass(frozen=True, eq=False)
class Regions:
    """Boxes and features of one photograph, or of the sampled frames of one video segment."""

    boxes: npt.NDArray[np.floating]  # [N, 4] pixels of the original image
    features: npt.NDArray[np.floating]  # [N, D]
    size: tuple[int, int]  # width, height of the original image
    scores: npt.NDArray[np.floating] | None = None  # [N] the proposal method's own score, higher is better
    labels: Labels | None = None
    frames: npt.NDArray[np.integer] | None = None  # [N] frame of each region; None for a photograph
    grid: npt.NDArray[np.floating] | None = None  # [H, W, D'] (a video: [F, H, W, D']) feature grid of the whole image
    extractor: str = ""  # which extractor made this; a model refuses regions of another one
    class_probs: npt.NDArray[np.floating] | None = None  # [N, C] probabilities of all classes of the source
    class_names: tuple[str, ...] = ()  # [C] their names; empty where the source has no class probabilities
    image_vector: npt.NDArray[np.floating] | None = None  # [V] feature of the whole image or video
    maps: tuple[ByteGrid, ...] = ()  # grids of which features of other boxes can be pooled; empty if not kept
    temporal: npt.NDArray[np.floating] | None = None  # [T, R] features of the whole video over time
    segment: tuple[float, float, float, float] | None = None  # of a video: number, count, start and end / duration

    def __post_init__(self) -> None:
        n = len(self.boxes)
        if self.boxes.shape != (n, 4):
            raise ValueError(f"boxes have shape {self.boxes.shape}, expected [N, 4]")
        if self.features.ndim != 2:
            raise ValueError(f"features have shape {self.features.shape}, expected [N, D]")
        for name in ("features", "scores", "labels", "frames", "class_probs"):
            part = getattr(self, name)
            if part is not None and len(part) != n:
                raise ValueError(f"{len(part)} {name} for {n} boxes")
        if min(self.size) < 1:
            raise ValueError(f"image size {self.size} is empty")
        if self.grid is not None and self.grid.ndim not in (3, 4):
            raise ValueError(f"the feature grid has shape {self.grid.shape}, expected [H, W, D] or [F, H, W, D]")
        classes = 0 if self.class_probs is None else self.class_probs.shape[-1]
        if (self.class_probs is not None and self.class_probs.ndim != 2) or classes != len(self.class_names):
            shape = None if self.class_probs is None else self.class_probs.shape
            raise ValueError(f"class probabilities have shape {shape}, expected [N, {len(self.class_names)}]")
        if self.image_vector is not None and self.image_vector.ndim != 1:
            raise ValueError(f"the image vector has shape {self.image_vector.shape}, expected [V]")
        if self.temporal is not None and (self.temporal.ndim != 2 or 0 in self.temporal.shape):
            raise ValueError(f"the temporal features have shape {self.temporal.shape}, expected [T, R]")
        if self.segment is not None and not 0 <= self.segment[2] < self.segment[3]:
            raise ValueError(f"the segment from {self.segment[2]} to {self.segment[3]} of the video is empty")

    def __len__(self) -> int:
        return len(self.boxes)

    def select(self, rows: npt.ArrayLike) -> Regions:
        """Some of the regions, by index or mask; grid, vectors of the whole, size and extractor stay."""
        index = np.asarray(rows)
        return Regions(
            boxes=self.boxes[index],
            features=self.features[index],
            size=self.size,
            scores=None if self.scores is None else self.scores[index],
            labels=None if self.labels is None else self.labels.select(index),
            frames=None if self.frames is None else self.frames[index],
            grid=self.grid,
            extractor=self.extractor,
            class_probs=None if self.class_probs is None else self.class_probs[index],
            class_names=self.class_names,
            image_vector=self.image_vector,
            maps=self.maps,
            temporal=self.temporal,
            segment=self.segment,
        )

    def frame(self, number: int) -> Regions:
        """The regions of one frame of a clip, as those of a photograph."""
        if self.frames is None:
            raise ValueError("these are regions of a photograph, which has no frames")
        grid = None if self.grid is None else self.grid[number]
        return replace(self.select(self.frames == number), frames=None, grid=grid, temporal=None, segment=None)


def require_extractor(found: str, wanted: str, source: str = "these regions") -> None:
    """Raise an error that names both extractors if they differ."""
    if found != wanted:
        raise DeixisError(
            f"{source} are from the extractor {found or '(unknown)'}, but the model expects {wanted}. "
            "Extract the regions again with that extractor, or choose another model."
        )


@dataclass(frozen=True)
class Phrase:
    """Words of a caption that name something: ``caption.tokens[start:end]``."""

    text: str
    start: int
    end: int
    head: str = ""  # head noun, lower case, as written
    entity: str | None = None  # id of the entity it refers to, the same for all captions of an image
    types: tuple[str, ...] = ()  # the data set's types, e.g. ("people",)
    lemma: str = field(default="", compare=False)  # of the head noun
    plural: bool = field(default=False, compare=False)  # it names several things: "two dogs"

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"phrase '{self.text}' has the token span {self.start}..{self.end}")


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Where in the image something is: non-negative weights on a grid that covers the whole image evenly."""

    grid: npt.NDArray[np.floating]  # [H, W]
    size: tuple[int, int]  # width, height of the image

    def __post_init__(self) -> None:
        if self.grid.ndim != 2 or 0 in self.grid.shape:
            raise ValueError(f"a heat map is [H, W] with at least one cell, this one has shape {self.grid.shape}")

    def at_image_size(self) -> npt.NDArray[np.float32]:
        """The map ``[height, width]``, bilinear between the centres of the cells, level beyond the outer ones."""
        width, height = self.size
        rows, columns = self.grid.shape
        y = np.clip((np.arange(height) + 0.5) * rows / height - 0.5, 0, rows - 1)
        x = np.clip((np.arange(width) + 0.5) * columns / width - 0.5, 0, columns - 1)
        y0, x0 = np.floor(y).astype(int), np.floor(x).astype(int)
        y1, x1 = np.minimum(y0 + 1, rows - 1), np.minimum(x0 + 1, columns - 1)
        fy, fx = (y - y0)[:, None], (x - x0)[None, :]
        grid = self.grid.astype(np.float64)
        top = grid[y0][:, x0] * (1 - fx) + grid[y0][:, x1] * fx
        bottom = grid[y1][:, x0] * (1 - fx) + grid[y1][:, x1] * fx
        return (top * (1 - fy) + bottom * fy).astype(np.float32)

    def argmax(self) -> Point:
        """Centre (x, y), in image pixels, of the hottest cell (the first in reading order if several are)."""
        rows, columns = self.grid.shape
        row, column = np.unravel_index(int(self.grid.argmax()), self.grid.shape)
        width, height = self.size
        return (float(column) + 0.5) * width / columns, (float(row) + 0.5) * height / rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeatMap) and self.size == other.size and np.array_equal(self.grid, other.grid)

    def to_json(self) -> Json:
        """``{"width", "height", "grid": [[...], ...]}``."""
        return {"width": self.size[0], "height": self.size[1], "grid": self.grid.astype(float).tolist()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> HeatMap:
        """The inverse of :meth:`to_json` (the grid comes back as float64)."""
        size = _int(value, "width"), _int(value, "height")
        if min(size) < 1:
            raise DeixisError(f"the size of a heat map must be positive, not {size[0]} x {size[1]}.")
        return cls(_grid(_get(value, "grid")), size)


@dataclass(frozen=True, eq=False)
class AttentionTrace:
    """Attention of every branch at every word of a sentence."""

    attention: npt.NDArray[np.float32]  # [words, K, N]
    branch_mask: npt.NDArray[np.bool_]  # [words, K] the branches that predicted the word
    boxes: npt.NDArray[np.floating]  # [N, 4] of the regions
    size: tuple[int, int]  # width, height of the image
    frames: npt.NDArray[np.integer] | None = None  # [N] frame of each region of a clip; None for a photograph


@dataclass(frozen=True, eq=False)
class Candidate:
    """A sentence that a captioner generated, or that it was made to generate."""

    words: tuple[str, ...]
    logprob: float | None  # natural log of its probability, the end token included; None for a template
    score: float  # logprob / length ** length_power, by which a beam is ordered
    trace: AttentionTrace
    groundings: tuple[Grounding, ...] = ()  # boxes that belong to the sentence, of a template


@dataclass(frozen=True)
class RerankWeights:
    """Weights of a grounder's scores beside a candidate's own score."""

    caption: float  # of the match score of the whole sentence
    weakest_phrase: float = 0.0  # of the log-probability of the noun phrase that is least likely present


@dataclass(frozen=True)
class FrameBox:
    """The place of a word or phrase in one sampled frame of a clip."""

    frame: int
    time: float  # seconds from the start of the file
    box: Box
    score: float
    parts: tuple[Box, ...] = ()  # the boxes of this frame that were merged into `box`
    shown: bool = True  # whether people see it: the word is probably present in the frame

    def to_json(self) -> Json:
        """Return ``{"frame", "time", "box", "score", "parts", "shown"}``."""
        return {
            "frame": self.frame,
            "time": self.time,
            "box": list(self.box),
            "score": self.score,
            "parts": [list(part) for part in self.parts],
            "shown": self.shown,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FrameBox:
        """Return the box that :meth:`to_json` wrote."""
        shown = _get(value, "shown")
        if not isinstance(shown, bool):
            raise DeixisError(f'the field "shown" must be true or false, not {_brief(shown)}.')
        return cls(
            _int(value, "frame"),
            _float(value, "time"),
            _box(_get(value, "box")),
            _float(value, "score"),
            _boxes(value.get("parts", ())),
            shown,
        )


@dataclass(frozen=True)
class Grounding:
    """A word or a phrase and its place in the image.

    In a clip, ``track`` has its place in every sampled frame, and ``box``, ``parts`` and ``point`` are those of
    ``frame``, its best one. Boxes of different frames are never merged.
    """

    text: str
    box: Box
    score: float
    start: int = 0  # words[start:end] of the caption it belongs to
    end: int = 0
    parts: tuple[Box, ...] = ()  # the boxes that were merged into `box`
    point: Point | None = None  # where to point, inside the box; None: see pointing()
    heat: HeatMap | None = None
    heat_point: Point | None = None  # maximum of the heat map, which may lie outside the box
    head: int | None = None  # index of the phrase's head word in the caption
    pos: str = ""  # "NOUN" or "VERB" for the grounding of a single word
    initial_box: Box | None = None  # the box before regression moved it to `box`
    frame: int | None = None  # frame of the box in a clip; None for a photograph
    time: float | None = None  # of that frame, in seconds from the start of the file
    track: tuple[FrameBox, ...] = ()  # of a clip: one box for each sampled frame with regions
    unknown_word: str = ""  # head word of the phrase if it is in no training caption; the score is then low

    def shown_at(self, frame: int) -> FrameBox | None:
        """Return the box in a frame of a clip that people see; None where there is none."""
        return next((one for one in self.track if one.frame == frame and one.shown), None)

    def pointing(self) -> Point:
        """Return the point (x, y) of this grounding: given, else the heat map's maximum, else the box centre."""
        if self.point is not None:
            return self.point
        if self.heat is not None:
            return self.heat.argmax()
        x, y = geometry.centre(self.box)
        return float(x), float(y)

    def to_json(self) -> Json:
        """Return the entry of a grounded caption: ``{"word", "start", "end", "box", "score", "parts"}``.

        ``point``, ``heat``, ``heat_point``, ``head``, ``pos``, ``initial_box``, ``frame``, ``time``, ``track`` and
        ``unknown_word`` follow where they are set.
        """
        value: Json = {
            "word": self.text,
            "start": self.start,
            "end": self.end,
            "box": list(self.box),
            "score": self.score,
            "parts": [list(part) for part in self.parts],
        }
        names = ("point", "heat", "heat_point", "head", "pos", "initial_box", "frame", "time", "track", "unknown_word")
        return value | self._optional_json(names)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Grounding:
        """Return the grounding that :meth:`to_json` wrote."""
        return cls(
            text=_text(value, "word"),
            start=_int(value, "start"),
            end=_int(value, "end"),
            box=_box(_get(value, "box")),
            score=_float(value, "score"),
            parts=_boxes(value.get("parts", ())),
            **optional_fields(value),
        )

    def to_phrase_json(self, model: str = "") -> Json:
        """Return the answer to a phrase: ``{"phrase", "box", "point", "score", "model"}``, and the optional fields."""
        value: Json = {
            "phrase": self.text,
            "box": list(self.box),
            "point": list(self.pointing()),
            "score": self.score,
            "model": model,
        }
        return value | self._optional_json(
            ("heat", "heat_point", "initial_box", "frame", "time", "track", "unknown_word")
        )

    @classmethod
    def from_phrase_json(cls, value: Mapping[str, Any]) -> Grounding:
        """Return the grounding that :meth:`to_phrase_json` wrote."""
        _get(value, "point")
        return cls(
            text=_text(value, "phrase"),
            box=_box(_get(value, "box")),
            score=_float(value, "score"),
            **optional_fields(value),
        )

    def _optional_json(self, names: tuple[str, ...]) -> Json:
        found: Json = {}
        for name in names:
            value = getattr(self, name)
            if isinstance(value, HeatMap):
                found[name] = value.to_json()
            elif name == "track":
                found |= {name: [one.to_json() for one in value]} if value else {}
            elif isinstance(value, tuple):
                found[name] = list(value)
            elif value not in (None, ""):
                found[name] = value
        return found


@dataclass(frozen=True)
class GroundedCaption:
    """A sentence about one image, with the places of its noun phrases."""

    words: tuple[str, ...]
    groundings: tuple[Grounding, ...] = ()  # of noun phrases
    logprob: float | None = None  # natural log of the sentence's probability under the model
    image: str = ""
    width: int = 0
    height: int = 0
    model: str = ""
    caption: str = field(default="")  # the sentence as shown to people; the joined words where none is given
    word_groundings: tuple[Grounding, ...] = ()  # of single words; empty where `groundings` are of single words
    model_hash: str = ""  # of the weights and configuration that made it
    times: tuple[float, ...] = ()  # of a clip: seconds of its sampled frames; empty for a photograph

    def __post_init__(self) -> None:
        if not self.caption:
            object.__setattr__(self, "caption", " ".join(self.words))
        for grounding in (*self.groundings, *self.word_groundings):
            if not 0 <= grounding.start < grounding.end <= len(self.words):
                raise ValueError(
                    f"grounding '{grounding.text}' spans words {grounding.start}..{grounding.end} "
                    f"of a caption of {len(self.words)} words"
                )

    def nouns(self) -> tuple[Grounding, ...]:
        """Return the groundings that metrics of words read: those of single nouns, else all groundings."""
        return tuple(g for g in self.word_groundings if g.pos != "VERB") or self.groundings

    def all_words(self) -> tuple[Grounding, ...]:
        """Return the groundings of single nouns and verbs, else all groundings."""
        return self.word_groundings or self.groundings

    def to_json(self) -> Json:
        """Return the shape that every verb shares; :meth:`from_json` gives back an equal value."""
        value = {
            "image": self.image,
            "width": self.width,
            "height": self.height,
            "caption": self.caption,
            "words": list(self.words),
            "groundings": [grounding.to_json() for grounding in self.groundings],
            "logprob": self.logprob,
            "model": self.model,
            "word_groundings": [grounding.to_json() for grounding in self.word_groundings],
            "model_hash": self.model_hash,
            "schema": SCHEMA,
        }
        return value | ({"times": list(self.times)} if self.times else {})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GroundedCaption:
        """Return the caption that :meth:`to_json` wrote; a missing or wrong field is named in a :class:`DeixisError`.

        Captions of schema 1 have no ``word_groundings``, ``model_hash`` and ``schema``. Clips came with schema 3.
        """
        words = _get(value, "words")
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DeixisError('the field "words" must be a list of strings.')
        try:
            return cls(
                words=tuple(words),
                groundings=_groundings(_get(value, "groundings"), "groundings"),
                logprob=None if value.get("logprob") is None else _float(value, "logprob"),
                image=_text(value, "image"),
                width=_int(value, "width"),
                height=_int(value, "height"),
                model=str(value.get("model", "")),
                caption=_text(value, "caption"),
                word_groundings=_groundings(value.get("word_groundings", []), "word_groundings"),
                model_hash=str(value.get("model_hash", "")),
                times=_times(value.get("times", [])),
            )
        except ValueError as error:
            raise DeixisError(f"{error}.") from None
        except (KeyError, TypeError, AttributeError):  # of an optional field
            raise DeixisError("not a grounded caption as Deixis writes it.") from None


# Reading JSON: each function names the wrong field -----------------------------------------------------------------


LARGEST = sys.float_info.max
"""Largest number that a float holds; JSON can have whole numbers beyond it."""


def _brief(found: Any) -> str:
    """A short form of a wrong value, for an error."""
    return reprlib.repr(found)


def _groundings(found: Any, name: str) -> tuple[Grounding, ...]:
    if not isinstance(found, list):
        raise DeixisError(f'the field "{name}" must be a list, not {_brief(found)}.')
    return tuple(Grounding.from_json(value) for value in found)


def _boxes(found: Any) -> tuple[Box, ...]:
    if not isinstance(found, list | tuple):
        raise DeixisError(f'the field "parts" must be a list of boxes, not {_brief(found)}.')
    return tuple(_box(part) for part in found)


def _track(found: Any) -> tuple[FrameBox, ...]:
    if not isinstance(found, list):
        raise DeixisError(f'the field "track" must be a list, not {_brief(found)}.')
    return tuple(FrameBox.from_json(value) for value in found)


def _times(found: Any) -> tuple[float, ...]:
    if not isinstance(found, list):
        raise DeixisError(f'the field "times" must be a list of numbers, not {_brief(found)}.')
    return tuple(_number(value, "times") for value in found)


def optional_fields(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the optional fields of a grounding that are set."""
    read: dict[str, Callable[[Any], Any]] = {
        "point": _point,
        "heat_point": _point,
        "heat": HeatMap.from_json,
        "head": lambda found: _int({"head": found}, "head"),
        "pos": lambda found: _text({"pos": found}, "pos"),
        "initial_box": _box,
        "frame": lambda found: _int({"frame": found}, "frame"),
        "time": lambda found: _number(found, "time"),
        "track": _track,
        "unknown_word": lambda found: _text({"unknown_word": found}, "unknown_word"),
    }
    return {name: reader(value[name]) for name, reader in read.items() if value.get(name) is not None}


def _get(value: Mapping[str, Any], name: str) -> Any:
    if not isinstance(value, Mapping) or name not in value:
        raise DeixisError(f'the field "{name}" is missing.')
    return value[name]


def _text(value: Mapping[str, Any], name: str) -> str:
    found = _get(value, name)
    if not isinstance(found, str):
        raise DeixisError(f'the field "{name}" must be a string, not {_brief(found)}.')
    return found


def _int(value: Mapping[str, Any], name: str) -> int:
    found = _get(value, name)
    if isinstance(found, bool) or not isinstance(found, int) or abs(found) >= 2**63:
        raise DeixisError(f'the field "{name}" must be a whole number, not {_brief(found)}.')
    return found


def _float(value: Mapping[str, Any], name: str) -> float:
    return _number(_get(value, name), name)


def _number(found: Any, name: str) -> float:
    # a comparison, not math.isfinite, which fails on whole numbers that are too large for a float
    if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) <= LARGEST:
        raise DeixisError(f'the field "{name}" must be a finite number, not {_brief(found)}.')
    return float(found)


def _box(found: Any) -> Box:
    if not isinstance(found, list | tuple) or len(found) != 4:
        raise DeixisError(f"a box must be four numbers [x1, y1, x2, y2], not {_brief(found)}.")
    x1, y1, x2, y2 = (_number(number, "box") for number in found)
    return x1, y1, x2, y2


def _point(found: Any) -> Point:
    if not isinstance(found, list | tuple) or len(found) != 2:
        raise DeixisError(f"a point must be two numbers [x, y], not {_brief(found)}.")
    return _number(found[0], "point"), _number(found[1], "point")


def _grid(found: Any) -> npt.NDArray[np.float64]:
    try:
        grid = np.array(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        grid = np.zeros(0)
    if grid.ndim != 2 or 0 in grid.shape or not np.isfinite(grid).all():
        raise DeixisError('the field "grid" must be rows of finite numbers, all of one length.')
    return grid
