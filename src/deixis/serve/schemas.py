"""Request and response schemas of the OpenAPI description; the responses themselves are made by ``types.py``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import BaseModel, Field

Box = Annotated[list[float], Len(4, 4)]
Point = Annotated[list[float], Len(2, 2)]
Schema = Annotated[int, Field(alias="schema", description="version of this JSON; raised when a field is added")]
ModelHash = Annotated[str, Field(description="hash of the weights and configurations of the models")]


class Heat(BaseModel):
    """Weights on a regular grid over the image (width x height pixels)."""

    width: int
    height: int
    grid: list[list[float]]


class TrackBox(BaseModel):
    """Box in one sampled frame of a clip; ``shown`` is false where the phrase is probably not present."""

    frame: int
    time: float
    box: Box
    score: float
    parts: list[Box]
    shown: bool


class WordGrounding(BaseModel):
    """A phrase or a word of a caption, ``words[start:end]``, with its box in pixels: x1, y1, x2, y2.

    ``parts`` are boxes that were merged into ``box``; ``point`` lies in the box; ``heat_point`` is the maximum of the
    heat map, which may lie outside; ``head`` is the index of the head word; ``pos`` is NOUN or VERB for a single word.
    In a clip, ``track`` has the box of every sampled frame, and ``box`` is that of ``frame``. ``unknown_word`` is the
    head word of a phrase if it is in no training caption.
    """

    word: str
    start: int
    end: int
    box: Box
    score: float
    parts: list[Box]
    point: Point | None = None
    heat: Heat | None = None
    heat_point: Point | None = None
    head: int | None = None
    pos: str = ""
    frame: int | None = None
    time: float | None = None
    track: list[TrackBox] = []
    unknown_word: str = ""


class AttendedBox(BaseModel):
    """A box with much attention of a branch, and its share of the attention."""

    box: Box
    weight: float


class Branch(BaseModel):
    """Attention of one branch at a word; ``voted``: the branch predicted the word."""

    voted: bool
    boxes: list[AttendedBox]
    heat: Heat


class Step(BaseModel):
    """A word of the caption, and the attention of each branch when it was generated."""

    word: str
    branches: list[Branch]


class GroundedSentence(BaseModel):
    """A sentence with the boxes of its noun phrases (``groundings``) and of single words (``word_groundings``)."""

    image: str
    width: int
    height: int
    caption: str
    words: list[str]
    groundings: list[WordGrounding]
    logprob: float | None
    model: str
    word_groundings: list[WordGrounding]
    model_hash: ModelHash
    schema_: Schema
    times: list[float] = []


class Warning(BaseModel):
    """A reason not to rely on a caption: a short code and a sentence."""

    code: str
    message: str


class Captioned(GroundedSentence):
    """A caption with a box for each noun phrase; ``steps`` are returned if they were asked for.

    ``warnings`` are the results of the checks, the most important first: the image is unlike the training photographs,
    the subject of the sentence was not found, the grounder's match score is low, or the sentence is about as likely
    for a blank image. ``sure`` is false if a warning lowers the confidence. ``plain`` is true if a template that names
    what a classifier found takes the place of the generated sentence. ``note`` is the first warning as a sentence.
    """

    sure: bool
    plain: bool
    note: str
    warnings: list[Warning]
    steps: list[Step] | None = None


class PhraseGrounding(BaseModel):
    """A phrase with its box, and the probability that it is present; ``found`` if that reaches the threshold."""

    phrase: str
    box: Box
    point: Point
    score: float
    model: str
    found: bool
    heat: Heat | None = None
    heat_point: Point | None = None
    frame: int | None = None
    time: float | None = None
    track: list[TrackBox] = []
    unknown_word: str = ""


class Grounded(BaseModel):
    """The phrases in the order of the request."""

    width: int
    height: int
    threshold: float
    groundings: list[PhraseGrounding]
    model_hash: ModelHash
    schema_: Schema


class CheckedCaption(GroundedSentence):
    """A caption checked against a photograph; ``doubtful`` are its phrases with a score below the threshold.

    ``match`` is the probability that the whole caption fits; null if the model has no such score.
    """

    match: float | None
    doubtful: list[str]
    threshold: float


class ModelInfo(BaseModel):
    """A loaded model: the tasks that it does, and the branches of a captioner."""

    name: str
    does: list[Literal["caption", "ground", "check"]]
    branches: int | None
    extractor: str | None
    hash: str


class Models(BaseModel):
    """The loaded models; the first that does a task is used where a request names none."""

    models: list[ModelInfo]


class Health(BaseModel):
    """Whether requests are accepted, and how many are being processed."""

    status: Literal["ok"]
    under_way: int


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


PHOTO: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The photograph or clip: the body itself, or the part `image` of a form.",
        "content": {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "video/*": {"schema": {"type": "string", "format": "binary"}},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"image": {"type": "string", "format": "binary"}},
                    "required": ["image"],
                },
                "encoding": {"image": {"contentType": "image/*"}},
            },
        },
    }
}
"""The request body of the three POST routes."""

_ERRORS = {
    400: "The upload was interrupted.",
    403: "The request comes from a page of another site.",
    404: "No such model is loaded.",
    408: "The upload took too long.",
    413: "The photograph has too many bytes or pixels.",
    415: "The body is neither an image nor a form.",
    421: "The Host header is not a name of this server.",
    422: "The photograph cannot be read, or a parameter is wrong.",
    503: "Too many requests are being processed; Retry-After says when to try again.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of these errors."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": _ERRORS[status], "content": {"application/problem+json": schema}} for status in statuses
    }
