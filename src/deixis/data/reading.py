"""Read annotation files with size limits and with error messages that give the file and line.

There are two kinds of errors. :class:`BadFile`: the file cannot be used. It is a :class:`DeixisError` with a
:class:`Skipped` entry, for loaders that can continue without the file. :class:`BadRecord`: one record of a file is
invalid. The loader catches it, adds a :class:`Skipped` entry and continues with the next record.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import re
import reprlib
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn
from xml.parsers import expat

from deixis import files
from deixis.data.sample import Skipped
from deixis.errors import DeixisError
from deixis.types import Box

MAX_JSON = 4 * 2**30
"""Maximum size in bytes; the largest official file (Visual Genome's scene graphs) is smaller."""
MAX_TEXT = 512 * 2**20
MAX_ROW_LINES = 100  # maximum lines of a table row; quoted fields may contain line breaks
MAX_XML = 16 * 2**20
MAX_XML_DEPTH = 64

_REPR = reprlib.Repr()
_REPR.maxstring = 60


class BadFile(DeixisError):
    """A file cannot be used; ``skipped`` has the place and the reason."""

    def __init__(self, path: Path, reason: str, line: int | None = None) -> None:
        self.skipped = Skipped(str(path), reason, line)
        super().__init__(f"{self.skipped}. Correct the file or download it again.")


class BadRecord(ValueError):
    """One record of a file is invalid; the message becomes ``Skipped.reason``."""


# Whole files --------------------------------------------------------------------------------------------------------


def read_text(path: Path, limit: int = MAX_TEXT) -> str:
    """Read a UTF-8 file, without byte order mark and with ``\\n`` as line ends."""
    try:
        with _limited(path, limit), files.open_text(path, limit, "utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        line = files.read_bytes(path, limit)[: error.start].count(b"\n") + 1
        raise BadFile(path, "not UTF-8 text", line) from None


def read_lines(path: Path, limit: int = MAX_TEXT) -> list[tuple[int, str]]:
    """Read the nonblank lines, stripped, each with its number from 1."""
    # split("\n"), not splitlines(): a form feed or U+2028 inside a caption does not end a line.
    lines = enumerate(read_text(path, limit).split("\n"), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def read_json(path: Path, drop: Collection[str] = (), limit: int = MAX_JSON) -> Any:
    """Read a JSON file without the fields in ``drop``, at any depth.

    Dropping fields saves memory: 90 % of COCO's 450 MB of instances are polygons.
    """
    return _parse_json(read_text(path, limit), path, drop)


def read_json_lines(path: Path, skipped: list[Skipped]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a JSON lines file with their line numbers; add invalid lines to ``skipped``."""
    for number, line in read_lines(path):
        try:
            value = _parse_json(line, path, ())
        except BadFile as error:
            skipped.append(Skipped(str(path), error.skipped.reason, number))
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            skipped.append(Skipped(str(path), "not a JSON object", number))


def read_table(path: Path, delimiter: str, skipped: list[Skipped]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a CSV or TSV file with a header, each with the number of its first line.

    Quoted fields may contain line breaks. Column names are stripped and in lower case. A row with another number of
    fields than the header, or with a quote that is not closed within ``MAX_ROW_LINES``, is added to ``skipped``;
    reading continues at the next line. The time is linear in the size of the file, also if every row is invalid.
    """
    header: list[str] = []
    for number, row in _table_rows(path, delimiter, skipped):
        if not any(cell.strip() for cell in row):
            continue
        if not header:
            header = [cell.strip().lower() for cell in row]
        elif len(row) != len(header):
            skipped.append(
                Skipped(str(path), f"expected {len(header)} fields, as in the header, found {len(row)}", number)
            )
        else:
            yield number, dict(zip(header, row, strict=True))


def _table_rows(path: Path, delimiter: str, skipped: list[Skipped]) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table with the numbers of their first lines; add invalid rows to ``skipped``."""
    lines = read_text(path).split("\n")
    at = 0
    while at < len(lines):
        some = (f"{lines[i]}\n" for i in range(at, min(at + MAX_ROW_LINES, len(lines))))
        reader = csv.reader(some, delimiter=delimiter, strict=True)
        try:
            row = next(reader)
            yield at + 1, row
            at += reader.line_num
        except csv.Error as error:
            # An unclosed quote would include all following rows: skip only one line.
            skipped.append(Skipped(str(path), f"invalid row ({error})", at + 1))
            at += 1


@dataclass
class Node:
    """An XML element: tag, text, children, and first line."""

    tag: str
    line: int
    text: str = ""
    children: list[Node] = field(default_factory=list)

    def all(self, tag: str) -> list[Node]:
        """Children with this tag."""
        return [child for child in self.children if child.tag == tag]

    def find(self, tag: str) -> Node | None:
        """First child with this tag, or None."""
        return next((child for child in self.children if child.tag == tag), None)

    def number(self, tag: str) -> float:
        """Finite number in the first child with this tag; raise :class:`BadRecord` if there is none."""
        child = self.find(tag)
        if child is None:
            raise BadRecord(f"<{self.tag}> has no <{tag}>")
        try:
            value = float(child.text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise BadRecord(f"<{tag}> is '{child.text.strip()[:40]}'. Expected a number")
        return value

    def flag(self, tag: str) -> bool:
        """Whether the first child with this tag exists and is 1."""
        child = self.find(tag)
        return child is not None and child.text.strip() == "1"


def read_xml(path: Path) -> Node:
    """Read an XML file and return its root; reject document types and entity declarations."""
    root = Node("", 0)
    stack = [root]
    parser = expat.ParserCreate()

    def start(tag: str, _: Mapping[str, str]) -> None:
        if len(stack) > MAX_XML_DEPTH:
            raise BadFile(path, f"XML elements nested more than {MAX_XML_DEPTH} deep", parser.CurrentLineNumber)
        node = Node(tag, parser.CurrentLineNumber)
        stack[-1].children.append(node)
        stack.append(node)

    def end(_: str) -> None:
        stack.pop()

    def text(data: str) -> None:
        stack[-1].text += data

    def doctype(*_: object) -> NoReturn:
        raise BadFile(path, "a document type declaration is not allowed", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    try:
        # Bytes, not text: the parser uses the encoding declared in the file.
        parser.Parse(read_bytes(path, MAX_XML), True)
    except expat.ExpatError as error:
        raise BadFile(path, f"not well-formed XML ({expat.ErrorString(error.code)})", error.lineno) from None
    return root.children[0]


def read_bytes(path: Path, limit: int) -> bytes:
    """Read a file of at most ``limit`` bytes."""
    with _limited(path, limit):
        return files.read_bytes(path, limit)


def read_packed_json(path: Path, limit: int) -> Any:
    """Read a JSON file, compressed with gzip or not; ``limit`` is its maximum size in both forms."""
    packed = read_bytes(path, limit)
    try:
        if path.suffix == ".gz":
            with gzip.open(io.BytesIO(packed)) as file:
                packed = file.read(limit + 1)
            if len(packed) > limit:
                raise BadFile(path, f"larger than {limit:,} bytes after decompression")
        return json.loads(packed)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise BadFile(path, f"invalid JSON ({error})") from None


@contextmanager
def _limited(path: Path, limit: int) -> Iterator[None]:
    """Context for reading a file: raise an error if it is missing, unreadable, not a regular file or too large."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise BadFile(path, "a pipe, device or socket. Expected a regular file")
        if found.st_size > limit:
            raise BadFile(path, f"{found.st_size:,} bytes, more than the limit of {limit:,} for this kind of file")
        yield
    except FileNotFoundError:
        raise DeixisError(
            f"{path} does not exist. Run 'deixis data check' on its folder for the source of the file."
        ) from None
    except OSError as error:
        raise BadFile(path, f"cannot be read ({error.strerror or error})") from None


def _parse_json(text: str, path: Path, drop: Collection[str]) -> Any:
    def without(record: dict[str, Any]) -> dict[str, Any]:
        for name in drop:
            record.pop(name, None)
        return record

    try:
        return json.loads(text, object_hook=without if drop else None, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise BadFile(path, f"not valid JSON ({error.msg.lower()} at column {error.colno})", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise BadFile(path, f"not usable JSON ({str(error) or type(error).__name__})") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


# Fields of a record -------------------------------------------------------------------------------------------------


def get(record: Any, name: str) -> Any:
    """Field of a JSON object; raise :class:`BadRecord` if it is missing or the record is not an object."""
    if not isinstance(record, dict):
        raise BadRecord(f"expected a JSON object, got {brief(record)}")
    if record.get(name) is None:
        raise BadRecord(f'the field "{name}" is missing')
    return record[name]


def get_text(record: Any, name: str) -> str:
    """Nonblank string field, stripped."""
    value = get(record, name)
    if not isinstance(value, str):
        raise BadRecord(f'"{name}" is {brief(value)}. Expected a string')
    if not value.strip():
        raise BadRecord(f'"{name}" is empty')
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can contain a lone surrogate, which cannot be encoded
        raise BadRecord(f'"{name}" is {brief(value)}, with an invalid character (lone surrogate)') from None
    return value.strip()


def get_int(record: Any, name: str) -> int:
    """Integer field; ``12.0`` is accepted too, because some converters write it."""
    value = get(record, name)
    if not _finite(value) or value != int(value):
        raise BadRecord(f'"{name}" is {brief(value)}. Expected an integer')
    return int(value)


def get_list(record: Any, name: str) -> list[Any]:
    """List field."""
    value = get(record, name)
    if not isinstance(value, list):
        raise BadRecord(f'"{name}" is {brief(value)}. Expected a list')
    return value


def get_numbers(record: Any, name: str, count: int) -> list[float]:
    """List field of exactly ``count`` finite numbers, such as a box."""
    value = get_list(record, name)
    if len(value) != count or not all(map(_finite, value)):
        raise BadRecord(f'"{name}" is {brief(value)}. Expected {count} numbers')
    return [float(x) for x in value]


def get_size(record: Any) -> tuple[int, int]:
    """Fields ``width`` and ``height``, both at least 1."""
    width, height = get_int(record, "width"), get_int(record, "height")
    if min(width, height) < 1:
        raise BadRecord(f"invalid image size {width} x {height}")
    return width, height


def box_in_image(corners: Sequence[float], size: tuple[float, float]) -> Box:
    """Clip the box ``x1, y1, x2, y2`` to the image; raise :class:`BadRecord` if it becomes empty."""
    (x1, y1, x2, y2), (width, height) = corners, size
    left, top, right, bottom = max(x1, 0.0), max(y1, 0.0), min(x2, float(width)), min(y2, float(height))
    if left >= right or top >= bottom:
        raise BadRecord(f"the box from ({x1:g}, {y1:g}) to ({x2:g}, {y2:g}) is empty or outside the image")
    return left, top, right, bottom


def good_records(records: Any, path: Path, kind: str, use: Callable[[Any], None], skipped: list[Skipped]) -> None:
    """Call ``use`` for each record of a JSON list; add records that raise :class:`BadRecord` to ``skipped``.

    The reason starts with, e.g., "annotation 12: ", the index of the record from 0. Such files have only one line.
    """
    if not isinstance(records, list):
        raise BadFile(path, f"expected a list of {kind} records")
    for index, record in enumerate(records):
        try:
            with record_errors():
                use(record)
        except BadRecord as error:
            skipped.append(Skipped(str(path), f"{kind} {index}: {error}"))


@contextmanager
def record_errors() -> Iterator[None]:
    """Convert errors caused by an unexpected structure of a record to :class:`BadRecord`."""
    try:
        yield
    except BadRecord:
        raise
    except (AttributeError, TypeError, LookupError, ValueError, ArithmeticError) as error:
        raise BadRecord(f"unexpected structure ({type(error).__name__}: {str(error)[:80]})") from None


def _finite(value: Any) -> bool:
    # A comparison, not math.isfinite, which fails for integers too large for a float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63


def brief(value: Any) -> str:
    """Return a short form of a value for messages; the value may have millions of items, or contain itself."""
    text = _REPR.repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# File names in records ----------------------------------------------------------------------------------------------


def plain_name(name: str) -> str:
    """Check that a name is a file name without a folder; raise :class:`BadRecord` otherwise."""
    if not re.fullmatch(r"[^/\\\0]+", name) or name in (".", ".."):
        raise BadRecord(f"{brief(name)} is not a file name without a folder")
    return name


def inside(root: Path, name: str) -> Path:
    """Path of a file below ``root``; raise :class:`BadRecord` if it leaves ``root``, also by symbolic links.

    ``name`` is relative to ``root`` (either kind of slash) or absolute. The file need not exist.
    """
    given = PurePosixPath(name.replace("\\", "/"))
    if "\0" in name or ".." in given.parts:
        raise BadRecord(f"the path {brief(name)} contains '..' or a null character")
    real_root = os.path.realpath(root)
    real = os.path.realpath(root / given)
    if os.path.commonpath([real_root, real]) != real_root:
        raise BadRecord(f"the path {brief(name)} is outside the folder")
    return root / (os.path.relpath(real, real_root) if given.is_absolute() else given)
