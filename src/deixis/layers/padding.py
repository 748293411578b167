"""Padded tensors of regions and word ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from deixis import boxes as geometry
from deixis.types import Regions


@dataclass(frozen=True)
class PaddedRegions:
    """Regions of I images, padded to the largest number of regions."""

    features: Tensor  # [I, N, D] float32
    mask: Tensor  # [I, N] True where there is a region
    boxes: Tensor  # [I, N, 4] fractions of the image
    grid: Tensor | None  # [I, M, G] cells of the feature grids, where all images have a grid
    scores: Tensor | None = None  # [I, N] of the proposals, where all images have scores
    class_probs: Tensor | None = None  # [I, N, C] of all classes, where all images have them
    image_vector: Tensor | None = None  # [I, V] feature of the whole image, where all images have one
    grid_mask: Tensor | None = None  # [I, M] True where there is a cell; None: everywhere
    keys: Tensor | None = None  # [I] random keys of the samples, in training (deixis.layers.noise)


def pad_regions(regions: Sequence[Regions]) -> PaddedRegions:
    """Stack the regions of several images."""
    most = max(len(r) for r in regions)
    features = np.zeros((len(regions), most, regions[0].features.shape[1]), dtype=np.float32)
    boxes = np.zeros((len(regions), most, 4), dtype=np.float32)
    mask = np.zeros((len(regions), most), dtype=bool)
    scores = np.zeros((len(regions), most), dtype=np.float32)
    for row, r in enumerate(regions):
        features[row, : len(r)], mask[row, : len(r)] = r.features, True
        boxes[row, : len(r)] = geometry.to_normalised(r.boxes, *r.size)
        scores[row, : len(r)] = 0 if r.scores is None else r.scores
    scored = all(r.scores is not None for r in regions)
    grid, grid_mask = _pad_grids(regions)
    return PaddedRegions(
        torch.from_numpy(features),
        torch.from_numpy(mask),
        torch.from_numpy(boxes),
        grid,
        torch.from_numpy(scores) if scored else None,
        _pad_class_probs(regions, most),
        _stack_vectors(regions),
        grid_mask,
    )


def pad_ragged(rows: Sequence[Sequence[Sequence[int]]], value: int) -> Tensor:
    """Pad ragged integers ``[I][C][T]`` with ``value`` to one tensor."""
    captions = max(len(row) for row in rows)
    longest = max((len(caption) for row in rows for caption in row), default=0)
    padded = np.full((len(rows), captions, longest), value, dtype=np.int64)
    for i, row in enumerate(rows):
        for c, caption in enumerate(row):
            padded[i, c, : len(caption)] = caption
    return torch.from_numpy(padded)


def _pad_grids(regions: Sequence[Regions]) -> tuple[Tensor | None, Tensor | None]:
    """Cells ``[I, M, G]`` of the grids, and a mask of the real ones where their numbers differ."""
    grids = [np.asarray(r.grid, np.float32).reshape(-1, r.grid.shape[-1]) for r in regions if r.grid is not None]
    if len(grids) < len(regions):
        return None, None
    counts = np.array([len(cells) for cells in grids])
    padded = np.zeros((len(grids), counts.max(), grids[0].shape[1]), dtype=np.float32)
    for row, cells in enumerate(grids):
        padded[row, : len(cells)] = cells
    if len(set(counts.tolist())) == 1:
        return torch.from_numpy(padded), None
    return torch.from_numpy(padded), torch.from_numpy(np.arange(counts.max()) < counts[:, None])


def _pad_class_probs(regions: Sequence[Regions], most: int) -> Tensor | None:
    found = [r.class_probs for r in regions if r.class_probs is not None]
    if len(found) < len(regions):
        return None
    padded = np.zeros((len(found), most, found[0].shape[1]), dtype=np.float32)
    for row, probs in enumerate(found):
        padded[row, : len(probs)] = probs
    return torch.from_numpy(padded)


def _stack_vectors(regions: Sequence[Regions]) -> Tensor | None:
    found = [r.image_vector for r in regions if r.image_vector is not None]
    return torch.from_numpy(np.stack(found).astype(np.float32)) if len(found) == len(regions) else None
