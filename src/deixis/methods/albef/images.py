"""Images as input of the fusion model: squares of pixels, or squares of grid cells."""

from __future__ import annotations

import numpy as np
from PIL import Image

from deixis.errors import DeixisError
from deixis.layers.arrays import Array, resize
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.inputs import Resize
from deixis.types import Regions

# of the pixels that ALBEF's image encoder was trained on: red, green, blue, from 0 to 1
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def square_grid(regions: Regions, config: AlbefConfig) -> Array:
    """Feature grid ``[side, side, features]`` of an image, resized to a square."""
    if regions.grid is None or regions.grid.ndim != 3:
        raise DeixisError("this model needs the feature grid of a photograph. Extract the features with --grid.")
    grid = np.asarray(regions.grid, dtype=np.float32)
    if grid.shape[2] != config.features:
        raise DeixisError(f"the feature grid has cells of width {grid.shape[2]}; this model needs {config.features}.")
    if grid.shape[:2] == (config.side, config.side):
        return grid
    return resize(grid, config.side, config.side, "bilinear")


def square_pixels(image: Image.Image, side: int, resize: Resize = "reduced") -> Array:
    """Pixels ``[3, side, side]`` from 0 to 1 of an image resized to a square; see :class:`InputConfig`."""
    rgb = image.convert("RGB")
    if resize == "bilinear":
        import cv2

        pixels = cv2.resize(np.asarray(rgb), (side, side), interpolation=cv2.INTER_LINEAR)
    else:
        gap = 3.0 if resize == "reduced" else None
        pixels = np.array(rgb.resize((side, side), Image.Resampling.BICUBIC, reducing_gap=gap))
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)).astype(np.float32) / 255


def standardise(pixels: Array) -> Array:
    """Standardise pixels ``[..., 3, H, W]`` with the mean and deviation of the image encoder's training."""
    mean, deviation = (np.array(values, np.float32).reshape(3, 1, 1) for values in (MEAN, DEVIATION))
    return (pixels - mean) / deviation
