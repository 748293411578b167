"""Features of boxes that no extractor proposed, pooled from what regions carry of their image."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.types import Json, Regions
from deixis.vision.grid_extractor import CLASS_WEIGHT, repool
from deixis.vision.grid_extractor import VERSION as GRID_VERSION

Floats = npt.NDArray[np.float32]
SAMPLES = 14  # points along each side of a box in a feature grid


def can_repool(regions: Regions, description: Json) -> bool:
    """Return whether features of other boxes can be pooled: version 2 needs its maps, other extractors a feature grid.

    ``description`` is that of the extractor. A feature grid of version 2 has the position and the surroundings of its
    tiles, so that a mean over tiles is not the feature of a box. The grid of imported features is of another network.
    """
    if "layout" in description:
        return False
    if description.get("version") == GRID_VERSION:
        return bool(regions.maps)
    return regions.grid is not None and regions.grid.ndim == 3 and regions.grid.shape[2] == regions.features.shape[1]


def pool_boxes(regions: Regions, boxes: Floats, rows: npt.NDArray[np.integer], description: Json) -> Floats:
    """Features ``[M, D]`` of boxes ``[M, 4]`` (fractions of the image) that were the regions ``rows [M]``.

    With maps (version 2), a box gets exactly the feature of a proposal at its place; the detector's class probabilities
    are those of the proposal that was moved. With a feature grid, a feature is the mean of the grid inside the box.
    Rows beyond the image's own regions are padding, whose values have no meaning.
    """
    if description.get("version") != GRID_VERSION:
        return _grid_means(np.asarray(regions.grid, dtype=np.float32), boxes)
    classes = int(description["pooling"]["classes"])
    corners = geometry.from_normalised(boxes.astype(np.float64), *regions.size)
    kept = regions.features[np.minimum(rows, len(regions) - 1)]
    probs = kept[:, kept.shape[1] - classes :].astype(np.float32) / CLASS_WEIGHT
    return repool(regions.maps, corners, regions.size, classes, probs if classes else None).astype(np.float32)


def _grid_means(grid: Floats, boxes: Floats) -> Floats:
    """Mean ``[M, D]`` of a grid ``[rows, columns, D]`` in boxes: :func:`deixis.vision.roi.roi_mean` on arrays."""
    rows, columns, depth = grid.shape
    across, down = _axis_weights(boxes[:, 0::2] * columns, columns), _axis_weights(boxes[:, 1::2] * rows, rows)
    weights = down[:, :, None] * across[:, None, :]  # [M, rows, columns]
    return (weights.reshape(len(boxes), -1) @ grid.reshape(-1, depth)).astype(np.float32)


def _axis_weights(edges: Floats, length: int) -> Floats:
    """Weight ``[M, length]`` of each cell in the mean of the points between two edges ``[M, 2]``, in cells."""
    steps = (np.arange(SAMPLES, dtype=np.float32) + np.float32(0.5)) / np.float32(SAMPLES)
    places = edges[:, :1] + (edges[:, 1:] - edges[:, :1]) * steps - np.float32(0.5)  # [M, SAMPLES]
    hats = 1 - np.abs(np.clip(places, 0, length - 1)[:, :, None] - np.arange(length, dtype=np.float32))
    inside = ((places >= -1) & (places <= length))[:, :, None]
    return (np.maximum(hats, 0) * inside).mean(1, dtype=np.float32)
