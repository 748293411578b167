"""The shapes of requests and answers, for the OpenAPI description; the answers themselves are those of ``types.py``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import BaseModel

Box = Annotated[list[float], Len(4, 4)]
Point = Annotated[list[float], Len(2, 2)]


class Heat(BaseModel):
    """Weights on a grid that covers the image (width x height pixels) evenly."""

    width: int
    height: int
    grid: list[list[float]]


class WordGrounding(BaseModel):
    """A word or phrase of a caption, ``words[start:end]``, and its place."""

    word: str
    start: int
    end: int
    box: Box
    score: float
    parts: list[Box]
    point: Point | None = None
    heat: Heat | None = None


class FavouriteBox(BaseModel):
    """A box that a branch looked at, and the share of its attention."""

    box: Box
    weight: float


class Branch(BaseModel):
    """Where one branch looked; ``voted`` says whether it would have said the word."""

    voted: bool
    boxes: list[FavouriteBox]
    heat: Heat


class Step(BaseModel):
    """A word of the caption, and where each branch looked when it was said."""

    word: str
    branches: list[Branch]


class GroundedSentence(BaseModel):
    """A sentence whose words have places in the photograph."""

    image: str
    width: int
    height: int
    caption: str
    words: list[str]
    groundings: list[WordGrounding]
    logprob: float | None
    model: str


class Captioned(GroundedSentence):
    """A caption in which every noun has its place; ``steps`` where they were asked for.

    ``sure`` is false where the sentence would be about as likely if there were nothing to see, is about a thing that no
    classifier sees, is taken for the caption of another photograph, or the picture is unlike all photographs; ``plain``
    is true where a plain sentence names what a classifier sees instead; ``note`` says each in words, and is empty
    otherwise.
    """

    sure: bool
    plain: bool
    note: str
    steps: list[Step] | None = None


class PhraseGrounding(BaseModel):
    """A phrase and its place; it counts as found from the threshold on."""

    phrase: str
    box: Box
    point: Point
    score: float
    model: str
    found: bool
    heat: Heat | None = None


class Grounded(BaseModel):
    """The phrases in the order in which they were asked for."""

    width: int
    height: int
    threshold: float
    groundings: list[PhraseGrounding]


class CheckedCaption(GroundedSentence):
    """A caption held against a photograph; ``doubtful`` are its phrases with a score below the threshold."""

    match: float | None
    doubtful: list[str]
    threshold: float


class ModelInfo(BaseModel):
    """A model that is loaded."""

    name: str
    does: list[Literal["caption", "ground", "check"]]
    branches: int | None
    extractor: str | None


class Models(BaseModel):
    """The models that are loaded; the first that can do a thing does it where none is named."""

    models: list[ModelInfo]


class Health(BaseModel):
    """Whether requests are taken, and how many are under way."""

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
"""What the three POST routes are sent."""

_TOLD = {
    400: "The upload broke off.",
    403: "The request comes from a page of another site.",
    404: "No such model is loaded.",
    408: "The photograph took too long to arrive.",
    413: "The photograph has too many bytes or pixels.",
    415: "The body is neither an image nor a form.",
    421: "The Host header is not a name of this server.",
    422: "The photograph cannot be read, or a parameter is wrong.",
    503: "Too many requests are under way; Retry-After says when to come again.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The descriptions of what may go wrong."""
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": _TOLD[status], "content": {"application/problem+json": schema}} for status in statuses
    }
