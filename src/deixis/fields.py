"""Build configuration dataclasses from JSON that may be damaged or hostile."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

Bounds = tuple[float, float]
"""Smallest and largest value of a number."""

INT_BOUNDS: Bounds = (0, 1_000_000)
FLOAT_BOUNDS: Bounds = (-1e9, 1e9)
"""Bounds of numbers that have none of their own."""
MAX_TEXT = 1_000  # characters


def from_dict(cls: type[T], values: object, bounds: Mapping[str, Bounds] | None = None) -> T:
    """Build a dataclass from a JSON object; ValueError if a field is unknown, missing or not allowed.

    A value is allowed if it is of the annotated type and, as a number, within the ``bounds`` of its field.
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
        if not fits(value, hints[name], (bounds or {}).get(name)):
            raise ValueError(f"the field {name!r} of {cls.__name__} is {_shown(value)}, which is not allowed")
    return cls(**{name: float(value) if hints[name] is float else value for name, value in values.items()})


def fits(value: object, hint: Any, bounds: Bounds | None = None) -> bool:
    """Return whether a JSON value is of an annotated type and within bounds."""
    origin = get_origin(hint)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in get_args(hint))
    if origin in (Union, types.UnionType):
        return any(fits(value, each, bounds) for each in get_args(hint))
    if hint in (None, type(None)):
        return value is None
    if hint is bool:
        return isinstance(value, bool)
    if hint is int:
        low, high = bounds or INT_BOUNDS
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    if hint is float:
        low, high = bounds or FLOAT_BOUNDS
        return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high  # not NaN
    if hint is str:
        return isinstance(value, str) and len(value) <= MAX_TEXT
    raise TypeError(f"no rule for fields of the type {hint}")


def _shown(value: object) -> str:
    text = value if isinstance(value, str | int | float | bool | None) else type(value).__name__
    shown = repr(text) if not isinstance(text, int) or abs(text) < 10**30 else "a number of more than 30 digits"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
