"""Proposals of SSD-MobileNetV2, trained on COCO boxes, with weights from a pip package and OpenCV's dnn."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.coco import CLASSES
from deixis.vision.networks import CvNetwork, detect_model
from deixis.vision.proposals.base import Found, Image, Proposals, finish, settings, whole_image
from deixis.vision.proposals.cover import cover
from deixis.vision.proposals.selective import SelectiveSearch

SHA256 = {
    "frozen_inference_graph.pb": "2a8d8a89d695842e60d8c6d144181100555563e21acf2fa1e8f561fec5c3c6ad",
    "ssd_mobilenet_v2_coco_2018_03_29.pbtxt": "af72da998866289c47021ca4df447951564a787f00874b59632537546b91fc54",
}
"""Weights and graph in the package, and their SHA-256."""
SUPERVISION = "boxes: COCO (SSD-MobileNetV2)"
SIDE = 300  # input of the network in pixels; the image is stretched to this square
OUTPUTS = ("BoxEncodingPredictor/concat", "ClassPredictor/concat/sigmoid", "PriorBox/concat")


Anchors = tuple[npt.NDArray[np.floating], npt.NDArray[np.float32]]
"""Boxes of one image and their class probabilities."""


@dataclass(frozen=True)
class CocoSsd:
    """Boxes of the detector of any class, reduced to ``limit`` different boxes.

    The anchors are taken before the detector's non-maximum suppression, which keeps boxes with a low class probability,
    such as clothes, hills and guitars. The weight of an anchor is the probability of its best class;
    :func:`~deixis.vision.proposals.cover.cover` selects among the best anchors.
    """

    limit: int = 100
    anchors: int = 600  # number of best anchors used, of 1,917
    ramp: tuple[float, float] = (0.4, 0.9)  # IoU from which a box counts as covered in part, and in full
    top: int = 5  # classes kept for each box

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Propose at most ``limit`` boxes with COCO classes, the whole image first; scores are those of the best class.

        The order is that of the selection: a box far from all others can precede a more probable one that overlaps.
        """
        return self.propose_batch([image])[0]

    def propose_batch(self, images: Sequence[Image]) -> list[Proposals]:
        """Propose boxes of several images, in one pass of the network."""
        found = []
        for image, (boxes, probs) in zip(images, self.detect(images), strict=True):
            chosen, _ = cover(boxes, probs.max(axis=1), self.limit - 1, self.ramp, whole_image(image))
            found.append(finish(_classified(boxes[chosen], probs[chosen], self.top), image, self.limit))
        return found

    def detect(self, images: Sequence[Image]) -> list[Anchors]:
        """Return the best anchors of each image: boxes ``[N, 4]`` inside it and class probabilities ``[N, 90]``."""
        found = []
        for image, (shares, probs) in zip(images, _run(images), strict=True):
            height, width = image.shape[:2]
            strong = np.argsort(-probs.max(axis=1), kind="stable")[: self.anchors]
            boxes = geometry.clip(geometry.from_normalised(shares[strong], width, height), width, height)
            inside = geometry.area(boxes) > 0
            found.append((boxes[inside], probs[strong][inside]))
        return found

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return {"name": "coco-ssd", "supervision": SUPERVISION, **settings(self)}


@dataclass(frozen=True)
class CocoSsdAndSearch:
    """Joint proposals of the COCO detector and of selective search."""

    limit: int = 100
    anchors: int = 300
    share: float = 0.5  # share of the detector in the total weight
    ramp: tuple[float, float] = (0.4, 0.9)
    top: int = 5

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Propose at most ``limit`` boxes, the whole image first; searched boxes have no class and score 0."""
        [(seen, probs)] = CocoSsd(anchors=self.anchors).detect([image])
        grouped = SelectiveSearch().search(image)
        scores, weights = probs.max(axis=1), SelectiveSearch().weigh(grouped, image)
        boxes = np.concatenate([seen, grouped])
        votes = np.concatenate([self.share * scores / scores.sum(), (1 - self.share) * weights / weights.sum()])
        probs = np.concatenate([probs, np.zeros((len(grouped), probs.shape[1]), dtype=np.float32)])
        chosen, _ = cover(boxes, votes, self.limit - 1, self.ramp, whole_image(image))
        return finish(_classified(boxes[chosen], probs[chosen], self.top), image, self.limit)

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON, with those of selective search."""
        own = {"name": "coco-ssd+ss", "supervision": SUPERVISION, **settings(self)}
        return {**own, "search": SelectiveSearch().describe()}


def _classified(boxes: npt.NDArray[np.floating], probs: npt.NDArray[np.float32], top: int) -> Found:
    """Add the best classes to boxes; a row of zeros in the probabilities ``[N, 90]`` has none."""
    best = np.argsort(-probs, axis=1, kind="stable")[:, :top]
    found = np.take_along_axis(probs, best, axis=1)
    return Found(boxes, found[:, 0], CLASSES, np.where(found > 0, best, -1), found)


def _run(images: Sequence[Image]) -> list[Anchors]:
    """Normalised boxes ``[1917, 4]`` and class probabilities ``[1917, 90]`` of every anchor, of each image."""
    import cv2

    moves, probs, priors = _network().run(cv2.dnn.blobFromImages(list(images), size=(SIDE, SIDE)))
    anchors, variances = priors.reshape(2, -1, 4)
    moves = moves.reshape(len(images), -1, 4) * variances
    probs = probs.reshape(*moves.shape[:2], -1)[:, :, 1:]
    return [
        (geometry.apply_deltas(anchors, each).astype(np.float32), of) for each, of in zip(moves, probs, strict=True)
    ]


@functools.lru_cache(maxsize=1)
def _network() -> CvNetwork:
    weights, graph = (detect_model(file, expected) for file, expected in SHA256.items())
    return CvNetwork(weights, graph, OUTPUTS)
