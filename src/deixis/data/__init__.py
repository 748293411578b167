"""Data sets: read official annotation files as :class:`~deixis.data.sample.Sample`, one module per data set.

Each data set module has the same names (see :class:`Loader`):

``NAME``                 name on the command line, equal to the module name
``expected(root)``       the files of the official distribution, as :class:`~deixis.data.sample.Expected`
``recognise(root)``      whether the folder has this data set; checks file names, opens no file
``splits(root)``         the names of the available splits
``load(root, split)``    a :class:`~deixis.data.sample.Dataset`

``deixis.data.load(root, split)`` selects the module. ``scenes`` generates images instead of reading a folder. It is
not in LOADERS, and has a name such as ``scenes:200`` instead of a folder.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, cast

from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Segment, Skipped
from deixis.errors import DeixisError

__all__ = [
    "LOADERS",
    "Caption",
    "Dataset",
    "Entity",
    "Expected",
    "Loader",
    "Sample",
    "Segment",
    "Skipped",
    "load",
    "loader",
    "recognise",
]

LOADERS = (
    *("flickr30k_entities", "gvd", "talk", "scan_precomp", "vg_triplets", "visual_genome", "refer"),
    *("activitynet_entities", "coco", "pairs"),
)
"""The data set modules, in the order in which :func:`recognise` tries them; the most general is last."""


class Loader(Protocol):
    """Interface of a data set module."""

    NAME: str

    def expected(self, root: Path) -> tuple[Expected, ...]: ...

    def recognise(self, root: Path) -> bool: ...

    def splits(self, root: Path) -> tuple[str, ...]: ...

    def load(self, root: Path, split: str) -> Dataset: ...


def loader(name: str) -> Loader:
    """Import the module of a data set."""
    return cast(Loader, importlib.import_module(f"deixis.data.{name}"))


def recognise(root: str | Path) -> Loader:
    """Find the module that reads this folder; raise a :class:`DeixisError` with the expected files if none does."""
    root = Path(root)
    generated = loader("scenes")
    if generated.recognise(root):
        return generated
    if not root.is_dir():
        raise DeixisError(f"{root} is not a folder. Expected the folder of a data set.")
    loaders = [loader(name) for name in LOADERS]
    found = _first(root, loaders)
    if found is not None:
        return found
    listing = "\n".join(f"  {each.NAME:<22}{_required_files(each, root)}" for each in loaders)
    raise DeixisError(
        f"{root} is not a known data set.{_hint(root, loaders)} Expected files of each data set:\n{listing}\n"
        "For your own images, add a captions.csv with the columns image and caption."
    )


def load(root: str | Path, split: str) -> Dataset:
    """Load one split of the data set in a folder."""
    return recognise(root).load(Path(root), split)


def _first(root: Path, loaders: Iterable[Loader]) -> Loader | None:
    return next((each for each in loaders if each.recognise(root)), None)


def _required_files(each: Loader, root: Path) -> str:
    return ", ".join(entry.path for entry in each.expected(root) if entry.required)


def _hint(root: Path, loaders: list[Loader]) -> str:
    """Suggest a data set in the parent folder or in a subfolder."""
    below = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    for folder in (*below[:50], root.resolve().parent):
        found = _first(folder, loaders)
        if found is not None:
            return f" Did you mean {folder} ({found.NAME})?"
    return ""
