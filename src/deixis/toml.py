"""TOML files as frozen dataclasses: type hints say what is valid, and every error names the place and the field."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from deixis.errors import DeixisError

TYPES = {
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}

T = TypeVar("T")


def from_toml(kind: type[T], values: Any, where: str, **given: Any) -> T:
    """Make a dataclass from a TOML table and from fields that the caller gives.

    ``where`` names the file and the table. Fields may be strings, numbers, literals, tuples, dataclasses, or one of
    these with ``None`` as default.
    """
    table = value_of(values, dict, where)
    known = {field.name: field for field in fields(kind) if field.name not in given}  # type: ignore[arg-type]
    for name in table:
        require(name in known, where, f"unknown field '{name}'. Correct or remove it.")
    for name, field in known.items():
        optional = field.default is not MISSING or field.default_factory is not MISSING
        require(optional or name in table, where, f"field '{name}' is missing. Add it.")
    hints = get_type_hints(kind)
    return kind(**{name: value_of(table[name], hints[name], f"{where}: field '{name}'") for name in table}, **given)


def value_of(value: Any, hint: Any, where: str) -> Any:
    """Check a TOML value against a type hint; lists become tuples, tables dataclasses, integers floats."""
    arguments = get_args(hint)
    if type(None) in arguments:
        return value_of(value, arguments[0], where)
    if get_origin(hint) is Literal:
        require(value in arguments, where, f"{value!r} is not valid. Use one of {', '.join(arguments)}.")
        return value
    if get_origin(hint) is tuple:
        items = enumerate(value_of(value, list, where), start=1)
        return tuple(value_of(item, arguments[0], f"{where}, item {number}") for number, item in items)
    if hint not in TYPES:
        return from_toml(hint, value, where)
    if hint is float and type(value) is int:
        return float(value)
    require(type(value) is hint, where, f"expected {TYPES[hint]}, got {value!r}.")
    return value


def require(condition: object, where: str | Path, message: str) -> None:
    """Raise an error that starts with the place of the mistake, unless the condition holds."""
    if not condition:
        raise DeixisError(f"{where}: {message}")


@contextmanager
def located(where: str | Path) -> Iterator[None]:
    """Put the place of the mistake before the errors of the block."""
    try:
        yield
    except DeixisError as error:
        raise DeixisError(f"{where}: {error}") from None
