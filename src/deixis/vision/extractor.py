"""The extractor: a photograph becomes :class:`~deixis.types.Regions`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from deixis import boxes as geometry
from deixis.errors import DeixisError
from deixis.types import Json, Labels, Regions
from deixis.vision.backbone import Backbone, EfficientNetLite, FeatureMap
from deixis.vision.backbone import by_name as backbone_by_name
from deixis.vision.proposals import Proposals, Proposer
from deixis.vision.proposals import by_name as proposer_by_name
from deixis.vision.proposals import default as default_proposer
from deixis.vision.roi import roi_mean

VERSION = 1
"""Raised when the same settings would give other numbers than before, so that old features are not taken for new."""

Picture = Image.Image | npt.NDArray[np.uint8]


class Extractor:
    """A backbone and a proposer: what every photograph goes through before any model sees it.

    ``grid`` keeps a feature grid of the whole image too, of at most so many cells a side (0: no grid);
    ``top`` classes are kept per region. ``name`` is short and exact: a model remembers it and refuses regions of
    another extractor. The grid is not part of it, because the regions are the same with and without.
    """

    def __init__(self, backbone: Backbone, proposer: Proposer, grid: int = 0, top: int = 5) -> None:
        self.backbone, self.proposer = backbone, proposer
        self.grid, self.top = grid, top
        self.name = extractor_name(self.describe())

    def to(self, device: torch.device) -> Self:
        """Move the backbone; proposals stay on the CPU, and regions come back to it."""
        self.backbone.to(device)
        return self

    def describe(self) -> Json:
        """Everything that the numbers depend on, as JSON."""
        return {
            "version": VERSION,
            "backbone": self.backbone.describe(),
            "proposals": self.proposer.describe(),
        }

    @torch.inference_mode()
    def extract(self, image: Picture, boxes: npt.ArrayLike | None = None, image_id: str = "") -> Regions:
        """The regions of one photograph; ``boxes [N, 4]`` (original pixels) take the place of the proposals."""
        if isinstance(image, Image.Image) and image.mode != "RGB":
            image = image.convert("RGB")
        pixels = as_array(image)
        height, width = pixels.shape[:2]
        found: Proposals | None = None
        if boxes is None:
            found = self.proposer.propose(pixels, image_id)
            places = found.boxes
        else:
            places = geometry.as_boxes(boxes).astype(np.float32)
        size = self.backbone.input_size(width, height)
        maps = self.backbone.feature_map(torch.from_numpy(resized(image, size))[None])
        scale = np.tile(np.divide(size, (width, height)), 2)
        cells = in_cells(geometry.clip(places, width, height) * scale, maps)
        features = roi_mean(maps.values[0], torch.from_numpy(cells.astype(np.float32)).to(maps.values.device))
        return Regions(
            boxes=places,
            features=features.cpu().numpy(),
            size=(width, height),
            scores=None if found is None else found.scores,
            labels=self._labels(features, None if found is None else found.labels),
            grid=self._grid(maps, size) if self.grid else None,
            extractor=self.name,
        )

    def extract_video(self, frames: Sequence[Picture], image_id: str = "") -> Regions:
        """The regions of the sampled frames of one video segment, all of one size, as one value."""
        parts = [self.extract(frame, image_id=image_id) for frame in frames]
        if len({part.size for part in parts}) != 1:
            raise DeixisError(f"the frames of {image_id or 'a video'} are not all of one size; sample them again.")
        labels = [part.labels for part in parts if part.labels is not None]
        return Regions(
            boxes=np.concatenate([part.boxes for part in parts]),
            features=np.concatenate([part.features for part in parts]),
            size=parts[0].size,
            scores=np.concatenate([part.scores for part in parts if part.scores is not None]),
            labels=Labels(
                np.concatenate([part.ids for part in labels]),
                np.concatenate([part.probs for part in labels]),
                labels[0].names,
            )
            if labels
            else None,
            frames=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
            grid=np.stack([part.grid for part in parts if part.grid is not None]) if self.grid else None,
            extractor=self.name,
        )

    def _grid(self, maps: FeatureMap, size: tuple[int, int]) -> npt.NDArray[np.float32]:
        """Features ``[rows, columns, D]`` of tiles that cover the image evenly; ``size`` is the network's input.

        The cells of a map do not: the outer ones may be centred on the outer pixels.
        """
        height, width = maps.values.shape[2:]
        rows, columns = min(self.grid, height), min(self.grid, width)
        right, bottom = np.arange(1, columns + 1) / columns, np.arange(1, rows + 1) / rows
        x, y = (edges.ravel() for edges in np.meshgrid(right, bottom))
        tiles = np.stack([x - 1 / columns, y - 1 / rows, x, y], axis=1) * np.tile(size, 2)
        # a tile as small as a cell is read at its centre, a larger one in the mean of its cells
        samples = math.ceil(max(height / rows, width / columns))
        cells = torch.from_numpy(in_cells(tiles, maps).astype(np.float32)).to(maps.values.device)
        return roi_mean(maps.values[0], cells, samples).view(rows, columns, -1).cpu().numpy()

    def _labels(self, features: torch.Tensor, named: Labels | None) -> Labels | None:
        """A detector's own names where it has any, which know people too; else the backbone's."""
        if not self.backbone.classes:
            return named
        best = self.backbone.classify(features).topk(min(self.top, len(self.backbone.classes)), dim=1)
        ids, probs = best.indices.cpu().numpy(), best.values.cpu().numpy()
        if named is None:
            return Labels(ids, probs, self.backbone.classes)
        kept = min(ids.shape[1], named.ids.shape[1])
        nameless = named.probs[:, :1] == 0
        return Labels(
            np.where(nameless, ids[:, :kept] + len(named.names), named.ids[:, :kept]),
            np.where(nameless, probs[:, :kept], named.probs[:, :kept]),
            (*named.names, *self.backbone.classes),
        )


def default_extractor(proposer: Proposer | None = None, grid: int = 0) -> Extractor:
    """EfficientNet-lite2 on the default proposals: no box was ever shown to any part of it."""
    return Extractor(EfficientNetLite(), proposer or default_proposer(), grid=grid)


def named_extractor(backbone: str, proposals: str, boxes: int = 100, grid: int = 0) -> Extractor:
    """The extractor that the command line's options describe; see the two ``by_name`` functions for the names."""
    return Extractor(backbone_by_name(backbone), proposer_by_name(proposals, boxes), grid=grid)


def extractor_from(description: Json, grid: int = 0) -> Extractor:
    """The extractor that a description tells of, or a sentence why this installation cannot build it."""
    wanted = extractor_name(description)
    try:
        backbone, proposals = description["backbone"], description["proposals"]
        size = f"@{backbone['long_side']}" if backbone["name"] == "efficientnet-lite2" else ""
        built = named_extractor(backbone["name"] + size, proposals["name"], proposals["limit"], grid)
    except (KeyError, TypeError):
        raise DeixisError(f"the extractor {wanted} is not one that this version knows how to build.") from None
    if built.name != wanted:
        raise DeixisError(
            f"the model wants regions of the extractor {wanted}, and this installation makes {built.name}; "
            "give it regions made in advance, or install the versions it was trained with."
        )
    return built


def extractor_name(description: Json) -> str:
    """The short name of a description: ``efficientnet-lite2+selective-search-1a2b3c4d``."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:8]
    return f"{description['backbone']['name']}+{description['proposals']['name']}-{digest}"


def as_array(image: Picture) -> npt.NDArray[np.uint8]:
    """``[H, W, 3]`` uint8 of an RGB image, Pillow's or such an array itself."""
    array = np.asarray(image)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        raise ValueError(f"an image is [H, W, 3] uint8 RGB, not {array.shape} {array.dtype}")
    return array


def in_cells(boxes: geometry.Array, maps: FeatureMap) -> geometry.Array:
    """Boxes ``[N, 4]`` in pixels of the network's input, in cells of its map as RoIAlign counts them."""
    # RoIAlign takes the first cell to be centred at half a stride; here it is centred on the map's own origin.
    return (boxes - np.tile(maps.origin, 2)) / maps.stride + 0.5


def resized(image: Picture, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """The image at the size that the backbone wants, ``[height, width, 3]``."""
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    # reducing_gap: a big photograph is first shrunk by whole numbers, which is many times faster and looks the same.
    return np.array(picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0))
