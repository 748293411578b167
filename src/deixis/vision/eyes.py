"""How a model comes to its regions: it looks with the extractor that it was trained with, and with no other."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import torch
from PIL import Image

from deixis.device import CPU
from deixis.images import load_image
from deixis.types import Json, Regions
from deixis.vision.extractor import Extractor, extractor_from
from deixis.vision.store import require_extractor

Photo = str | Path | Image.Image | Regions


class Eyes:
    """The extractor of a model, ``{"name", "description"}`` as its folder keeps it; built when first needed.

    ``grid`` is the most cells a side of the feature grid, for models that look at one.
    """

    def __init__(self, extractor: Json, grid: int = 0) -> None:
        self.grid, self.device = grid, CPU
        self.name: str = extractor["name"]
        self.description: Json = extractor["description"]

    @cached_property
    def extractor(self) -> Extractor:
        """What makes regions as in training."""
        return extractor_from(self.description, self.grid).to(self.device)

    def to(self, device: torch.device) -> None:
        """Look there from now on."""
        self.device = device
        if "extractor" in vars(self):  # built already
            self.extractor.to(device)

    @property
    def detector(self) -> bool:
        """Whether its boxes are those of a detector, whose scores tell how likely a box is a whole thing."""
        return str(self.description.get("proposals", {}).get("supervision", "")).startswith("boxes")

    def look(self, photo: Photo) -> Regions:
        """The regions of a photograph (path or image); regions themselves are checked and given back."""
        if isinstance(photo, Regions):
            require_extractor(photo.extractor, self.name)
            return photo
        return self.extractor.extract(open_photo(photo))

    def to_json(self) -> Json:
        """What the folder keeps."""
        return {"name": self.name, "description": self.description}


def open_photo(photo: str | Path | Image.Image) -> Image.Image:
    """A photograph that may lie in a file."""
    return photo if isinstance(photo, Image.Image) else load_image(photo)
