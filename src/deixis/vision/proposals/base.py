"""Types of box proposals and of proposers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.types import Labels

Image = npt.NDArray[np.uint8]  # [H, W, 3] RGB


@dataclass(frozen=True, eq=False)
class Proposals:
    """Proposed boxes, best first; the first box is the whole image."""

    boxes: npt.NDArray[np.float32]  # [N, 4] pixels of the original image, see deixis.boxes
    scores: npt.NDArray[np.float32]  # [N] comparable within one image; not always in decreasing order
    labels: Labels | None = None  # classes of a detector; the whole image has none ("")
    class_probs: npt.NDArray[np.float32] | None = None  # [N, C] of all classes, where features include them

    def __post_init__(self) -> None:
        if self.boxes.ndim != 2 or self.boxes.shape[1] != 4 or len(self.boxes) == 0:
            raise ValueError(f"proposals must be boxes [N, 4] with N >= 1, not {self.boxes.shape}")
        if self.scores.shape != self.boxes.shape[:1]:
            raise ValueError(f"{len(self.boxes)} boxes have scores of shape {self.scores.shape}")
        if self.labels is not None and len(self.labels) != len(self.boxes):
            raise ValueError(f"{len(self.boxes)} boxes have {len(self.labels)} labels")
        if self.class_probs is not None and len(self.class_probs) != len(self.boxes):
            raise ValueError(f"{len(self.boxes)} boxes have {len(self.class_probs)} rows of class probabilities")

    def __len__(self) -> int:
        return len(self.boxes)


class Proposer(Protocol):
    """Proposal method: a frozen dataclass of settings that can be pickled."""

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Return the proposals of one image; only proposers that read stored boxes use ``image_id``."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON, with ``name``, ``limit`` and ``supervision``; they determine the boxes."""
        ...


def propose_batch(proposer: Proposer, images: Sequence[Image], image_ids: Sequence[str]) -> list[Proposals]:
    """Return the proposals of several images; a detector with ``propose_batch`` computes them in one pass."""
    together: Callable[[Sequence[Image]], list[Proposals]] | None = getattr(proposer, "propose_batch", None)
    if together is not None:
        return together(images)
    return [proposer.propose(image, image_id) for image, image_id in zip(images, image_ids, strict=True)]


@dataclass(frozen=True, eq=False)
class Found:
    """Boxes ``[N, 4]`` before clipping and before the limit, best first."""

    boxes: npt.NDArray[np.floating]
    scores: npt.NDArray[np.floating]  # [N]
    classes: tuple[str, ...] = ()  # names of ``class_ids``
    class_ids: npt.NDArray[np.integer] | None = None  # [N, k]; -1 is no class
    class_probs: npt.NDArray[np.floating] | None = None  # [N, k]


def settings(proposer: Any) -> dict[str, Any]:
    """Return the fields of a frozen dataclass as JSON, for :meth:`Proposer.describe`."""
    values = {field.name: getattr(proposer, field.name) for field in fields(proposer)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def whole_image(image: Image) -> npt.NDArray[np.float64]:
    """Box ``[4]`` of the whole image."""
    height, width = image.shape[:2]
    return np.array([0, 0, width, height], dtype=np.float64)


def finish(found: Found, image: Image, limit: int) -> Proposals:
    """Prepend the whole image, clip the boxes to it, and keep at most ``limit`` boxes.

    Boxes with a width or height below one pixel after clipping are dropped.
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
