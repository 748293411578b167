"""What every way of proposing boxes gives, and what it must offer."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.types import Labels

Image = npt.NDArray[np.uint8]  # [H, W, 3] RGB


@dataclass(frozen=True, eq=False)
class Proposals:
    """Boxes that may hold something, best first; the first box is always the whole image."""

    boxes: npt.NDArray[np.float32]  # [N, 4] pixels of the original image, see deixis.boxes
    scores: npt.NDArray[np.float32]  # [N] the method's own, comparable within one image; the order need not follow it
    labels: Labels | None = None  # the detector's own classes, where it has any; the whole image has none ("")

    def __post_init__(self) -> None:
        if self.boxes.ndim != 2 or self.boxes.shape[1] != 4 or len(self.boxes) == 0:
            raise ValueError(f"proposals are [N, 4] boxes with N >= 1, not {self.boxes.shape}")
        if self.scores.shape != self.boxes.shape[:1]:
            raise ValueError(f"{len(self.boxes)} boxes have scores of shape {self.scores.shape}")
        if self.labels is not None and len(self.labels) != len(self.boxes):
            raise ValueError(f"{len(self.boxes)} boxes have {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.boxes)


class Proposer(Protocol):
    """A way of proposing boxes: a frozen dataclass of settings, cheap to pickle and to send to another process."""

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """The proposals of one image; ``image_id`` matters only to proposers that look boxes up."""
        ...

    def describe(self) -> dict[str, Any]:
        """The settings as JSON, ``name``, ``limit`` and ``supervision`` among them: equal settings, equal boxes."""
        ...


@dataclass(frozen=True, eq=False)
class Found:
    """Boxes ``[N, 4]`` as a method finds them, best first: perhaps beyond the image's borders, perhaps too many."""

    boxes: npt.NDArray[np.floating]
    scores: npt.NDArray[np.floating]  # [N]
    classes: tuple[str, ...] = ()  # what ``class_ids`` mean
    class_ids: npt.NDArray[np.integer] | None = None  # [N, k]; -1 is no class
    class_probs: npt.NDArray[np.floating] | None = None  # [N, k]


def settings(proposer: Any) -> dict[str, Any]:
    """The fields of a frozen dataclass as JSON; for :meth:`Proposer.describe`."""
    values = {field.name: getattr(proposer, field.name) for field in fields(proposer)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def whole_image(image: Image) -> npt.NDArray[np.float64]:
    """The box ``[4]`` of the whole image."""
    height, width = image.shape[:2]
    return np.array([0, 0, width, height], dtype=np.float64)


def finish(found: Found, image: Image, limit: int) -> Proposals:
    """The whole image, then what was found, cut to the image and to ``limit`` boxes in all.

    Boxes of which less than a pixel is left in either direction are dropped.
    """
    height, width = image.shape[:2]
    boxes = geometry.clip(found.boxes, width, height)
    rows = np.flatnonzero((boxes[:, 2] - boxes[:, 0] >= 1) & (boxes[:, 3] - boxes[:, 1] >= 1))[: limit - 1]
    best = max(1.0, float(found.scores.max(initial=0)))
    labels = None
    if found.class_ids is not None and found.class_probs is not None:
        blank = np.zeros((1, found.class_ids.shape[1]), dtype=np.int64)
        labels = Labels(
            np.concatenate([blank, found.class_ids[rows] + 1]),
            np.concatenate([blank.astype(np.float32), found.class_probs[rows]]).astype(np.float32),
            ("", *found.classes),
        )
    return Proposals(
        np.concatenate([whole_image(image)[None], boxes[rows]]).astype(np.float32),
        np.concatenate([[best], found.scores[rows]]).astype(np.float32),
        labels,
    )
