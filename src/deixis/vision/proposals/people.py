"""Proposals of the COCO detector with the body parts and clothes of people, from the keypoints of MoveNet."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data.coco import CLASSES
from deixis.types import Labels
from deixis.vision.networks import LiteNetwork, detect_model
from deixis.vision.proposals import coco_ssd
from deixis.vision.proposals.base import Image, Proposals, settings, whole_image
from deixis.vision.proposals.coco_ssd import CocoSsd
from deixis.vision.proposals.cover import cover
from deixis.vision.proposals.parts import PARTS, part_boxes

MOVENET = "movenet_lightning.tflite"
MOVENET_SHA256 = "0fac2226112d0371903ca86e3853cec24ef603a0b2f96f589b180f0ebdd135ab"
SUPERVISION = f"{coco_ssd.SUPERVISION}; keypoints: COCO and others (MoveNet Lightning)"
SIDE = 192  # input of MoveNet in pixels
CROP = 1.25  # side of the square around a person, as a multiple of the person's longer side
PERSON = CLASSES.index("person")
NAMES = (*CLASSES, *PARTS)  # of ``class_probs``


@dataclass(frozen=True)
class CocoSsdAndParts:
    """Boxes of the detector, and of the body parts and clothes of the largest people."""

    limit: int = 48
    anchors: int = 300
    ramp: tuple[float, float] = (0.4, 0.9)
    people: int = 3
    person_prob: float = 0.2  # minimum probability of a person with parts
    same: float = 0.9  # IoU with another part above which a part is dropped
    top: int = 5

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Propose at most ``limit`` boxes: the whole image, parts of people, then boxes of the detector."""
        return self.propose_batch([image])[0]

    def propose_batch(self, images: Sequence[Image]) -> list[Proposals]:
        """Propose boxes of several images, in one pass of the detector."""
        found = CocoSsd(anchors=self.anchors).detect(images)
        return [self._propose(*each) for each in zip(images, found, strict=True)]

    def _propose(self, image: Image, anchors: coco_ssd.Anchors) -> Proposals:
        height, width = image.shape[:2]
        boxes, probs = anchors
        names, parts, part_scores = self._parts(image, boxes, probs[:, PERSON])
        room = max(0, self.limit - 1 - len(parts))
        chosen, _ = cover(boxes, probs.max(axis=1), room, self.ramp, whole_image(image))
        classes = np.zeros((1 + len(parts) + len(chosen), len(NAMES)), dtype=np.float32)
        classes[np.arange(1, 1 + len(parts)), [NAMES.index(name, len(CLASSES)) for name in names]] = part_scores
        classes[1 + len(parts) :, : len(CLASSES)] = probs[chosen]
        places = np.concatenate([whole_image(image)[None], parts, boxes[chosen]])
        scores = np.concatenate([[1.0], part_scores, probs[chosen].max(axis=1)])
        rows = np.flatnonzero((places[:, 2:] - places[:, :2]).min(axis=1) >= 1)[: self.limit]
        return Proposals(
            geometry.clip(places[rows], width, height).astype(np.float32),
            scores[rows].astype(np.float32),
            _labels(classes[rows], self.top),
            classes[rows],
        )

    def _parts(
        self, image: Image, boxes: npt.NDArray[np.floating], probs: npt.NDArray[np.floating]
    ) -> tuple[list[str], npt.NDArray[np.floating], npt.NDArray[np.floating]]:
        """Names, boxes ``[P, 4]`` inside the image and scores ``[P]`` of the parts of the largest people."""
        height, width = image.shape[:2]
        kept = [i for i in geometry.nms(boxes, probs, 0.5) if probs[i] >= self.person_prob]
        largest = [kept[i] for i in np.argsort(-geometry.area(boxes[kept]), kind="stable")[: self.people]]
        found: list[tuple[str, npt.NDArray[np.floating], float]] = []
        for i in largest:
            points = keypoints(image, boxes[i])
            for name, box in part_boxes(points, boxes[i]):
                inside = geometry.clip(box, width, height)
                if (inside[2:] - inside[:2]).min() >= 1:
                    found.append((name, inside, float(probs[i])))
        places = geometry.as_boxes([box for _, box, _ in found])
        scores = np.array([score for _, _, score in found])
        # Stable: of two parts in the same place, the earlier one in the order of part_boxes stays.
        rows = sorted(geometry.nms(places, scores, self.same).tolist())[: self.limit - 1]
        return [found[i][0] for i in rows], places[rows], scores[rows]

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return {
            "name": "coco-ssd+parts",
            "supervision": SUPERVISION,
            **settings(self),
            "keypoints_sha256": MOVENET_SHA256,
        }


def keypoints(image: Image, person: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Keypoints ``[17, 3]`` (x, y in image pixels, score) of the person in a box ``[4]``, in the order of COCO."""
    import cv2

    x, y = geometry.centre(person)
    scale = SIDE / (float((person[2:] - person[:2]).max()) * CROP)
    matrix = np.array([[scale, 0, SIDE / 2 - scale * x], [0, scale, SIDE / 2 - scale * y]])
    crop = cv2.warpAffine(image, matrix, (SIDE, SIDE), flags=cv2.INTER_LINEAR)
    down, across, scores = _movenet().run(crop[None])[0][0, 0].astype(np.float64).T
    return np.stack([(across - 0.5) * SIDE / scale + x, (down - 0.5) * SIDE / scale + y, scores], axis=1)


def _labels(classes: npt.NDArray[np.float32], top: int) -> Labels:
    """Best classes of each box; a box without any has the empty name."""
    best = np.argsort(-classes, axis=1, kind="stable")[:, :top]
    probs = np.take_along_axis(classes, best, axis=1)
    return Labels(np.where(probs > 0, best + 1, 0), probs, ("", *NAMES))


@functools.lru_cache(maxsize=1)
def _movenet() -> LiteNetwork:
    return LiteNetwork(detect_model(MOVENET, MOVENET_SHA256))
