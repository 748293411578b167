"""Region extraction, version 1: the feature map of a torch network, pooled at boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from deixis import boxes as geometry
from deixis.types import Labels, Regions
from deixis.vision.backbone import Backbone
from deixis.vision.feature_map import FeatureMap
from deixis.vision.grid_extractor import merge_labels
from deixis.vision.pixels import Picture, as_array, resized, same_shape
from deixis.vision.proposals import Proposals
from deixis.vision.roi import roi_mean


@torch.inference_mode()
def pool_regions(
    backbone: Backbone,
    images: Sequence[Picture],
    places: Sequence[npt.NDArray[np.float32]],
    found: Sequence[Proposals | None],
    grid: int,
    top: int,
) -> list[Regions]:
    """Pool the features of boxes ``places`` of RGB images in the backbone's maps; images of one size share a pass."""
    whole = [as_array(image).shape[1::-1] for image in images]
    sizes = [backbone.input_size(*size) for size in whole]
    made: dict[int, Regions] = {}
    for rows in same_shape(sizes):
        batch = np.stack([resized(images[row], sizes[row]) for row in rows])
        maps = backbone.feature_map(torch.from_numpy(batch))
        for place, row in enumerate(rows):
            one = replace(maps, values=maps.values[place : place + 1])
            cells = in_cells(
                geometry.clip(places[row], *whole[row]) * np.tile(np.divide(sizes[row], whole[row]), 2), one
            )
            features = roi_mean(one.values[0], torch.from_numpy(cells.astype(np.float32)).to(one.values.device))
            proposed = found[row]
            made[row] = Regions(
                boxes=places[row],
                features=_half(features),
                size=whole[row],
                scores=None if proposed is None else proposed.scores,
                labels=_labels(backbone, features, None if proposed is None else proposed.labels, top),
                grid=grid_of(one, sizes[row], grid) if grid else None,
            )
    return [made[row] for row in range(len(images))]


@torch.inference_mode()
def classify_image(backbone: Backbone, image: Picture, side: int) -> npt.NDArray[np.float64]:
    """Class probabilities ``[C]`` of a whole photograph, stretched to a square of about ``side`` pixels."""
    maps = backbone.feature_map(torch.from_numpy(resized(image, (side, side)))[None])
    return backbone.classify(maps.values.mean((2, 3)))[0].cpu().double().numpy()


@torch.inference_mode()
def classify_features(
    backbone: Backbone, features: npt.NDArray[np.floating], classes: Sequence[int], device: torch.device | str
) -> npt.NDArray[np.float64]:
    """Probability ``[N]`` that features of regions have one of these classes."""
    given = torch.as_tensor(features, dtype=torch.float32, device=device)
    return backbone.classify(given)[:, list(classes)].sum(1).cpu().double().numpy()


def _labels(backbone: Backbone, features: torch.Tensor, named: Labels | None, top: int) -> Labels | None:
    """Return the classes of the detector if it has any, else those of the backbone."""
    if not backbone.classes:
        return None if named is None else Labels(named.ids, named.probs.astype(np.float16), named.names)
    best = backbone.classify(features).topk(min(top, len(backbone.classes)), dim=1)
    ids, probs = best.indices.cpu().numpy(), _half(best.values)
    own = Labels(ids, probs, backbone.classes)
    return own if named is None else merge_labels(named, own)


def image_map(backbone: Backbone, image: Picture, cells: int, scale: float = 1.0) -> npt.NDArray[np.float16]:
    """Return the feature grid of a photograph, with at most this many cells per side; ``scale`` enlarges the input."""
    height, width = as_array(image).shape[:2]
    across, down = backbone.input_size(width, height)
    size = round(scale * across), round(scale * down)
    with torch.inference_mode():
        return grid_of(backbone.feature_map(torch.from_numpy(resized(image, size))[None]), size, cells)


def grid_of(maps: FeatureMap, size: tuple[int, int], cells: int) -> npt.NDArray[np.float16]:
    """Features ``[rows, columns, D]`` of equal tiles of the image; ``size`` is the network's input size.

    Cells of the map are not such tiles: the outer cells may be centred on the outer pixels.
    """
    height, width = maps.values.shape[2:]
    rows, columns = min(cells, height), min(cells, width)
    right, bottom = np.arange(1, columns + 1) / columns, np.arange(1, rows + 1) / rows
    x, y = (edges.ravel() for edges in np.meshgrid(right, bottom))
    tiles = np.stack([x - 1 / columns, y - 1 / rows, x, y], axis=1) * np.tile(size, 2)
    # a tile of one cell is sampled at its centre, a larger one is the mean of its cells
    samples = math.ceil(max(height / rows, width / columns))
    places = torch.from_numpy(in_cells(tiles, maps).astype(np.float32)).to(maps.values.device)
    return _half(roi_mean(maps.values[0], places, samples).view(rows, columns, -1))


def _half(values: torch.Tensor) -> npt.NDArray[np.float16]:
    with np.errstate(over="ignore"):  # a store refuses values that do not fit
        return values.cpu().numpy().astype(np.float16)


def in_cells(boxes: geometry.Array, maps: FeatureMap) -> geometry.Array:
    """Convert boxes ``[N, 4]`` from pixels of the network's input to cells of its map, as RoIAlign counts them."""
    # RoIAlign assumes that the first cell is centred at half a stride; here it is centred on the map's origin.
    return (boxes - np.tile(maps.origin, 2)) / maps.stride + 0.5
