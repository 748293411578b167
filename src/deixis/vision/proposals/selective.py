"""Selective search: boxes around groups of similar neighbouring segments, without box supervision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.vision.proposals.base import Found, Image, Proposals, finish, settings, whole_image
from deixis.vision.proposals.cover import cover


@dataclass(frozen=True)
class SelectiveSearch:
    """Selective search of OpenCV on a reduced image, and a selection that covers its boxes.

    OpenCV finds a few hundred boxes and ranks them at random. Here each box has a weight: larger and squarer boxes have
    more, boxes at the border less. :func:`~deixis.vision.proposals.cover.cover` selects the boxes that cover most of
    the weight, so near-duplicates come last. The same image always gives the same boxes.

    The values were chosen on the validation split; ``experiments/proposals`` has the tables.
    """

    limit: int = 100
    side: int = 180  # long side of the reduced image, pixels
    coarseness: tuple[int, ...] = (100, 200, 400)  # k of the graph segmentation; a larger k gives larger segments
    smooth: float = 0.8  # sigma of the blur before the segmentation
    smallest: int = 80  # pixels of the smallest segment
    area_power: float = 0.5  # weight by the share of the image, to this power
    square_power: float = 0.75  # weight by the short side over the long one, to this power
    border: float = 0.7  # factor for each image border that the box touches
    ramp: tuple[float, float] = (0.4, 0.9)  # IoU from which a box counts as covered in part, and in full

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Propose at most ``limit`` boxes, the whole image first; a score is the gain in coverage of the box."""
        boxes = self.search(image)
        chosen, gains = cover(boxes, self.weigh(boxes, image), self.limit - 1, self.ramp, whole_image(image))
        return finish(Found(boxes[chosen], gains), image, self.limit)

    def search(self, image: Image) -> npt.NDArray[np.float64]:
        """Return all unique boxes ``[N, 4]`` of the segment groups, left to right."""
        import cv2

        height, width = image.shape[:2]
        scale = min(1.0, self.side / max(height, width))
        small = (max(1, round(width * scale)), max(1, round(height * scale)))
        picture = cv2.resize(image, small, interpolation=cv2.INTER_AREA)
        make = cv2.ximgproc.segmentation
        search = make.createSelectiveSearchSegmentation()
        search.setBaseImage(picture)
        for colours in (cv2.COLOR_RGB2HSV, cv2.COLOR_RGB2Lab):
            search.addImage(cv2.cvtColor(picture, colours))
        for k in self.coarseness:
            search.addGraphSegmentation(make.createGraphSegmentation(self.smooth, k, self.smallest))
        # Groups merge by similarity of colour, texture, size and fill, and again without colour.
        for names in (("Color", "Fill", "Texture", "Size"), ("Fill", "Texture", "Size")):
            strategy = make.createSelectiveSearchSegmentationStrategyMultiple()
            for name in names:
                strategy.addStrategy(
                    getattr(make, f"createSelectiveSearchSegmentationStrategy{name}")(), 1 / len(names)
                )
            search.addStrategy(strategy)
        found = geometry.from_xywh(np.unique(np.asarray(search.process()), axis=0))
        return found * np.tile([width / small[0], height / small[1]], 2)

    def weigh(self, boxes: npt.NDArray[np.float64], image: Image) -> npt.NDArray[np.float64]:
        """Weights ``[N]`` of boxes ``[N, 4]`` for the selection."""
        height, width = image.shape[:2]
        wide, high = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        touched = (boxes[:, :2] < 1).sum(axis=1) + (boxes[:, 2:] > np.array([width, height]) - 1).sum(axis=1)
        square = np.minimum(wide, high) / np.maximum(wide, high)
        share = wide * high / (width * height)
        return share**self.area_power * square**self.square_power * self.border**touched

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return {"name": "selective-search", "supervision": "none", **settings(self)}
