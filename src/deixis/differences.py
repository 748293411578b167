"""Compare a kept description with the one that is asked for now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ABSENT = "absent"
"""Stands for a value that only the other description has."""


def differences(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """List the entries that differ, sorted, as ``name (kept 1, asked 2)``; nested names are joined by dots.

    Both descriptions are JSON-like: mappings, sequences, texts, numbers, booleans and None. Tuples equal lists.
    """
    return sorted(_differences(kept, asked, ""))


def _differences(kept: Any, asked: Any, name: str) -> Iterator[str]:
    if isinstance(kept, Mapping) and isinstance(asked, Mapping):
        for key in {*kept, *asked}:
            yield from _differences(kept.get(key, ABSENT), asked.get(key, ABSENT), f"{name}.{key}" if name else key)
    elif _is_list(kept) and _is_list(asked) and len(kept) == len(asked):
        for number, (one, other) in enumerate(zip(kept, asked, strict=True)):
            yield from _differences(one, other, f"{name}.{number}")
    elif _is_list(kept) and _is_list(asked):
        yield f"{name} (kept {len(kept)} entries, asked {len(asked)})"
    elif kept != asked:
        yield f"{name} (kept {kept}, asked {asked})"


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
