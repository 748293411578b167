"""Selective search: boxes around groups of similar, neighbouring segments; nothing in it has ever seen a box."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from deixis import boxes as geometry
from deixis.vision.proposals.base import Image, Proposals


@dataclass(frozen=True)
class SelectiveSearch:
    """OpenCV's selective search at a reduced size, near-duplicates thinned, ranked and cut to ``limit`` boxes."""

    limit: int = 100
    side: int = 200  # long side of the picture that is searched, pixels
    overlap: float = 0.8  # a box this close (IoU) to a better one is dropped

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """At most ``limit`` boxes, the whole image first."""
        import cv2

        height, width = image.shape[:2]
        scale = min(1.0, self.side / max(height, width))
        small = (max(1, round(width * scale)), max(1, round(height * scale)))
        search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
        search.setBaseImage(cv2.cvtColor(cv2.resize(image, small, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2BGR))
        search.switchToSelectiveSearchFast()
        found = geometry.from_xywh(np.unique(search.process(), axis=0))
        found *= np.tile([width / small[0], height / small[1]], 2)
        scores = geometry.area(found) / (width * height)
        kept = geometry.nms(found, scores, self.overlap)
        boxes = np.concatenate([[[0, 0, width, height]], found[kept]])[: self.limit]
        scores = np.concatenate([[1.0], scores[kept]])[: self.limit]
        return Proposals(boxes.astype(np.float32), scores.astype(np.float32))

    def describe(self) -> dict[str, Any]:
        """The settings as JSON."""
        return {"name": "selective-search", "supervision": "none", **asdict(self)}
