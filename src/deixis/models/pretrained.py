"""Loading a model from its folder, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from deixis.models.captioner import Captioner
from deixis.models.eyes import Eyes, Photo
from deixis.models.folder import read_config
from deixis.types import Grounding, Phrase


class FindsPhrases(Protocol):
    """What every model can do that grounds phrases."""

    name: str

    @property
    def eyes(self) -> Eyes | None:
        """What makes its regions; None: it reads photographs themselves."""

    def ground(
        self, photo: Photo, wanted: str | Sequence[str], phrases: Sequence[Phrase] | None = None
    ) -> list[Grounding]:
        """The places of phrases that stand alone, or of those of a caption: found in it, or given as its spans."""


FINDERS = {
    "matcher": ("deixis.models.aligner", "Aligner"),
    "grounder": ("deixis.models.grounder", "Grounder"),
    "fusion": ("deixis.models.pointer", "Pointer"),
}
"""Kind of a model -> its module and class; the class has ``from_pretrained``."""


def load_model(folder: str | Path) -> Captioner | FindsPhrases:
    """The model in a folder, by the kind that its configuration names."""
    if read_config(folder, "captioner", *FINDERS)["kind"] == "captioner":
        return Captioner.from_pretrained(folder)
    return load_finder(folder)


def load_finder(folder: str | Path) -> FindsPhrases:
    """The model in a folder, which must be one that finds phrases."""
    module, name = FINDERS[read_config(folder, *FINDERS)["kind"]]
    model: FindsPhrases = getattr(import_module(module), name).from_pretrained(folder)
    return model
