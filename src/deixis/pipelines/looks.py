"""Where a captioner looked while it spoke."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.localize.heat import heat_map
from deixis.types import GroundedCaption, Grounding, Regions


@dataclass(frozen=True, eq=False)
class Looks:
    """Where each branch looked at every word of a caption, and which of them said it."""

    attention: npt.NDArray[np.float32]  # [words, K, N]
    voted: npt.NDArray[np.bool_]  # [words, K]

    def places(self, caption: GroundedCaption, regions: Regions, cells: int = 24) -> list[list[Grounding]]:
        """For each grounded word the best region of each branch, with its attention and its heat map."""
        return [
            [
                Grounding(
                    one.text,
                    geometry.as_box(regions.boxes[int(weights.argmax())]),
                    float(weights.max()),
                    one.start,
                    one.end,
                    heat=heat_map(weights, regions, cells),
                )
                for weights in self.attention[one.start]
            ]
            for one in caption.groundings
        ]
