"""Safe reader of pickles that hold one NumPy array, of Python 2 or 3.

A pickled array names a few functions of NumPy that rebuild it. This reader knows these names and builds the array
itself from shape, data type and bytes. No name is imported and no function of the file is called. Arrays of Python
objects are refused.
"""

from __future__ import annotations

import codecs
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis.data.plain_pickle import INSTRUCTIONS, MAX_PICKLE, Machine, Refused, push, run
from deixis.data.reading import BadFile, read_bytes

_NAMES = {
    **{f"{module}.multiarray _reconstruct": "array" for module in ("numpy.core", "numpy._core")},
    **{f"{module}.numeric _frombuffer": "buffer" for module in ("numpy.core", "numpy._core")},
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "_codecs encode": "encode",
}
"""Module and name in a file -> what it means here."""


def load_array_pickle(path: Path, limit: int = MAX_PICKLE) -> npt.NDArray[Any]:
    """Read the array in a file; raise :class:`BadFile` if the file holds anything else."""
    data = read_bytes(path, limit)
    if not data:
        raise BadFile(path, "the file is empty")
    value = run(path, Machine(data, _ARRAY_INSTRUCTIONS))
    array = value.array if isinstance(value, _Array) else None
    if array is None:
        raise BadFile(path, "not a pickle of one NumPy array")
    return array


class _Name:
    def __init__(self, means: str) -> None:
        self.means = means


class _Type:
    """Data type under construction."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.order = "="

    def dtype(self) -> np.dtype[Any]:
        if not self.code or self.code[0] not in "fiub" or not self.code[1:].isdecimal() or int(self.code[1:]) > 8:
            raise Refused(f"an array of type '{self.code[:20]}'")
        return np.dtype(self.code).newbyteorder("=" if self.order == "|" else self.order)  # type: ignore[arg-type]


class _Array:
    """Array under construction."""

    def __init__(self) -> None:
        self.array: npt.NDArray[Any] | None = None

    def fill(self, shape: Any, kind: Any, fortran: Any, data: Any) -> None:
        if not isinstance(kind, _Type) or not isinstance(data, bytes) or not isinstance(shape, tuple):
            raise Refused("an array without shape, type and bytes")
        if len(shape) > 8 or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise Refused("an array with an invalid shape")
        dtype = kind.dtype()
        if math.prod(shape) * dtype.itemsize != len(data):
            raise Refused("an array whose bytes do not fit its shape")
        flat = np.frombuffer(data, dtype=dtype)
        self.array = flat.reshape(shape, order="F" if fortran else "C").astype(dtype.newbyteorder("="))


def _global(machine: Machine) -> _Name:
    return _named(f"{machine.line().decode('ascii', 'replace')} {machine.line().decode('ascii', 'replace')}")


def _stack_global(machine: Machine) -> _Name:
    name, module = machine.stack.pop(), machine.stack.pop()
    return _named(f"{module} {name}")


def _named(text: str) -> _Name:
    if text not in _NAMES:
        raise Refused(f"it refers to the Python object {text.replace(' ', '.')[:100]}")
    return _Name(_NAMES[text])


def _reduce(machine: Machine) -> Any:
    """Build what a known name would have returned for its arguments."""
    arguments, name = machine.stack.pop(), machine.stack.pop()
    if not isinstance(name, _Name) or not isinstance(arguments, tuple):
        raise Refused("a call of an unknown object")
    if name.means == "array":
        return _Array()
    if name.means == "dtype":
        return _Type(_text(arguments[0]))
    if name.means == "encode" and isinstance(arguments[0], str):
        return arguments[0].encode("latin-1")
    if name.means == "buffer":
        data, kind, shape, order = arguments
        found = _Array()
        found.fill(shape, kind, _text(order) == "F", data)
        return found
    raise Refused("a call of an unknown object")


def _build(machine: Machine) -> None:
    state = machine.stack.pop()
    target = machine.stack[-1]
    if isinstance(target, _Type) and isinstance(state, tuple) and len(state) > 1:
        order = _text(state[1])
        if order not in ("<", ">", "|", "="):
            raise Refused("a data type with an unknown byte order")
        target.order = order
    elif isinstance(target, _Array) and isinstance(state, tuple) and len(state) == 5:
        target.fill(*state[1:])
    else:
        raise Refused("a state of an unknown object")


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _quoted(machine: Machine) -> bytes:
    text = machine.line().strip()
    if len(text) < 2 or text[:1] not in (b"'", b'"') or text[:1] != text[-1:]:
        raise Refused("a string without quotes")
    return codecs.escape_decode(text[1:-1])[0]


_ARRAY_INSTRUCTIONS = INSTRUCTIONS | {
    ord("c"): push(_global),
    0x93: push(_stack_global),
    ord("R"): push(_reduce),
    ord("b"): _build,
    # strings of Python 2 hold the bytes of the array
    ord("S"): push(_quoted),
    ord("T"): push(lambda m: m.take(m.size(4))),
    ord("U"): push(lambda m: m.take(m.size(1))),
    0x96: push(lambda m: m.take(m.size(8))),
}
