"""Padded tensors of regions and word ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deixis.layers.padded import RegionArrays, VideoArrays, pad_arrays, pad_ids
from deixis.types import Regions


@dataclass(frozen=True)
class PaddedVideo:
    """Tensors of :class:`~deixis.layers.padded.VideoArrays`."""

    frames: Tensor  # [I, N] frame of each region
    aspect: Tensor  # [I] height / width
    temporal: Tensor  # [I, T, R] features of the whole video over time, zero after its end
    lengths: Tensor  # [I] numbers of temporal rows
    segment: Tensor  # [I, 4] number, count, start and end / duration


@dataclass(frozen=True)
class PaddedRegions:
    """Tensors of :class:`~deixis.layers.padded.RegionArrays`."""

    features: Tensor  # [I, N, D] float32
    mask: Tensor  # [I, N] True where there is a region
    boxes: Tensor  # [I, N, 4] fractions of the image
    grid: Tensor | None  # [I, M, G] cells of the feature grids, where all images have a grid
    scores: Tensor | None = None  # [I, N] of the proposals, where all images have scores
    class_probs: Tensor | None = None  # [I, N, C] of all classes, where all images have them
    image_vector: Tensor | None = None  # [I, V] feature of the whole image, where all images have one
    grid_mask: Tensor | None = None  # [I, M] True where there is a cell; None: everywhere
    video: PaddedVideo | None = None  # of clips; None: photographs
    keys: Tensor | None = None  # [I] random keys of the samples, in training (deixis.layers.noise)


def pad_regions(regions: Sequence[Regions]) -> PaddedRegions:
    """Stack the regions of several images."""
    return as_tensors(pad_arrays(regions))


def as_tensors(padded: RegionArrays) -> PaddedRegions:
    """Make tensors of padded arrays; they share the memory."""
    video = padded.video
    parts: dict[str, Any] = {"grid": None, **_tensors(padded)}
    return PaddedRegions(**parts, video=None if video is None else PaddedVideo(**_tensors(video)))


def _tensors(padded: RegionArrays | VideoArrays) -> dict[str, Tensor]:
    return {name: torch.from_numpy(part) for name, part in vars(padded).items() if isinstance(part, np.ndarray)}


def pad_ragged(rows: Sequence[Sequence[Sequence[int]]], value: int) -> Tensor:
    """Pad ragged integers ``[I][C][T]`` with ``value`` to one tensor."""
    return torch.from_numpy(pad_ids(rows, value))
