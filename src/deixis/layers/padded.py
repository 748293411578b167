"""Regions of several images padded to one size, as NumPy arrays; :mod:`deixis.layers.padding` makes tensors of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.types import Regions

Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

SEGMENT_WIDTH = 50
"""Width of the embedding of a segment's number, count, start and end."""


@dataclass(frozen=True, eq=False)
class VideoArrays:
    """What regions of I clips have beyond those of photographs."""

    frames: Integers  # [I, N] frame of each region
    aspect: Floats  # [I] height / width
    temporal: Floats  # [I, T, R] features of the whole video over time, zero after its end
    lengths: Integers  # [I] numbers of temporal rows
    segment: Floats  # [I, 4] number, count, start and end / duration


@dataclass(frozen=True, eq=False)
class RegionArrays:
    """Regions of I images, padded to the largest number of regions."""

    features: Floats  # [I, N, D]
    mask: Bools  # [I, N] True where there is a region
    boxes: Floats  # [I, N, 4] fractions of the image
    grid: Floats | None  # [I, M, G] cells of the feature grids, where all images have a grid
    scores: Floats | None = None  # [I, N] of the proposals, where all images have scores
    class_probs: Floats | None = None  # [I, N, C] of all classes, where all images have them
    image_vector: Floats | None = None  # [I, V] feature of the whole image, where all images have one
    grid_mask: Bools | None = None  # [I, M] True where there is a cell; None: everywhere
    video: VideoArrays | None = None  # of clips; None: photographs


def pad_arrays(regions: Sequence[Regions]) -> RegionArrays:
    """Stack the regions of several images; parts that are optional and that an image lacks are None for all."""
    most, images = max(len(r) for r in regions), len(regions)
    mask = np.zeros((images, most), dtype=bool)
    for row, r in enumerate(regions):
        mask[row, : len(r)] = True if r.frames is None else _kept(r)
    scores = [r.scores for r in regions if r.scores is not None]
    probs = [r.class_probs for r in regions if r.class_probs is not None]
    vectors = [r.image_vector for r in regions if r.image_vector is not None]
    grids = [r.grid.reshape(-1, r.grid.shape[-1]) for r in regions if r.grid is not None]
    cells = np.array([len(grid) for grid in grids])
    gridded = len(grids) == images
    return RegionArrays(
        features=pad_rows([r.features for r in regions], most),
        mask=mask,
        boxes=pad_rows([geometry.to_normalised(r.boxes, *r.size) for r in regions], most),
        grid=pad_rows(grids, cells.max()) if gridded else None,
        scores=pad_rows(scores, most) if len(scores) == images else None,
        class_probs=pad_rows(probs, most) if len(probs) == images else None,
        image_vector=np.stack(vectors).astype(np.float32) if len(vectors) == images else None,
        grid_mask=np.arange(cells.max()) < cells[:, None] if gridded and len(set(cells.tolist())) > 1 else None,
        video=_pad_video(regions, most) if all(r.frames is not None for r in regions) else None,
    )


def pad_rows(parts: Sequence[npt.NDArray[Any]], most: int) -> Floats:
    """Stack arrays ``[n_i, ...]`` to one array ``[I, most, ...]``, with zeros behind the rows of each."""
    padded = np.zeros((len(parts), most, *parts[0].shape[1:]), dtype=np.float32)
    for rows, part in zip(padded, parts, strict=True):
        rows[: len(part)] = part
    return padded


def pad_ids(rows: Sequence[Sequence[Sequence[int]]], value: int) -> Integers:
    """Pad ragged integers ``[I][C][T]`` with ``value`` to one array."""
    captions = max(len(row) for row in rows)
    longest = max((len(caption) for row in rows for caption in row), default=0)
    padded = np.full((len(rows), captions, longest), value, dtype=np.int64)
    for i, row in enumerate(rows):
        for c, caption in enumerate(row):
            padded[i, c, : len(caption)] = caption
    return padded


def _kept(regions: Regions) -> Bools:
    """Regions of a clip that are in use: published features have empty boxes in place of regions below a threshold."""
    boxes = regions.boxes
    kept = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    return kept if kept.any() else np.ones(len(boxes), dtype=bool)


def temporal_rows(regions: Regions) -> Floats:
    """Temporal features ``[T, R]`` of a clip: given, else the mean grid cell or region of each sampled frame."""
    if regions.temporal is not None:
        return np.asarray(regions.temporal, dtype=np.float32)
    if regions.grid is not None:
        return np.asarray(regions.grid, dtype=np.float32).reshape(len(regions.grid), -1, regions.grid.shape[-1]).mean(1)
    assert regions.frames is not None
    rows = np.zeros((int(regions.frames.max()) + 1, regions.features.shape[1]), dtype=np.float32)
    for frame in np.unique(regions.frames):
        rows[frame] = np.asarray(regions.features[regions.frames == frame], dtype=np.float32).mean(0)
    return rows


def _pad_video(regions: Sequence[Regions], most: int) -> VideoArrays:
    rows = [temporal_rows(r) for r in regions]
    frames = np.zeros((len(regions), most), dtype=np.int64)
    for i, r in enumerate(regions):
        frames[i, : len(r)] = np.asarray(r.frames)
    whole = (0.0, 1.0, 0.0, 1.0)
    # rows of the sampled frames are those of the segment alone; rows of the whole video have a place in it
    places = [
        whole if r.segment is None else r.segment if r.temporal is not None else (*r.segment[:2], 0.0, 1.0)
        for r in regions
    ]
    return VideoArrays(
        frames,
        np.array([r.size[1] / r.size[0] for r in regions], dtype=np.float32),
        pad_rows(rows, max(map(len, rows))),
        np.array([len(each) for each in rows], dtype=np.int64),
        np.array(places, dtype=np.float32),
    )
