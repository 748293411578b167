"""Read an uploaded photograph from a request body, which :mod:`deixis.serve.guard` bounds; it stays in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from deixis.serve.problems import ProblemError


@dataclass(frozen=True)
class UploadLimits:
    """Bounds of request bodies."""

    bytes: int = 20_000_000  # of one body
    seconds: float = 30.0  # until a body is complete
    open: int = 64  # incomplete bodies at once; the oldest is dropped for a new one


PARTS = 16  # of a form; each costs more memory than the few bytes it may have


async def read_photo(request: Request) -> bytes:
    """The photograph or clip: the body itself (``image/*``, ``video/*``), or the part ``image`` of a form."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary")
    if not (
        kind.startswith((b"image/", b"video/")) or kind == b"application/octet-stream" or kind == b"multipart/form-data"
    ):
        raise ProblemError(
            415, "send the photograph or clip as the body (image/jpeg, video/mp4, ...) or as multipart/form-data."
        )
    if kind == b"multipart/form-data" and not boundary:
        raise ProblemError(422, "the Content-Type of a multipart body must name its boundary.")
    try:
        body = await request.body()
    except ClientDisconnect:
        raise ProblemError(400, "the upload was interrupted. Send it again.") from None
    photo = image_part(body, boundary) if boundary and kind == b"multipart/form-data" else body
    if not photo:
        raise ProblemError(422, "the body has no photograph.")
    return photo


@dataclass
class _Part:
    headers: dict[bytes, bytes] = field(default_factory=dict)
    name: bytearray = field(default_factory=bytearray)  # of the header that is being read, and its value
    value: bytearray = field(default_factory=bytearray)
    data: bytearray = field(default_factory=bytearray)

    def end_header(self) -> None:
        self.headers[bytes(self.name).lower()] = bytes(self.value)
        self.name, self.value = bytearray(), bytearray()

    def is_image(self) -> bool:
        _, options = parse_options_header(self.headers.get(b"content-disposition"))
        return options.get(b"name") == b"image"


def image_part(body: bytes, boundary: bytes) -> bytes:
    """Return the content of the part ``image``; empty if there is none."""
    parts: list[_Part] = []

    def begin() -> None:
        if len(parts) == PARTS:
            raise FormParserError(f"more than {PARTS} parts")
        parts.append(_Part())

    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": begin,
                "on_header_field": lambda data, start, end: parts[-1].name.extend(data[start:end]),
                "on_header_value": lambda data, start, end: parts[-1].value.extend(data[start:end]),
                "on_header_end": lambda: parts[-1].end_header(),
                "on_part_data": lambda data, start, end: parts[-1].data.extend(data[start:end]),
            },
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise ProblemError(422, f"the multipart body cannot be read ({error}).") from None
    return next((bytes(part.data) for part in parts if part.is_image()), b"")
