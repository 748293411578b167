"""Schemas of requests and answers for OpenAPI; the answers are the JSON of ``types.py``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import BaseModel

Box = Annotated[list[float], Len(4, 4)]
Point = Annotated[list[float], Len(2, 2)]


class Heat(BaseModel):
    """Weights on a regular grid over the image (width x height pixels)."""

    width: int
    height: int
    grid: list[list[float]]


class WordGrounding(BaseModel):
    """A word or phrase of a caption, ``words[start:end]``, and its box."""

    word: str
    start: int
    end: int
    box: Box
    score: float
    parts: list[Box]
    point: Point | None = None
    heat: Heat | None = None


class FavouriteBox(BaseModel):
    """A box and its share of a branch's attention."""

    box: Box
    weight: float


class Branch(BaseModel):
    """Attention of one branch; ``voted``: whether its most probable word is the word of the caption."""

    voted: bool
    boxes: list[FavouriteBox]
    heat: Heat


class Step(BaseModel):
    """A word of the caption and the attention of each branch at this word."""

    word: str
    branches: list[Branch]


class GroundedSentence(BaseModel):
    """A sentence whose noun phrases have boxes."""

    image: str
    width: int
    height: int
    caption: str
    words: list[str]
    groundings: list[WordGrounding]
    logprob: float | None
    model: str


class Captioned(GroundedSentence):
    """A grounded caption; ``steps`` if they were requested.

    ``sure`` is false if a check failed: low information gain, a subject that no classifier found, a low match score of
    the grounder, or an out-of-distribution image. ``plain`` is true for a template caption of the classes that were
    found. ``note`` describes the failed checks; it is empty if there are none.
    """

    sure: bool
    plain: bool
    note: str
    steps: list[Step] | None = None


class PhraseGrounding(BaseModel):
    """A phrase and its box; the phrase counts as found if its score is at least the threshold."""

    phrase: str
    box: Box
    point: Point
    score: float
    model: str
    found: bool
    heat: Heat | None = None


class Grounded(BaseModel):
    """The phrases in the order of the request."""

    width: int
    height: int
    threshold: float
    groundings: list[PhraseGrounding]


class CheckedCaption(GroundedSentence):
    """A checked caption; ``doubtful`` are the phrases with a score below the threshold."""

    match: float | None
    doubtful: list[str]
    threshold: float


class ModelInfo(BaseModel):
    """A loaded model."""

    name: str
    does: list[Literal["caption", "ground", "check"]]
    branches: int | None
    extractor: str | None


class Models(BaseModel):
    """The loaded models; a request without a model uses the first suitable one."""

    models: list[ModelInfo]


class Health(BaseModel):
    """Whether requests are accepted, and how many are in progress."""

    status: Literal["ok"]
    under_way: int


class Problem(BaseModel):
    """What is wrong with a request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


PHOTO: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The photograph: the body itself, or the part `image` of a form.",
        "content": {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
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
"""Request body of the three POST routes."""

_DESCRIPTIONS = {
    400: "The upload was interrupted.",
    404: "No such model is loaded.",
    408: "The photograph took too long to arrive.",
    413: "The photograph has too many bytes or pixels.",
    415: "The body is neither an image nor a form.",
    422: "The photograph cannot be read, or a parameter is wrong.",
    503: "Too many requests are in progress; Retry-After is the time until the next attempt.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of these error statuses."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": _DESCRIPTIONS[status], "content": {"application/problem+json": schema}}
        for status in statuses
    }
