"""Safe pickle reader for plain values: lists, tuples, dicts, strings, numbers, booleans and None.

A pickle is a program for a stack machine with instructions that import and call Python objects. This reader
implements only the instructions that build plain values. No instruction can import a name, call a function or set an
attribute, so a file cannot run code. The standard library's ``pickle`` is not used: it can reject names, but still
allocates memory as the file requests.

Protocols 0 to 5 are supported. Python 2 strings are decoded as UTF-8, or as Latin-1 if that fails.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deixis.data.reading import BadFile, read_bytes

MAX_PICKLE = 256 * 2**20
"""Maximum file size in bytes; the largest official file (RefCOCO) has about 40 million."""


def load_plain_pickle(path: Path, limit: int = MAX_PICKLE) -> Any:
    """Read the value in the file; raise :class:`BadFile` if it is not a plain value.

    Containers may be shared or contain themselves, as the format allows. Callers must limit their recursion.
    """
    data = read_bytes(path, limit)
    if not data:
        raise BadFile(path, "the file is empty")
    return run(path, Machine(data))


def run(path: Path, machine: Machine) -> Any:
    """Run the pickle of a file; raise :class:`BadFile` if it is refused or corrupt."""
    try:
        return machine.run()
    except Refused as error:
        raise BadFile(path, f"not a pickle of plain values ({error} at byte {machine.opcode_at})") from None
    except (IndexError, KeyError, ValueError, TypeError, OverflowError):
        # Stack or memo underflow, or an invalid number or escape: the file is corrupt.
        raise BadFile(path, f"corrupt pickle (error at byte {machine.opcode_at})") from None


class Refused(Exception):
    """The file has an instruction that is not allowed."""


class Machine:
    """Stack machine that runs the allowed instructions of one pickle."""

    def __init__(self, data: bytes, instructions: Mapping[int, Callable[[Any], None]] | None = None) -> None:
        self.data = data
        self.instructions = INSTRUCTIONS if instructions is None else instructions
        self.at = 0
        self.opcode_at = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # one stack per open mark
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        data, instructions = self.data, self.instructions
        while True:
            self.opcode_at = self.at
            if self.at >= len(data):
                raise Refused("the file ends too early")
            opcode = data[self.at]
            self.at += 1
            if opcode == _STOP:
                return self.stack.pop()
            instruction = instructions.get(opcode)
            if instruction is None:
                raise Refused(self.refusal(opcode))
            instruction(self)

    def refusal(self, opcode: int) -> str:
        if opcode in b"ci":  # GLOBAL and INST have a module and a name
            words = self.data[self.at : self.at + 120].split(b"\n")[:2]
            names = [word.decode("utf-8", "replace") for word in words]
            return f"it refers to the Python object {'.'.join(names)}"
        return f"the instruction {bytes([opcode])!r} is not allowed"

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        if len(piece) < count:
            raise Refused("the file ends too early")
        self.at += count
        return piece

    def size(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise Refused("the file ends too early")
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece

    def pop_to_mark(self) -> list[Any]:
        items = self.stack
        self.stack = self.below.pop()
        return items

    # Instructions ---------------------------------------------------------------------------------------------------

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def append(self) -> None:
        item = self.stack.pop()
        _list(self.stack[-1]).append(item)

    def appends(self) -> None:
        items = self.pop_to_mark()
        _list(self.stack[-1]).extend(items)

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _fill(self.stack[-1], [key, value])

    def set_items(self) -> None:
        items = self.pop_to_mark()
        _fill(self.stack[-1], items)

    def quoted(self) -> None:
        text = self.line().strip()
        if len(text) < 2 or text[:1] not in (b"'", b'"') or text[:1] != text[-1:]:
            raise Refused("a string without quotes")
        self.stack.append(_python2_text(codecs.escape_decode(text[1:-1])[0]))

    def integer(self) -> None:
        digits = self.line()
        self.stack.append({b"00": False, b"01": True}[digits] if digits in (b"00", b"01") else int(digits))

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise Refused("too few values for a tuple")
        self.stack[len(self.stack) - count :] = [tuple(self.stack[len(self.stack) - count :])]

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def pop(self) -> None:
        if self.stack:
            self.stack.pop()
        else:
            self.pop_to_mark()


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise Refused("append to a value that is not a list")
    return value


def _fill(target: Any, items: list[Any]) -> None:
    if type(target) is not dict or len(items) % 2:
        raise Refused("set items of a value that is not a dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        # Tuples are not allowed as keys: hashing a deeply nested tuple can overflow the C stack.
        if type(key) not in (str, int, float, bool, bytes, type(None)):
            raise Refused(f"a {type(key).__name__} as a key")
        target[key] = value


def _dict(items: list[Any]) -> dict[Any, Any]:
    value: dict[Any, Any] = {}
    _fill(value, items)
    return value


def _python2_text(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _utf8(text: bytes) -> str:
    return text.decode("utf-8", "surrogatepass")


def push(value: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return the instruction that pushes a value."""

    def instruction(machine: Any) -> None:
        item = value(machine)  # before the append: the value may use the items above a mark
        machine.stack.append(item)

    return instruction


_STOP = ord(".")
INSTRUCTIONS: dict[int, Callable[[Machine], None]] = {
    ord(opcode): instruction
    for opcode, instruction in {
        # bookkeeping
        "\x80": lambda m: m.take(1),  # the protocol
        "\x95": lambda m: m.take(8),  # frame size
        "(": Machine.mark,
        "0": Machine.pop,
        "1": lambda m: m.pop_to_mark(),
        "2": push(lambda m: m.stack[-1]),
        "p": lambda m: m.put(int(m.line())),
        "q": lambda m: m.put(m.size(1)),
        "r": lambda m: m.put(m.size(4)),
        "\x94": lambda m: m.put(len(m.memo)),
        "g": push(lambda m: m.memo[int(m.line())]),
        "h": push(lambda m: m.memo[m.size(1)]),
        "j": push(lambda m: m.memo[m.size(4)]),
        # scalars
        "N": push(lambda m: None),
        "\x88": push(lambda m: True),
        "\x89": push(lambda m: False),
        "I": Machine.integer,
        "J": push(lambda m: int.from_bytes(m.take(4), "little", signed=True)),
        "K": push(lambda m: m.size(1)),
        "M": push(lambda m: m.size(2)),
        "L": push(lambda m: int(m.line().removesuffix(b"L"))),
        "\x8a": push(lambda m: int.from_bytes(m.take(m.size(1)), "little", signed=True)),
        "F": push(lambda m: float(m.line())),
        "G": push(lambda m: struct.unpack(">d", m.take(8))[0]),
        # texts
        "S": Machine.quoted,
        "T": push(lambda m: _python2_text(m.take(m.size(4)))),
        "U": push(lambda m: _python2_text(m.take(m.size(1)))),
        "V": push(lambda m: m.line().decode("raw-unicode-escape")),
        "X": push(lambda m: _utf8(m.take(m.size(4)))),
        "\x8c": push(lambda m: _utf8(m.take(m.size(1)))),
        "\x8d": push(lambda m: _utf8(m.take(m.size(8)))),
        "B": push(lambda m: m.take(m.size(4))),
        "C": push(lambda m: m.take(m.size(1))),
        "\x8e": push(lambda m: m.take(m.size(8))),
        # containers
        "]": push(lambda m: []),
        "l": push(lambda m: m.pop_to_mark()),
        "a": Machine.append,
        "e": Machine.appends,
        "}": push(lambda m: {}),
        "d": push(lambda m: _dict(m.pop_to_mark())),
        "s": Machine.set_item,
        "u": Machine.set_items,
        ")": push(lambda m: ()),
        "t": push(lambda m: tuple(m.pop_to_mark())),
        "\x85": lambda m: m.tuple_of(1),
        "\x86": lambda m: m.tuple_of(2),
        "\x87": lambda m: m.tuple_of(3),
    }.items()
}
