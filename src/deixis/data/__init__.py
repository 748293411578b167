"""Official annotation files in, :class:`~deixis.data.sample.Sample` out; one module per data set.

Every module of a data set has the same names (see :class:`Loader`):

``NAME``                 what the command line calls it: the name of the module
``expected(root)``       the files of the official distribution, as :class:`~deixis.data.sample.Expected`
``recognise(root)``      whether this folder is that data set; looks at file names, opens nothing
``splits(root)``         the names of the splits that are there
``load(root, split)``    a :class:`~deixis.data.sample.Dataset`

``deixis.data.load(root, split)`` finds the module by itself. ``scenes`` makes its pictures instead of reading them,
so it is not among the loaders: in place of a folder it has a name such as ``scenes:200``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, cast

from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped
from deixis.errors import DeixisError

__all__ = [
    "LOADERS",
    "Caption",
    "Dataset",
    "Entity",
    "Expected",
    "Loader",
    "Sample",
    "Skipped",
    "load",
    "loader",
    "recognise",
]

LOADERS = ("flickr30k_entities", "visual_genome", "refer", "activitynet_entities", "coco", "pairs")
"""The modules, in the order in which they are asked whether they know a folder; the least particular comes last."""


class Loader(Protocol):
    """The names that a data set's module has."""

    NAME: str

    def expected(self, root: Path) -> tuple[Expected, ...]: ...

    def recognise(self, root: Path) -> bool: ...

    def splits(self, root: Path) -> tuple[str, ...]: ...

    def load(self, root: Path, split: str) -> Dataset: ...


def loader(name: str) -> Loader:
    """The module of one data set, imported now."""
    return cast(Loader, importlib.import_module(f"deixis.data.{name}"))


def recognise(root: str | Path) -> Loader:
    """The module that reads this folder; a :class:`DeixisError` that lists what each one looks for if none does."""
    root = Path(root)
    made = loader("scenes")
    if made.recognise(root):
        return made
    if not root.is_dir():
        raise DeixisError(f"{root} is not a folder; name the folder that holds the data set.")
    loaders = [loader(name) for name in LOADERS]
    found = _first(root, loaders)
    if found is not None:
        return found
    looks = "\n".join(f"  {each.NAME:<22}{_looks_like(each, root)}" for each in loaders)
    raise DeixisError(
        f"{root} is not a data set that Deixis knows.{_hint(root, loaders)} Each holds these files:\n{looks}\n"
        "A folder of your own pictures becomes one with a captions.csv that has the columns image and caption."
    )


def load(root: str | Path, split: str) -> Dataset:
    """One split of whatever data set the folder holds."""
    return recognise(root).load(Path(root), split)


def _first(root: Path, loaders: Iterable[Loader]) -> Loader | None:
    return next((each for each in loaders if each.recognise(root)), None)


def _looks_like(each: Loader, root: Path) -> str:
    return ", ".join(entry.path for entry in each.expected(root) if entry.required)


def _hint(root: Path, loaders: list[Loader]) -> str:
    """The usual slip: the folder above or below was meant."""
    below = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    for folder in (*below[:50], root.resolve().parent):
        found = _first(folder, loaders)
        if found is not None:
            return f" {folder} is one ({found.NAME}): was that meant?"
    return ""
