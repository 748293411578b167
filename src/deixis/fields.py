"""Build configuration dataclasses from JSON that may be damaged or hostile."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

MAX_INT = 1_000_000
MAX_FLOAT = 1e9
MAX_TEXT = 1_000
"""Largest values of fields that have no bound of their own; texts are counted in characters."""


def from_dict(cls: type[T], values: object, **largest: int) -> T:
    """Build a dataclass from a JSON object; ValueError if a field is unknown, missing, of another type or too large.

    Whole numbers are from 0 to ``MAX_INT``, or to the bound of the field in ``largest``.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{cls.__name__} must be an object, not {type(values).__name__}")
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]  # mypy cannot say "a dataclass"
    for name in values:
        if name not in known:
            raise ValueError(f"unknown field {str(name)[:40]!r} of {cls.__name__}")
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"the field {name!r} of {cls.__name__} is missing")
    hints = get_type_hints(cls)
    for name, value in values.items():
        if not fits(value, hints[name], largest.get(name, MAX_INT)):
            raise ValueError(f"the field {name!r} of {cls.__name__} is {_shown(value)}, which is not allowed")
    return cls(**values)


def fits(value: object, hint: Any, largest: int = MAX_INT) -> bool:
    """Return whether a JSON value is of an annotated type and within bounds."""
    origin = get_origin(hint)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if origin in (Union, types.UnionType):
        return any(fits(value, each, largest) for each in get_args(hint))
    if hint in (None, type(None)):
        return value is None
    if hint is bool:
        return isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and abs(value) <= MAX_FLOAT and math.isfinite(value)  # type: ignore[arg-type]  # a number
    if hint is str:
        return isinstance(value, str) and len(value) <= MAX_TEXT
    raise TypeError(f"no rule for fields of the type {hint}")


def _shown(value: object) -> str:
    text = value if isinstance(value, str | int | float | bool | None) else type(value).__name__
    shown = repr(text) if not isinstance(text, int) or abs(text) < 10**30 else "a number of more than 30 digits"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
