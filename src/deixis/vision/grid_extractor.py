"""Region extraction, version 2: grids of three strides, one pooling function, 48 boxes. No torch.

Two variants exist. ``v2`` has no box supervision. ``v2-detector`` uses the COCO detector and the keypoints of MoveNet;
its features also have the class probabilities of the detector and the names of parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cached_property

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.threads import several_threads
from deixis.types import ByteGrid, Json, Labels, Regions
from deixis.vision.descriptions import extractor_name
from deixis.vision.frames import join_frames
from deixis.vision.lite2 import DESCRIPTION as BACKBONE
from deixis.vision.lite2 import Lite2, Maps
from deixis.vision.pixels import Picture, as_array
from deixis.vision.pooling import GRID_WEIGHT, POSITION_WEIGHT, SURROUNDINGS, box_means, pool
from deixis.vision.proposals import CocoSsdAndParts, Proposals, Proposer, SelectiveSearch
from deixis.vision.proposals.base import propose_batch
from deixis.vision.proposals.people import NAMES

VERSION = 2
"""Version in descriptions; the numbers of a version do not change."""
CLASS_WEIGHT = 8.0
"""Factor of the detector's class probabilities; the other parts of a feature have lengths of about 10."""

VARIANTS: dict[str, Proposer] = {
    "v2": SelectiveSearch(limit=48, coarseness=(100, 300)),
    "v2-detector": CocoSsdAndParts(),
}


class GridExtractor:
    """A variant of version 2. ``grid`` > 0 adds a feature grid of at most ``grid`` cells per side.

    ``maps`` keeps the grids of the network, from which :func:`repool` computes the features of other boxes. ``top``
    classes are kept for each region.
    """

    def __init__(self, variant: str, grid: int = 0, top: int = 5, maps: bool = False) -> None:
        self.variant, self.grid, self.top, self.maps = variant, grid, top, maps
        self.proposer = VARIANTS[variant]
        self.description = describe(variant)
        self.name = extractor_name(self.description)
        self.classes: int = self.description["pooling"]["classes"]  # of the detector

    @cached_property
    def backbone(self) -> Lite2:
        """The network, loaded when it is first needed."""
        return Lite2()

    def extract(self, image: Picture, boxes: npt.ArrayLike | None = None, image_id: str = "") -> Regions:
        """Return the regions of one photograph; ``boxes [N, 4]`` (original pixels) replace the proposals.

        Given boxes have no classes of the detector.
        """
        if boxes is None:
            return self.extract_batch([image], [image_id])[0]
        rgb = as_array(image)
        return self._regions(rgb, geometry.as_boxes(boxes).astype(np.float32), self.backbone.maps([rgb])[0], None)

    def extract_batch(self, images: Sequence[Picture], image_ids: Sequence[str]) -> list[Regions]:
        """Return the regions of photographs, in one pass of the detector and of the backbone for each input size."""
        given = [as_array(image) for image in images]
        with ThreadPoolExecutor(1) if several_threads() else nullcontext() as pool:  # beside the proposals
            later = None if pool is None else pool.submit(self._maps, given)
            found = propose_batch(self.proposer, given, image_ids)
            maps = self._maps(given) if later is None else later.result()
        return [self._regions(image, of.boxes, each, of) for image, of, each in zip(given, found, maps, strict=True)]

    def _maps(self, images: Sequence[Picture]) -> list[Maps]:
        return self.backbone.maps(images)

    def _regions(
        self, image: npt.NDArray[np.uint8], places: npt.NDArray[np.float32], maps: Maps, found: Proposals | None
    ) -> Regions:
        height, width = image.shape[:2]
        probs = None if found is None else found.class_probs
        return Regions(
            boxes=places,
            features=repool(maps.grids, places, (width, height), self.classes, probs),
            size=(width, height),
            scores=None if found is None else found.scores,
            labels=self._labels(maps, places, (width, height), found),
            grid=self._grid(maps, (width, height)) if self.grid else None,
            extractor=self.name,
            maps=maps.grids if self.maps else (),
        )

    def extract_video(self, frames: Sequence[Picture], image_id: str = "") -> Regions:
        """Return the regions of the sampled frames of one video segment; all frames have the same size."""
        return join_frames([self.extract(frame, image_id=image_id) for frame in frames], image_id)

    def _labels(
        self, maps: Maps, boxes: npt.NDArray[np.float32], size: tuple[int, int], found: Proposals | None
    ) -> Labels:
        """Return the classes of the detector, or those of the classifier where the detector has none."""
        probs = self.backbone.classify(box_means(maps.head, geometry.clip(boxes, *size), size))
        ids = np.argsort(-probs, axis=1, kind="stable")[:, : self.top]
        best = np.take_along_axis(probs, ids, axis=1).astype(np.float16)
        own = Labels(ids, best, self.backbone.classes)
        return own if found is None or found.labels is None else merge_labels(found.labels, own)

    def _grid(self, maps: Maps, size: tuple[int, int]) -> npt.NDArray[np.float16]:
        """Features ``[rows, columns, D]`` of equal tiles of the image."""
        height, width = maps.head.values.shape[:2]
        rows, columns = min(self.grid, height), min(self.grid, width)
        x, y = np.meshgrid(np.arange(columns) / columns, np.arange(rows) / rows)
        tiles = np.stack([x, y, x + 1 / columns, y + 1 / rows], axis=-1).reshape(-1, 4) * np.tile(size, 2)
        cells = repool(maps.grids, tiles, size, self.classes)
        return cells.reshape(rows, columns, -1)


def repool(
    grids: Sequence[ByteGrid],
    boxes: npt.NDArray[np.floating],
    size: tuple[int, int],
    classes: int = 0,
    class_probs: npt.NDArray[np.floating] | None = None,
) -> npt.NDArray[np.float16]:
    """Features ``[N, D]`` of boxes from the grids of a photograph, in the precision of stores.

    ``classes`` is the number of classes of the extractor's detector. Their probabilities are 0 where ``class_probs`` is
    not given, as for moved boxes.
    """
    parts: list[npt.NDArray[np.floating]] = [pool(grids, boxes, size)]
    if classes:
        probs = np.zeros((len(boxes), classes)) if class_probs is None else class_probs
        parts.append(CLASS_WEIGHT * probs)
    return np.concatenate(parts, axis=1).astype(np.float16)


def merge_labels(named: Labels, own: Labels) -> Labels:
    """Return the labels ``named``; regions whose best probability is 0 get the labels ``own``."""
    kept = min(own.ids.shape[1], named.ids.shape[1])
    nameless = named.probs[:, :1] == 0
    return Labels(
        np.where(nameless, own.ids[:, :kept] + len(named.names), named.ids[:, :kept]),
        np.where(nameless, own.probs[:, :kept], named.probs[:, :kept]).astype(np.float16),
        (*named.names, *own.names),
    )


def describe(variant: str) -> Json:
    """Return the description of a variant."""
    proposer = VARIANTS[variant]
    return {
        "version": VERSION,
        "backbone": BACKBONE,
        "proposals": proposer.describe(),
        "pooling": {
            "surroundings": SURROUNDINGS,
            "grid_weight": GRID_WEIGHT,
            "position_weight": POSITION_WEIGHT,
            "class_weight": CLASS_WEIGHT,
            "classes": len(NAMES) if isinstance(proposer, CocoSsdAndParts) else 0,
        },
    }


def variant_of(description: Json) -> str | None:
    """Return the variant with this description; None if this installation has none."""
    named = {"selective-search": "v2", "coco-ssd+parts": "v2-detector"}.get(
        description.get("proposals", {}).get("name")
    )
    return named if named is not None and describe(named) == description else None
