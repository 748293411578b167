"""CSV export: one row per box, or per caption without a box.

Boxes are x1, y1, x2, y2 in pixels, 0-based, end-exclusive. A row with a caption is a grounding of the words [start,
end). A row without a caption is a phrase prediction. Texts that a spreadsheet would evaluate as a formula are written
with an apostrophe before them; reading removes it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deixis.data.reading import BadRecord, get_numbers, read_table
from deixis.data.sample import Skipped
from deixis.exports.picture import Answer, Picture, PictureBuilder, Size, box_of, place, sentence
from deixis.files import atomic_path
from deixis.language.tokenise import tokens
from deixis.types import GroundedCaption, Grounding

COLUMNS = (
    *("image", "width", "height", "number", "caption", "phrase", "start", "end"),
    *("x1", "y1", "x2", "y2", "score", "model", "logprob"),
)

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""Start of a cell that a spreadsheet would evaluate as a formula, with any apostrophes before it."""

Row = dict[str, str]


def write(pictures: Sequence[Picture], out: Path) -> None:
    """Write the CSV file."""
    with atomic_path(out) as tmp_path, tmp_path.open("w", encoding="utf-8", newline="") as file:
        writer = _SafeWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for picture in pictures:
            about: dict[str, object] = {"image": picture.image}
            about |= dict(zip(("width", "height"), picture.size or (), strict=False))
            for number, caption in enumerate(picture.captions):
                row = about | {"number": number, "caption": sentence(caption), "model": caption.model}
                row |= {} if caption.logprob is None else {"logprob": caption.logprob}
                writer.writerows([row | _place(g) | {"start": g.start, "end": g.end} for g in caption.groundings])
                if not caption.groundings:
                    writer.writerow(row)
            for answer in picture.answers:
                position = {"number": answer.caption, "start": answer.start, "model": answer.model}
                writer.writerow(about | position | _place(answer.grounding))


class _SafeWriter(csv.DictWriter):  # type: ignore[type-arg]  # no parameters at run time
    """CSV writer that adds an apostrophe to cells that start like a formula."""

    def writerow(self, row: Mapping[str, object]) -> object:
        """Write one row."""
        return super().writerow({name: _neutral(value) for name, value in row.items()})

    def writerows(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Write several rows."""
        for row in rows:
            self.writerow(row)


def _neutral(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _original(text: str) -> str:
    """Undo :func:`_neutral`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def _place(grounding: Grounding) -> dict[str, object]:
    corners = dict(zip(("x1", "y1", "x2", "y2"), grounding.box, strict=True))
    return {"phrase": grounding.text, "score": grounding.score, **corners}


def read(path: Path, skipped: list[Skipped]) -> list[Picture]:
    """Read a CSV file; the columns ``image`` and either ``caption`` or ``phrase`` with its box are required."""
    builder = PictureBuilder()
    captions: dict[tuple[str, str, str], tuple[int, GroundedCaption]] = {}  # with its first line
    for line, cells in read_table(path, ",", skipped):
        row = {name: _original(text) for name, text in cells.items()}
        try:
            image, size = _image(row), _size(row)
            builder.add_image(image, size)
            if row.get("phrase") and not row.get("caption"):
                answer = Answer(_grounding(row), row.get("model", ""), _number(row, "number"), _number(row, "start"))
                builder.add_answer(image, answer, size)
                continue
            key = image, row.get("number", ""), row.get("caption", "")
            first, caption = captions.get(key) or (line, _caption(row, image, size))
            if row.get("phrase"):
                span = _number(row, "start") or 0, _number(row, "end") or 0
                grounding = place(_grounding(row), caption.words, *span)
                caption = replace(caption, groundings=(*caption.groundings, grounding))
            captions[key] = first, caption
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), line))
    for line, caption in captions.values():
        try:
            builder.add_caption(caption)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), line))
    return builder.pictures()


def _image(row: Row) -> str:
    if not row.get("image"):
        raise BadRecord("the field image is empty")
    return row["image"]


def _size(row: Row) -> Size | None:
    width, height = _number(row, "width"), _number(row, "height")
    return (width, height) if width and height else None


def _caption(row: Row, image: str, size: Size | None) -> GroundedCaption:
    width, height = size or (0, 0)
    logprob = _float(row, "logprob") if row.get("logprob") else None
    text = row.get("caption", "")
    return GroundedCaption(tokens(text), (), logprob, image, width, height, row.get("model", ""), text)


def _grounding(row: Row) -> Grounding:
    score = _float(row, "score") if row.get("score") else 1.0
    return Grounding(row["phrase"], box_of(_float(row, name) for name in ("x1", "y1", "x2", "y2")), score)


def _number(row: Row, name: str) -> int | None:
    text = row.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal():
        raise BadRecord(f"{name} is '{text[:40]}'. Expected an integer >= 0")
    return int(text)


def _float(row: Row, name: str) -> float:
    try:
        return get_numbers({name: [float(row.get(name, ""))]}, name, 1)[0]
    except ValueError:
        raise BadRecord(f"{name} is '{row.get(name, '')[:40]}'. Expected a number") from None
