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
from collections.abc import Callable
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
    machine = _Machine(data)
    try:
        return machine.run()
    except _Refused as error:
        raise BadFile(path, f"not a pickle of plain values ({error} at byte {machine.opcode_at})") from None
    except (IndexError, KeyError, ValueError, TypeError, OverflowError):
        # Stack or memo underflow, or an invalid number or escape: the file is corrupt.
        raise BadFile(path, f"corrupt pickle (error at byte {machine.opcode_at})") from None


class _Refused(Exception):
    """The file has an instruction that is not allowed."""


class _Machine:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.opcode_at = 0
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # one stack per open mark
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        data, instructions = self.data, _INSTRUCTIONS
        while True:
            self.opcode_at = self.at
            if self.at >= len(data):
                raise _Refused("the file ends too early")
            opcode = data[self.at]
            self.at += 1
            if opcode == _STOP:
                return self.stack.pop()
            instruction = instructions.get(opcode)
            if instruction is None:
                raise _Refused(self.refusal(opcode))
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
            raise _Refused("the file ends too early")
        self.at += count
        return piece

    def size(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def line(self) -> bytes:
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise _Refused("the file ends too early")
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
            raise _Refused("a string without quotes")
        self.stack.append(_python2_text(codecs.escape_decode(text[1:-1])[0]))

    def integer(self) -> None:
        digits = self.line()
        self.stack.append({b"00": False, b"01": True}[digits] if digits in (b"00", b"01") else int(digits))

    def tuple_of(self, count: int) -> None:
        if len(self.stack) < count:
            raise _Refused("too few values for a tuple")
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
        raise _Refused("append to a value that is not a list")
    return value


def _fill(target: Any, items: list[Any]) -> None:
    if type(target) is not dict or len(items) % 2:
        raise _Refused("set items of a value that is not a dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        # Tuples are not allowed as keys: hashing a deeply nested tuple can overflow the C stack.
        if type(key) not in (str, int, float, bool, bytes, type(None)):
            raise _Refused(f"a {type(key).__name__} as a key")
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


def _push(value: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    def instruction(machine: _Machine) -> None:
        item = value(machine)  # before the append: the value may use the items above a mark
        machine.stack.append(item)

    return instruction


_STOP = ord(".")
_INSTRUCTIONS: dict[int, Callable[[_Machine], None]] = {
    ord(opcode): instruction
    for opcode, instruction in {
        # bookkeeping
        "\x80": lambda m: m.take(1),  # the protocol
        "\x95": lambda m: m.take(8),  # frame size
        "(": _Machine.mark,
        "0": _Machine.pop,
        "1": lambda m: m.pop_to_mark(),
        "2": _push(lambda m: m.stack[-1]),
        "p": lambda m: m.put(int(m.line())),
        "q": lambda m: m.put(m.size(1)),
        "r": lambda m: m.put(m.size(4)),
        "\x94": lambda m: m.put(len(m.memo)),
        "g": _push(lambda m: m.memo[int(m.line())]),
        "h": _push(lambda m: m.memo[m.size(1)]),
        "j": _push(lambda m: m.memo[m.size(4)]),
        # scalars
        "N": _push(lambda m: None),
        "\x88": _push(lambda m: True),
        "\x89": _push(lambda m: False),
        "I": _Machine.integer,
        "J": _push(lambda m: int.from_bytes(m.take(4), "little", signed=True)),
        "K": _push(lambda m: m.size(1)),
        "M": _push(lambda m: m.size(2)),
        "L": _push(lambda m: int(m.line().removesuffix(b"L"))),
        "\x8a": _push(lambda m: int.from_bytes(m.take(m.size(1)), "little", signed=True)),
        "F": _push(lambda m: float(m.line())),
        "G": _push(lambda m: struct.unpack(">d", m.take(8))[0]),
        # texts
        "S": _Machine.quoted,
        "T": _push(lambda m: _python2_text(m.take(m.size(4)))),
        "U": _push(lambda m: _python2_text(m.take(m.size(1)))),
        "V": _push(lambda m: m.line().decode("raw-unicode-escape")),
        "X": _push(lambda m: _utf8(m.take(m.size(4)))),
        "\x8c": _push(lambda m: _utf8(m.take(m.size(1)))),
        "\x8d": _push(lambda m: _utf8(m.take(m.size(8)))),
        "B": _push(lambda m: m.take(m.size(4))),
        "C": _push(lambda m: m.take(m.size(1))),
        "\x8e": _push(lambda m: m.take(m.size(8))),
        # containers
        "]": _push(lambda m: []),
        "l": _push(lambda m: m.pop_to_mark()),
        "a": _Machine.append,
        "e": _Machine.appends,
        "}": _push(lambda m: {}),
        "d": _push(lambda m: _dict(m.pop_to_mark())),
        "s": _Machine.set_item,
        "u": _Machine.set_items,
        ")": _push(lambda m: ()),
        "t": _push(lambda m: tuple(m.pop_to_mark())),
        "\x85": lambda m: m.tuple_of(1),
        "\x86": lambda m: m.tuple_of(2),
        "\x87": lambda m: m.tuple_of(3),
    }.items()
}
