"""Regions of blank images, for the information gain of captions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors import SafetensorError
from safetensors.numpy import load, save

from deixis.errors import DeixisError
from deixis.files import MAX_SETTINGS, open_regular, write_atomic
from deixis.model_folder import BLANK
from deixis.types import Regions
from deixis.vision.extractor import RegionExtractor

SIZE = (320, 40)
"""Width and height of a blank image; small, for fast extraction."""


@dataclass(frozen=True, eq=False)
class BlankRegions:
    """The whole-image region of each blank image, by one extractor."""

    regions: tuple[Regions, ...]

    @classmethod
    def extract(cls, extractor: RegionExtractor) -> BlankRegions:
        """Extract the blank images."""
        return cls(tuple(extractor.extract(image, boxes=[[0, 0, *SIZE]]) for image in blank_images()))

    @staticmethod
    def save_or_remove(blank: BlankRegions | None, folder: Path) -> None:
        """Write the regions into a model's folder, or remove the file of an earlier model."""
        if blank is None:
            (folder / BLANK).unlink(missing_ok=True)
            return
        tensors = {"features": np.stack([one.features for one in blank.regions])}
        grids = [one.grid for one in blank.regions if one.grid is not None]
        if grids:
            tensors["grid"] = np.stack(grids)
        write_atomic(folder / BLANK, save(tensors))

    @classmethod
    def load(cls, folder: Path, extractor: str, width: int) -> BlankRegions | None:
        """Read the regions of a model with this extractor and features of this width; None if the folder has none."""
        path = folder / BLANK
        if not path.exists():
            return None
        try:
            with open_regular(path, MAX_SETTINGS) as file:
                stored = load(file.read())
            features, grids = stored["features"], stored.get("grid")
        except (OSError, KeyError, SafetensorError) as error:
            raise DeixisError(f"{path} cannot be read ({error}). Delete it; it will be computed again.") from None
        fits = features.ndim == 3 and len(features) > 0 and features.shape[1:] == (1, width)
        if not fits or (grids is not None and (grids.ndim != 4 or len(grids) != len(features))):
            raise DeixisError(f"{path} does not fit features of width {width}. Delete it; it will be computed again.")
        box = np.array([[0, 0, *SIZE]], dtype=np.float32)
        return cls(
            tuple(
                Regions(box, each, SIZE, grid=None if grids is None else grids[i], extractor=extractor)
                for i, each in enumerate(features)
            )
        )


def blank_images() -> list[Image.Image]:
    """Return a grey image and a noise image."""
    width, height = SIZE
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return [Image.new("RGB", SIZE, "#808080"), Image.fromarray(noise)]
