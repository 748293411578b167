"""Images as arrays, at the input size of a network."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from PIL import Image

Picture = Image.Image | npt.NDArray[np.uint8]


def as_array(image: Picture) -> npt.NDArray[np.uint8]:
    """Convert an image to an array ``[H, W, 3]`` uint8 of RGB."""
    array = np.asarray(image.convert("RGB") if isinstance(image, Image.Image) and image.mode != "RGB" else image)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        raise ValueError(f"an image must be [H, W, 3] uint8 RGB, not {array.shape} {array.dtype}")
    return array


def resized(image: Picture, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Resize an image to the input size of the backbone, ``[height, width, 3]``."""
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    # reducing_gap: large photographs are first reduced by an integer factor, which is many times faster.
    return np.array(picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0))


def scaled(width: int, height: int, long_side: int, multiple: int) -> tuple[int, int]:
    """Scale a size to the given long side, with both sides rounded to a multiple.

    Few different sizes mean few sets of convolution kernels; the aspect ratio changes by a few per cent at most.
    """
    scale = long_side / max(width, height)
    return (
        max(multiple, round(width * scale / multiple) * multiple),
        max(multiple, round(height * scale / multiple) * multiple),
    )


def same_shape(shapes: Iterable[tuple[int, ...]]) -> list[list[int]]:
    """Indices of equal shapes, shape by shape: what a network can compute in one pass."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(index)
    return list(groups.values())
