"""Loading a model that finds phrases, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from deixis.models.eyes import Photo
from deixis.models.folder import read_config
from deixis.types import Grounding


class FindsPhrases(Protocol):
    """What every such model can do."""

    name: str

    def ground(self, photo: Photo, wanted: str | Sequence[str]) -> list[Grounding]:
        """The places of phrases, or of the phrases of a caption."""


FINDERS = {
    "grounder": ("deixis.models.grounder", "Grounder"),
    "fusion": ("deixis.models.pointer", "Pointer"),
}
"""Kind of a model -> its module and class; the class has ``from_pretrained``."""


def load_finder(folder: str | Path) -> FindsPhrases:
    """The model in a folder, by the kind that its configuration names."""
    module, name = FINDERS[read_config(folder, *FINDERS)["kind"]]
    model: FindsPhrases = getattr(import_module(module), name).from_pretrained(folder)
    return model
