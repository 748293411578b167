"""Box of a word from the attention of several decoder branches (Distributed Attention, Sec. 3.3)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.localize.attention import select_region
from deixis.types import Grounding, Place, Regions


def ground_word(
    word: str,
    step: int,
    attention: npt.NDArray[np.floating],
    branch_mask: npt.NDArray[np.bool_],
    regions: Regions,
    place: Place = "attention",
    detector: bool = False,
) -> Grounding:
    """Grounding of the word at ``step`` by the branches that predicted it.

    ``attention [K, N]`` is that of all branches, where N may include padding; ``branch_mask [K]`` marks the branches
    that predicted the word. Their best regions are the parts. The box is the union of the parts (rule "attention"), or
    the region with the most votes by the mean attention of these branches (rule "vote"). The score is the mean of their
    largest attention weights.
    """
    weights = attention[branch_mask]  # [voters, N]
    parts = regions.boxes[np.unique(weights.argmax(-1))]
    if place == "vote":
        box = regions.boxes[select_region(regions, weights.mean(0)[: len(regions)], place, detector)]
    else:
        box = geometry.union(parts)
    merged = tuple(geometry.as_box(part) for part in parts) if len(parts) > 1 else ()
    return Grounding(word, geometry.as_box(box), float(weights.max(-1).mean()), step, step + 1, merged)
