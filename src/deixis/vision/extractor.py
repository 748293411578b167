"""Region extraction from photographs and video frames."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.errors import DeixisError
from deixis.model_folder import require_torch
from deixis.types import Json, Regions, require_extractor
from deixis.vision.classes import imagenet_classes
from deixis.vision.descriptions import check_description, extractor_name
from deixis.vision.frames import join_frames
from deixis.vision.grid_extractor import VERSION as GRID_VERSION
from deixis.vision.grid_extractor import GridExtractor, variant_of
from deixis.vision.offline import offline
from deixis.vision.pixels import Picture, as_array
from deixis.vision.proposals import Proposals, Proposer, TransformersDetector
from deixis.vision.proposals import by_name as proposer_by_name
from deixis.vision.proposals import default as default_proposer
from deixis.vision.proposals.base import propose_batch

if TYPE_CHECKING:  # version 2 needs no torch
    import torch

    from deixis.vision.backbone import Backbone

VERSION = 1
"""Version of the extraction; increase it when the same settings give other features than before."""


class RegionExtractor:
    """Proposer and backbone that compute the :class:`~deixis.types.Regions` of a photograph.

    ``description`` has all settings that affect the features; ``name`` is a short form of it. A model stores both and
    refuses regions of another extractor. ``grid`` > 0 adds a feature grid of at most ``grid`` cells per side; ``top``
    classes are kept for each region. ``maps`` keeps the maps of version 2, from which other boxes can be pooled. Grid
    and maps are not part of the name, because they do not change the regions.

    Features, grids and class probabilities are float16, as in a feature store, so that extracted and stored features
    are equal. A description of version 2 is extracted by :class:`~deixis.vision.grid_extractor.GridExtractor`.
    """

    def __init__(
        self,
        description: Json,
        grid: int = 0,
        top: int = 5,
        parts: tuple[Backbone, Proposer] | None = None,
        name: str = "",
        maps: bool = False,
    ) -> None:
        """Without ``parts``, backbone and proposer are built from the description when they are first needed."""
        check_description(description, name)
        self.description, self.grid, self.top, self.maps = description, grid, top, maps
        self.device: torch.device | str = "cpu"
        self.name = name or extractor_name(description)
        self._given = parts

    @classmethod
    def of(cls, backbone: Backbone, proposer: Proposer, grid: int = 0, top: int = 5) -> Self:
        """Return the extractor that consists of these two parts."""
        description = {"version": VERSION, "backbone": backbone.describe(), "proposals": proposer.describe()}
        return cls(description, grid, top, (backbone, proposer))

    @cached_property
    def _parts(self) -> tuple[Backbone, Proposer]:
        if not self.is_imported:
            require_torch(f"the extractor {self.name} (version 1)")
        import torch

        backbone, proposer = self._given or build_parts(self.description)
        backbone.to(torch.device(self.device))
        if isinstance(proposer, TransformersDetector):
            proposer = replace(proposer, device=str(self.device))
        return backbone, proposer

    @cached_property
    def version2(self) -> GridExtractor | None:
        """The extractor of a description of version 2; None for version 1."""
        if self.description.get("version") != GRID_VERSION:
            return None
        variant = variant_of(self.description)
        if variant is None:
            raise DeixisError(
                f"this version of deixis does not support the extractor {self.name}. Update deixis, or give it a "
                "feature store made in advance."
            )
        return GridExtractor(variant, self.grid, self.top, self.maps)

    @property
    def backbone(self) -> Backbone:
        """The network whose feature map is pooled."""
        return self._parts[0]

    @property
    def proposer(self) -> Proposer:
        """The source of the boxes."""
        return self._parts[1]

    def to(self, device: torch.device) -> Self:
        """Move the backbone and detectors of transformers; other proposals and the regions are on the CPU."""
        self.device = device
        if "_parts" in vars(self):  # version 2 always runs on the CPU
            self._given = self._parts
            del self._parts
        return self

    @property
    def backend(self) -> str:
        """What runs the backbone: "onnxruntime" (version 2), "torch" (version 1), or "none" for imported features."""
        if self.is_imported:
            return "none"
        return "onnxruntime" if self.description.get("version") == GRID_VERSION else "torch"

    @property
    def is_detector(self) -> bool:
        """Whether boxes come from a detector, whose scores are probabilities of whole objects."""
        return str(self.description.get("proposals", {}).get("supervision", "")).startswith("boxes")

    @property
    def is_imported(self) -> bool:
        """Whether the regions come from published files and cannot be computed from photographs."""
        return "layout" in self.description

    def accepts(self, regions: Regions) -> bool:
        """Return whether regions were made by this extractor and have grid and maps if they are needed."""
        gridded = self.grid == 0 or regions.grid is not None
        return regions.extractor == self.name and gridded and (not self.maps or bool(regions.maps))

    def require(self, regions: Regions) -> None:
        """Raise an error that names both extractors if regions were made by another one."""
        require_extractor(regions.extractor, self.name)

    def to_json(self) -> Json:
        """Return ``{"name", "description"}``, as model folders and stores keep it."""
        return {"name": self.name, "description": self.description}

    def extract(self, image: Picture, boxes: npt.ArrayLike | None = None, image_id: str = "") -> Regions:
        """Return the regions of one photograph; ``boxes [N, 4]`` (original pixels) replace the proposals."""
        if boxes is None:
            return self.extract_batch([image], [image_id])[0]
        if self.version2 is not None:
            return replace(self.version2.extract(image, boxes, image_id), extractor=self.name)
        return self._pooled([as_array(image)], [geometry.as_boxes(boxes).astype(np.float32)], [None])[0]

    def extract_batch(self, images: Sequence[Picture], image_ids: Sequence[str]) -> list[Regions]:
        """Return the regions of photographs, in one pass of the detector and of the backbone for each input size."""
        if self.version2 is not None:
            return [replace(each, extractor=self.name) for each in self.version2.extract_batch(images, image_ids)]
        given = [as_array(image) for image in images]
        found = propose_batch(self.proposer, given, image_ids)
        return self._pooled(given, [each.boxes for each in found], found)

    def _pooled(
        self,
        images: Sequence[Picture],
        places: Sequence[npt.NDArray[np.float32]],
        found: Sequence[Proposals | None],
    ) -> list[Regions]:
        """Pool the features of boxes ``places`` in the backbone's maps."""
        from deixis.vision.map_extractor import pool_regions

        pooled = pool_regions(self.backbone, images, places, found, self.grid, self.top)
        return [replace(each, extractor=self.name) for each in pooled]

    @property
    def has_imagenet_classes(self) -> bool:
        """Whether the backbone has a classifier of the ImageNet classes; imported features have no backbone here."""
        if self.is_imported:
            return False
        return self.version2 is not None or self.backbone.classes == imagenet_classes()

    def classify_image(self, image: Picture, side: int) -> npt.NDArray[np.float64]:
        """Class probabilities ``[C]`` of a whole photograph, stretched to a square of about ``side`` pixels."""
        if self.version2 is not None:
            return self.version2.backbone.classify_image(image, side).astype(np.float64)
        from deixis.vision.map_extractor import classify_image

        return classify_image(self.backbone, image, side)

    def classify_regions(self, regions: Regions, classes: Sequence[int]) -> npt.NDArray[np.float64]:
        """Probability ``[N]`` that a region has one of these classes of the classifier.

        Version 1 computes it from the features. Version 2 uses the best classes that the regions have.
        """
        if self.version2 is None:
            from deixis.vision.map_extractor import classify_features

            return classify_features(self.backbone, regions.features, classes, self.device)
        if regions.labels is None:
            return np.zeros(len(regions))
        first = len(regions.labels.names) - len(imagenet_classes())  # classes of a detector come before
        wanted = np.isin(regions.labels.ids, np.asarray(classes) + first)
        return np.where(wanted, regions.labels.probs, 0).sum(1, dtype=np.float64)

    def extract_video(self, frames: Sequence[Picture], image_id: str = "") -> Regions:
        """Return the regions of the sampled frames of one video segment; all frames have the same size."""
        return join_frames([self.extract(frame, image_id=image_id) for frame in frames], image_id)


def default_extractor(proposer: Proposer | None = None, grid: int = 0) -> RegionExtractor:
    """Return EfficientNet-lite2 on the default proposals; no part of it was trained on boxes."""
    from deixis.vision.backbone import EfficientNetLite

    return RegionExtractor.of(EfficientNetLite(), proposer or default_proposer(), grid=grid)


def named_extractor(backbone: str, proposals: str, boxes: int = 100, grid: int = 0) -> RegionExtractor:
    """Return the extractor that the command line's options describe; see the two ``by_name`` functions for names."""
    from deixis.vision.backbone import by_name

    return RegionExtractor.of(by_name(backbone), proposer_by_name(proposals, boxes), grid=grid)


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
