"""Region extraction from photographs and video frames."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from deixis import boxes as geometry
from deixis.device import CPU
from deixis.errors import DeixisError
from deixis.types import Json, Labels, Regions
from deixis.vision.backbone import Backbone, EfficientNetLite, FeatureMap
from deixis.vision.backbone import by_name as backbone_by_name
from deixis.vision.offline import offline
from deixis.vision.proposals import Proposals, Proposer
from deixis.vision.proposals import by_name as proposer_by_name
from deixis.vision.proposals import default as default_proposer
from deixis.vision.roi import roi_mean
from deixis.vision.store import require_extractor

VERSION = 1
"""Version of the extraction; increase it when the same settings give other features than before."""

MAX_NAME, MAX_SIDE, MAX_BOXES = 300, 4096, 10_000
"""Bounds of a stored description: characters of a name, pixels of the backbone's input, boxes of an image."""

Picture = Image.Image | npt.NDArray[np.uint8]


class RegionExtractor:
    """Proposer and backbone that compute the :class:`~deixis.types.Regions` of a photograph.

    ``description`` has all settings that affect the features; ``name`` is a short form of it. A model stores both and
    refuses regions of another extractor. ``grid`` > 0 adds a feature grid of at most ``grid`` cells per side; ``top``
    classes are kept for each region. The grid is not part of the name, because it does not change the regions.

    Features, grids and class probabilities are float16, as in a feature store, so that extracted and stored features
    are equal.
    """

    def __init__(
        self,
        description: Json,
        grid: int = 0,
        top: int = 5,
        parts: tuple[Backbone, Proposer] | None = None,
        name: str = "",
    ) -> None:
        """Without ``parts``, backbone and proposer are built from the description when they are first needed."""
        _check_description(description, name)
        self.description, self.grid, self.top, self.device = description, grid, top, CPU
        self.name = name or extractor_name(description)
        self._given = parts

    @classmethod
    def of(cls, backbone: Backbone, proposer: Proposer, grid: int = 0, top: int = 5) -> Self:
        """Return the extractor that consists of these two parts."""
        description = {"version": VERSION, "backbone": backbone.describe(), "proposals": proposer.describe()}
        return cls(description, grid, top, (backbone, proposer))

    @cached_property
    def _parts(self) -> tuple[Backbone, Proposer]:
        backbone, proposer = self._given or build_parts(self.description)
        backbone.to(self.device)
        return backbone, proposer

    @property
    def backbone(self) -> Backbone:
        """The network whose feature map is pooled."""
        return self._parts[0]

    @property
    def proposer(self) -> Proposer:
        """The source of the boxes."""
        return self._parts[1]

    def to(self, device: torch.device) -> Self:
        """Move the backbone; proposals stay on the CPU, and regions are returned on the CPU."""
        self.device = device
        if "_parts" in vars(self):
            self.backbone.to(device)
        return self

    @property
    def is_detector(self) -> bool:
        """Whether boxes come from a detector, whose scores are probabilities of whole objects."""
        return str(self.description.get("proposals", {}).get("supervision", "")).startswith("boxes")

    @property
    def is_imported(self) -> bool:
        """Whether the regions come from published files and cannot be computed from photographs."""
        return "layout" in self.description

    def accepts(self, regions: Regions) -> bool:
        """Return whether regions were made by this extractor and have a grid if one is needed."""
        return regions.extractor == self.name and (self.grid == 0 or regions.grid is not None)

    def require(self, regions: Regions) -> None:
        """Raise an error that names both extractors if regions were made by another one."""
        require_extractor(regions.extractor, self.name)

    def to_json(self) -> Json:
        """Return ``{"name", "description"}``, as model folders and stores keep it."""
        return {"name": self.name, "description": self.description}

    @torch.inference_mode()
    def extract(self, image: Picture, boxes: npt.ArrayLike | None = None, image_id: str = "") -> Regions:
        """Return the regions of one photograph; ``boxes [N, 4]`` (original pixels) replace the proposals."""
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
            features=_half(features),
            size=(width, height),
            scores=None if found is None else found.scores,
            labels=self._labels(features, None if found is None else found.labels),
            grid=grid_of(maps, size, self.grid) if self.grid else None,
            extractor=self.name,
        )

    def extract_video(self, frames: Sequence[Picture], image_id: str = "") -> Regions:
        """Return the regions of the sampled frames of one video segment; all frames have the same size."""
        parts = [self.extract(frame, image_id=image_id) for frame in frames]
        if len({part.size for part in parts}) != 1:
            raise DeixisError(
                f"the frames of {image_id or 'a video'} have different sizes. Sample them again in one size."
            )
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

    def _labels(self, features: torch.Tensor, named: Labels | None) -> Labels | None:
        """Return the classes of the detector if it has any, else those of the backbone."""
        if not self.backbone.classes:
            return None if named is None else Labels(named.ids, named.probs.astype(np.float16), named.names)
        best = self.backbone.classify(features).topk(min(self.top, len(self.backbone.classes)), dim=1)
        ids, probs = best.indices.cpu().numpy(), _half(best.values)
        if named is None:
            return Labels(ids, probs, self.backbone.classes)
        kept = min(ids.shape[1], named.ids.shape[1])
        nameless = named.probs[:, :1] == 0
        return Labels(
            np.where(nameless, ids[:, :kept] + len(named.names), named.ids[:, :kept]),
            np.where(nameless, probs[:, :kept], named.probs[:, :kept]).astype(np.float16),
            (*named.names, *self.backbone.classes),
        )


def image_map(backbone: Backbone, image: Picture, cells: int) -> npt.NDArray[np.float16]:
    """Return the feature grid of a photograph, with at most this many cells per side."""
    height, width = as_array(image).shape[:2]
    size = backbone.input_size(width, height)
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


def default_extractor(proposer: Proposer | None = None, grid: int = 0) -> RegionExtractor:
    """Return EfficientNet-lite2 on the default proposals; no part of it was trained on boxes."""
    return RegionExtractor.of(EfficientNetLite(), proposer or default_proposer(), grid=grid)


def named_extractor(backbone: str, proposals: str, boxes: int = 100, grid: int = 0) -> RegionExtractor:
    """Return the extractor that the command line's options describe; see the two ``by_name`` functions for names."""
    return RegionExtractor.of(backbone_by_name(backbone), proposer_by_name(proposals, boxes), grid=grid)


def build_parts(description: Json) -> tuple[Backbone, Proposer]:
    """Build backbone and proposer from a description; raise if this installation cannot.

    The description may be of others, so that nothing is downloaded for it.
    """
    try:
        wanted = extractor_name(description)
    except (KeyError, TypeError):
        raise DeixisError("the model's extractor is not described, so that only a feature store can be used.") from None
    if "layout" in description:
        raise DeixisError(
            f"the model expects imported features ({wanted}), which cannot be computed from photographs. "
            "Import the features of these images with 'deixis features --from', and give the store with --features."
        )
    attempts: list[str] = []
    try:
        backbone, proposals = description["backbone"], description["proposals"]
        size = f"@{backbone['long_side']}" if backbone["name"] == "efficientnet-lite2" else ""
        packaged = backbone["name"] in ("efficientnet-lite2", "tiny") and ":" not in proposals["name"]
        with nullcontext(attempts) if packaged else offline() as attempts:
            built = named_extractor(backbone["name"] + size, proposals["name"], proposals["limit"])
    except (KeyError, TypeError):
        raise DeixisError(f"this version of deixis does not support the extractor {wanted}. Update deixis.") from None
    except DeixisError as error:
        if not attempts:
            raise
        raise DeixisError(
            f"the extractor {wanted} is not on this machine, and nothing is downloaded for a model or a feature store "
            f"({error}) If you trust its source, download the weights first with: "
            f"deixis regions PHOTO --backbone {backbone['name']}"
        ) from None
    if built.name != wanted:
        raise DeixisError(
            f"the model expects regions from extractor {wanted}, but this installation provides {built.name}. "
            "Give it a feature store made in advance, or install the package versions that it was trained with."
        )
    return built.backbone, built.proposer


def extractor_name(description: Json) -> str:
    """Return the short name of a description: ``efficientnet-lite2+selective-search-1a2b3c4d``."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:8]
    return f"{description['backbone']['name']}+{description['proposals']['name']}-{digest}"


def _check_description(description: Json, name: str) -> None:
    """Raise ValueError if a description has no names, or if its sizes are out of bounds."""
    if not isinstance(description, dict) or not isinstance(name, str) or len(name) > MAX_NAME:
        raise ValueError("an extractor must have a name and a description")
    for part, size, largest in (("backbone", "long_side", MAX_SIDE), ("proposals", "limit", MAX_BOXES)):
        about = description.get(part, {})  # features from elsewhere may have no such part, and parts without a name
        called = about.get("name", "") if isinstance(about, dict) else None
        if not isinstance(called, str) or len(called) > MAX_NAME:
            raise ValueError(f"the {part} of the extractor's description are not valid")
        value = about.get(size, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
            raise ValueError(f"{size} of the extractor's {part} must be 1 to {largest}")


def _half(values: torch.Tensor) -> npt.NDArray[np.float16]:
    with np.errstate(over="ignore"):  # a store refuses values that do not fit
        return values.cpu().numpy().astype(np.float16)


def as_array(image: Picture) -> npt.NDArray[np.uint8]:
    """Convert an RGB image to an array ``[H, W, 3]`` uint8."""
    array = np.asarray(image)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or 0 in array.shape:
        raise ValueError(f"an image must be [H, W, 3] uint8 RGB, not {array.shape} {array.dtype}")
    return array


def in_cells(boxes: geometry.Array, maps: FeatureMap) -> geometry.Array:
    """Convert boxes ``[N, 4]`` from pixels of the network's input to cells of its map, as RoIAlign counts them."""
    # RoIAlign assumes that the first cell is centred at half a stride; here it is centred on the map's origin.
    return (boxes - np.tile(maps.origin, 2)) / maps.stride + 0.5


def resized(image: Picture, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Resize an image to the input size of the backbone, ``[height, width, 3]``."""
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    # reducing_gap: large photographs are first reduced by an integer factor, which is many times faster.
    return np.array(picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0))
