"""What every way of proposing boxes gives, and what it must offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from deixis.types import Labels

Image = npt.NDArray[np.uint8]  # [H, W, 3] RGB


@dataclass(frozen=True, eq=False)
class Proposals:
    """Boxes that may hold something, best first; the first box is always the whole image."""

    boxes: npt.NDArray[np.float32]  # [N, 4] pixels of the original image, see deixis.boxes
    scores: npt.NDArray[np.float32]  # [N] higher is better, comparable within one image only
    labels: Labels | None = None  # the detector's own classes, where it has any

    def __post_init__(self) -> None:
        if self.boxes.ndim != 2 or self.boxes.shape[1] != 4 or len(self.boxes) == 0:
            raise ValueError(f"proposals are [N, 4] boxes with N >= 1, not {self.boxes.shape}")
        if self.scores.shape != self.boxes.shape[:1]:
            raise ValueError(f"{len(self.boxes)} boxes have scores of shape {self.scores.shape}")
        if self.labels is not None and len(self.labels) != len(self.boxes):
            raise ValueError(f"{len(self.boxes)} boxes have {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.boxes)

    def best(self, count: int) -> Proposals:
        """The first ``count`` proposals."""
        labels = None if self.labels is None else self.labels.select(slice(count))
        return Proposals(self.boxes[:count], self.scores[:count], labels)


class Proposer(Protocol):
    """A way of proposing boxes: a frozen dataclass of settings, cheap to pickle and to send to another process."""

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """The proposals of one image; ``image_id`` matters only to proposers that look boxes up."""
        ...

    def describe(self) -> dict[str, Any]:
        """The settings as JSON, ``"name"`` and ``"supervision"`` among them: equal settings, equal proposals."""
        ...
