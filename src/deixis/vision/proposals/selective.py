"""Selective search: boxes around groups of similar, neighbouring segments; nothing in it has ever seen a box."""

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
    """OpenCV's selective search at a reduced size, and the boxes that best cover all that it finds.

    OpenCV finds the same few hundred boxes each time and ranks them at random. Here every box found is a guess of
    where something is; larger, squarer guesses that keep off the border weigh more. The boxes kept are those that
    come close to most of the weight (:func:`~deixis.vision.proposals.cover.cover`), so places where many groupings
    agree come first and near-duplicates last. The same picture always gives the same boxes.

    The values were chosen on the validation split; ``experiments/proposals`` has the tables.
    """

    limit: int = 100
    side: int = 180  # long side of the picture that is searched, pixels
    coarseness: tuple[int, ...] = (100, 200, 400)  # k of the graph segmentation: larger k, larger segments
    smooth: float = 0.8  # sigma of the blur before it
    smallest: int = 80  # pixels of the smallest segment
    area_power: float = 0.5  # weight by the share of the image, to this power
    square_power: float = 0.75  # weight by the short side over the long one, to this power
    border: float = 0.7  # weight for each of the image's borders that the box touches
    ramp: tuple[float, float] = (0.4, 0.9)  # IoU from which a box counts as found, and from which as found in full

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """At most ``limit`` boxes, the whole image first; a score is what the box adds to those before it."""
        boxes = self.search(image)
        chosen, gains = cover(boxes, self.weigh(boxes, image), self.limit - 1, self.ramp, whole_image(image))
        return finish(Found(boxes[chosen], gains), image, self.limit)

    def search(self, image: Image) -> npt.NDArray[np.float64]:
        """Every different box ``[N, 4]`` on the way from segments to the whole picture, left to right."""
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
        # Groups grow by likeness of colour, texture, size and fit; once more without colour, for things of many.
        for names in (("Color", "Fill", "Texture", "Size"), ("Fill", "Texture", "Size")):
            together = make.createSelectiveSearchSegmentationStrategyMultiple()
            for name in names:
                together.addStrategy(
                    getattr(make, f"createSelectiveSearchSegmentationStrategy{name}")(), 1 / len(names)
                )
            search.addStrategy(together)
        found = geometry.from_xywh(np.unique(np.asarray(search.process()), axis=0))
        return found * np.tile([width / small[0], height / small[1]], 2)

    def weigh(self, boxes: npt.NDArray[np.float64], image: Image) -> npt.NDArray[np.float64]:
        """How much it matters that each box ``[N, 4]`` is covered ``[N]``."""
        height, width = image.shape[:2]
        wide, high = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        touched = (boxes[:, :2] < 1).sum(axis=1) + (boxes[:, 2:] > np.array([width, height]) - 1).sum(axis=1)
        square = np.minimum(wide, high) / np.maximum(wide, high)
        share = wide * high / (width * height)
        return share**self.area_power * square**self.square_power * self.border**touched

    def describe(self) -> dict[str, Any]:
        """The settings as JSON."""
        return {"name": "selective-search", "supervision": "none", **settings(self)}
