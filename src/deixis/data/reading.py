"""Reading files that other people wrote: bounded, never half-read, and every fault named with its file and line.

Two kinds of fault. :class:`BadFile`: nothing of the file can be used. It is a :class:`DeixisError`, and carries the
:class:`Skipped` entry for a loader that can go on without the file. :class:`BadRecord`: one record of a good file is
wrong. The loader catches it, notes a :class:`Skipped` and takes the next record.
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

from deixis.data.sample import Skipped
from deixis.errors import DeixisError
from deixis.types import Box

MAX_JSON = 4 * 2**30
"""Bytes; the largest official file (Visual Genome's scene graphs) stays under it."""
MAX_TEXT = 512 * 2**20
MAX_ROW_LINES = 100  # of a row of a table, whose quoted fields may hold line breaks
MAX_XML = 16 * 2**20
MAX_XML_DEPTH = 64

_REPR = reprlib.Repr()
_REPR.maxstring = 60


class BadFile(DeixisError):
    """A file that cannot be used at all; ``skipped`` says where and why."""

    def __init__(self, path: Path, reason: str, line: int | None = None) -> None:
        self.skipped = Skipped(str(path), reason, line)
        super().__init__(f"{self.skipped}; mend the file or fetch it again.")


class BadRecord(ValueError):
    """One record of a file is wrong; the message says how, in the words that end up in ``Skipped.reason``."""


# Whole files --------------------------------------------------------------------------------------------------------


def read_text(path: Path, limit: int = MAX_TEXT) -> str:
    """The text of a UTF-8 file, its byte order mark dropped and its line ends made ``\\n``."""
    try:
        with _bounded(path, limit), path.open(encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise BadFile(path, "not UTF-8 text", line) from None


def read_lines(path: Path, limit: int = MAX_TEXT) -> list[tuple[int, str]]:
    """The lines that are not blank, stripped, each with its number from 1."""
    # split("\n"), not splitlines(): a form feed or U+2028 inside a caption does not end a line.
    lines = enumerate(read_text(path, limit).split("\n"), start=1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def read_json(path: Path, drop: Collection[str] = (), limit: int = MAX_JSON) -> Any:
    """A JSON file. Members named in ``drop`` are forgotten as soon as they are parsed, at any depth.

    Dropping keeps memory sane where most of a file is of no use here: COCO's 450 MB of instances are 90 % polygons.
    """
    return _parse_json(read_text(path, limit), path, drop)


def read_json_lines(path: Path, skipped: list[Skipped]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON-lines file with their line numbers; a bad line is added to ``skipped``."""
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
    """The rows of a CSV or TSV file with a header, each with the number of the line it begins on.

    Quoted fields may hold line breaks. Column names are stripped and put in lower case. A row that does not fit
    the header, or whose quotes do not close within ``MAX_ROW_LINES``, is added to ``skipped`` and reading continues at
    the next line. The time is linear in the size of the file, also if every row is bad.
    """
    header: list[str] = []
    for number, row in _table_rows(path, delimiter, skipped):
        if not any(cell.strip() for cell in row):
            continue
        if not header:
            header = [cell.strip().lower() for cell in row]
        elif len(row) != len(header):
            skipped.append(Skipped(str(path), f"{len(row)} fields where the header has {len(header)}", number))
        else:
            yield number, dict(zip(header, row, strict=True))


def _table_rows(path: Path, delimiter: str, skipped: list[Skipped]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with the numbers of their first lines; bad rows are added to ``skipped``."""
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
            # A quote that never closes would include every row after it: skip one line only.
            skipped.append(Skipped(str(path), f"not a row of this table ({error})", at + 1))
            at += 1


@dataclass
class Node:
    """An XML element: its tag, its own text, its children, and the line it begins on."""

    tag: str
    line: int
    text: str = ""
    children: list[Node] = field(default_factory=list)

    def all(self, tag: str) -> list[Node]:
        """The children of that tag."""
        return [child for child in self.children if child.tag == tag]

    def find(self, tag: str) -> Node | None:
        """The first child of that tag, or None."""
        return next((child for child in self.children if child.tag == tag), None)

    def number(self, tag: str) -> float:
        """The finite number inside the first child of that tag; a :class:`BadRecord` when there is none."""
        child = self.find(tag)
        if child is None:
            raise BadRecord(f"<{self.tag}> has no <{tag}>")
        try:
            value = float(child.text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise BadRecord(f"<{tag}> is '{child.text.strip()[:40]}', not a number")
        return value

    def flag(self, tag: str) -> bool:
        """Whether the first child of that tag is there and says 1."""
        child = self.find(tag)
        return child is not None and child.text.strip() == "1"


def read_xml(path: Path) -> Node:
    """The root of an XML file. A document type, and with it every entity declaration, is refused."""
    root = Node("", 0)
    stack = [root]
    parser = expat.ParserCreate()

    def start(tag: str, _: Mapping[str, str]) -> None:
        if len(stack) > MAX_XML_DEPTH:
            raise BadFile(path, f"more than {MAX_XML_DEPTH} elements inside each other", parser.CurrentLineNumber)
        node = Node(tag, parser.CurrentLineNumber)
        stack[-1].children.append(node)
        stack.append(node)

    def end(_: str) -> None:
        stack.pop()

    def text(data: str) -> None:
        stack[-1].text += data

    def doctype(*_: object) -> NoReturn:
        raise BadFile(path, "a document type declaration, which no annotation needs", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler = doctype
    try:
        # Bytes, not text: the file's own encoding declaration holds.
        parser.Parse(read_bytes(path, MAX_XML), True)
    except expat.ExpatError as error:
        raise BadFile(path, f"not well-formed XML ({expat.ErrorString(error.code)})", error.lineno) from None
    return root.children[0]


def read_bytes(path: Path, limit: int) -> bytes:
    """The bytes of a file that has no more than ``limit`` of them."""
    with _bounded(path, limit):
        return path.read_bytes()


def read_packed_json(path: Path, limit: int) -> Any:
    """A JSON file that may be packed with gzip; ``limit`` is the most bytes of it, packed and unpacked."""
    packed = read_bytes(path, limit)
    try:
        if path.suffix == ".gz":
            with gzip.open(io.BytesIO(packed)) as file:
                packed = file.read(limit + 1)
            if len(packed) > limit:
                raise BadFile(path, f"over the limit of {limit:,} bytes once unpacked")
        return json.loads(packed)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise BadFile(path, f"not readable as JSON ({error})") from None


@contextmanager
def _bounded(path: Path, limit: int) -> Iterator[None]:
    """Read a file inside this block; one that is absent, unreadable, irregular or too large is named in the error."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
            raise BadFile(path, "a pipe, device or socket, not a regular file")
        if found.st_size > limit:
            raise BadFile(path, f"{found.st_size:,} bytes, over the limit of {limit:,} for this kind of file")
        yield
    except FileNotFoundError:
        raise DeixisError(
            f"{path} does not exist; 'deixis data check' on its folder says where it comes from."
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
    """A member of a JSON object; a :class:`BadRecord` when the record is no object or has no such member."""
    if not isinstance(record, dict):
        raise BadRecord(f"an object was expected, not {_brief(record)}")
    if record.get(name) is None:
        raise BadRecord(f'the field "{name}" is missing')
    return record[name]


def get_text(record: Any, name: str) -> str:
    """A string that is not blank, stripped."""
    value = get(record, name)
    if not isinstance(value, str):
        raise BadRecord(f'"{name}" is {_brief(value)}, not text')
    if not value.strip():
        raise BadRecord(f'"{name}" is empty')
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can escape half a character, which no file name or page can hold
        raise BadRecord(f'"{name}" is {_brief(value)}, with half a character in it') from None
    return value.strip()


def get_int(record: Any, name: str) -> int:
    """A whole number; ``12.0`` passes as well, some converters write it."""
    value = get(record, name)
    if not _finite(value) or value != int(value):
        raise BadRecord(f'"{name}" is {_brief(value)}, not a whole number')
    return int(value)


def get_list(record: Any, name: str) -> list[Any]:
    """A list."""
    value = get(record, name)
    if not isinstance(value, list):
        raise BadRecord(f'"{name}" is {_brief(value)}, not a list')
    return value


def get_numbers(record: Any, name: str, count: int) -> list[float]:
    """A list of exactly ``count`` finite numbers, such as a box."""
    value = get_list(record, name)
    if len(value) != count or not all(map(_finite, value)):
        raise BadRecord(f'"{name}" is {_brief(value)}, not {count} numbers')
    return [float(x) for x in value]


def get_size(record: Any) -> tuple[int, int]:
    """The members ``width`` and ``height``, both at least 1."""
    width, height = get_int(record, "width"), get_int(record, "height")
    if min(width, height) < 1:
        raise BadRecord(f"an image of {width} x {height} pixels")
    return width, height


def box_in_image(corners: Sequence[float], size: tuple[float, float]) -> Box:
    """The box ``x1, y1, x2, y2`` cut to the image; a :class:`BadRecord` where nothing of it is left."""
    (x1, y1, x2, y2), (width, height) = corners, size
    left, top, right, bottom = max(x1, 0.0), max(y1, 0.0), min(x2, float(width)), min(y2, float(height))
    if left >= right or top >= bottom:
        raise BadRecord(f"the box from ({x1:g}, {y1:g}) to ({x2:g}, {y2:g}) is empty or outside its image")
    return left, top, right, bottom


def good_records(records: Any, path: Path, kind: str, use: Callable[[Any], None], skipped: list[Skipped]) -> None:
    """Give each record of a JSON list to ``use``; where it raises :class:`BadRecord`, note it and go on.

    The note reads "annotation 12: ...": such files are one long line, so a record's place is its index from 0.
    """
    if not isinstance(records, list):
        raise BadFile(path, f"a list of {kind} records was expected")
    for index, record in enumerate(records):
        try:
            with record_errors():
                use(record)
        except BadRecord as error:
            skipped.append(Skipped(str(path), f"{kind} {index}: {error}"))


@contextmanager
def record_errors() -> Iterator[None]:
    """Turn the errors of a record with another structure (a list for an object, ...) into :class:`BadRecord`."""
    try:
        yield
    except BadRecord:
        raise
    except (AttributeError, TypeError, LookupError, ValueError, ArithmeticError) as error:
        raise BadRecord(f"of another structure ({type(error).__name__}: {str(error)[:80]})") from None


def _finite(value: Any) -> bool:
    # A comparison, not math.isfinite: it also holds for whole numbers too large to be a float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63


def _brief(value: Any) -> str:
    # Bounded in depth and breadth: what a file holds may be millions of values, or hold itself.
    shown = _REPR.repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


# Names of files that come from a file -------------------------------------------------------------------------------


def plain_name(name: str) -> str:
    """A file name with no folder in it, as image ids must be; anything else is a :class:`BadRecord`."""
    if not re.fullmatch(r"[^/\\\0]+", name) or name in (".", ".."):
        raise BadRecord(f"{_brief(name)} is not a plain file name")
    return name


def inside(root: Path, name: str) -> Path:
    """The path below ``root`` of a file that a record names; it must stay in there even after symbolic links.

    ``name`` is relative to ``root`` (either kind of slash) or absolute. The file need not exist.
    """
    given = PurePosixPath(name.replace("\\", "/"))
    if "\0" in name or ".." in given.parts:
        raise BadRecord(f"the path {_brief(name)} leaves the folder")
    real_root = os.path.realpath(root)
    real = os.path.realpath(root / given)
    if os.path.commonpath([real_root, real]) != real_root:
        raise BadRecord(f"the path {_brief(name)} leads outside the folder")
    return root / (os.path.relpath(real, real_root) if given.is_absolute() else given)
