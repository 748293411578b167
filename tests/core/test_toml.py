"""TOML tables as dataclasses: what is valid, and errors that name the place."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Literal

import pytest

from deixis import DeixisError
from deixis.toml import from_toml, located, require


@dataclass(frozen=True)
class Part:
    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Whole:
    size: int
    given: str
    parts: tuple[Part, ...] = ()
    seeds: tuple[int, ...] = (0,)
    mode: Literal["a", "b"] | None = None


def read(text: str) -> Whole:
    return from_toml(Whole, tomllib.loads(text), "file.toml", given="by the caller")


def test_values_become_the_types_of_the_fields() -> None:
    text = 'size = 3\nseeds = [1, 2]\nmode = "b"\n[[parts]]\nname = "x"\nweight = 2\n[[parts]]\nname = "y"\n'
    assert read(text) == Whole(3, "by the caller", (Part("x", 2.0), Part("y")), (1, 2), "b")
    assert isinstance(read(text).parts[0].weight, float)
    assert read("size = 3") == Whole(3, "by the caller")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "file.toml: field 'size' is missing. Add it."),
        ("size = 1.5", "file.toml: field 'size': expected a whole number, got 1.5."),
        ("size = true", "file.toml: field 'size': expected a whole number, got True."),
        ("size = 1\nsizes = 2", "file.toml: unknown field 'sizes'. Correct or remove it."),
        ('size = 1\ngiven = "x"', "file.toml: unknown field 'given'. Correct or remove it."),
        ('size = 1\nmode = "c"', "file.toml: field 'mode': 'c' is not valid. Use one of a, b."),
        ("size = 1\nseeds = 2", "file.toml: field 'seeds': expected a list, got 2."),
        ('size = 1\nseeds = [2, "x"]', "file.toml: field 'seeds', item 2: expected a whole number, got 'x'."),
        ("size = 1\nparts = [3]", "file.toml: field 'parts', item 1: expected a table, got 3."),
        ("size = 1\n[[parts]]\nname = 2", "file.toml: field 'parts', item 1: field 'name': expected a string, got 2."),
    ],
)
def test_errors_name_the_place_and_the_field(text: str, reason: str) -> None:
    with pytest.raises(DeixisError) as error:
        read(text)
    assert str(error.value) == reason


def test_errors_of_a_block_get_its_place() -> None:
    require(1, "here", "never")
    with pytest.raises(DeixisError, match=r"^outside: inside: wrong$"), located("outside"):
        require([], "inside", "wrong")
