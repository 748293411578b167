"""Region or box from attention over regions (rules "attention" and "vote")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.localize.heat import heat_map
from deixis.localize.votes import vote_region
from deixis.types import AttentionTrace, Grounding, Place, Regions


def select_region(
    regions: Regions, attention: npt.NDArray[np.floating], place: Place = "vote", detector: bool = False
) -> int:
    """Return the index of the region for ``attention [N]``: its maximum, or the region with the most votes.

    ``detector``: the scores of the regions are those of a detector.
    """
    return int(attention.argmax()) if place == "attention" else vote_region(regions, attention, detector)


def ground_word(
    trace: AttentionTrace, step: int, word: str, regions: Regions, place: Place = "attention", detector: bool = False
) -> Grounding:
    """Return the grounding of the word at a step, from the branches that predicted it.

    Their best boxes are the ``parts``. "attention": the box is the union of the parts (Distributed Attention,
    Sec. 3.3). "vote": the box is the region with the most votes by the branches' mean attention. The score is the mean
    attention of these branches to their best boxes.
    """
    attention = trace.attention[step][trace.branch_mask[step]]  # [branches, N]
    best = regions.boxes[np.unique(attention.argmax(-1))]
    parts = tuple(geometry.as_box(box) for box in best) if len(best) > 1 else ()
    if place == "vote":
        box = regions.boxes[select_region(regions, attention.mean(0), place, detector)]
    else:
        box = geometry.union(best)
    return Grounding(word, geometry.as_box(box), float(attention.max(-1).mean()), step, step + 1, parts, head=step)


def branch_groundings(
    trace: AttentionTrace, groundings: tuple[Grounding, ...], cells: int = 24
) -> list[list[Grounding]]:
    """Return, for each grounding of a caption, the best region of each branch at its head, with a heat map."""
    found = []
    for one in groundings:
        step = one.start if one.head is None else one.head
        found.append(
            [
                Grounding(
                    one.text,
                    geometry.as_box(trace.boxes[int(weights.argmax())]),
                    float(weights.max()),
                    one.start,
                    one.end,
                    heat=heat_map(weights, trace.boxes, trace.size, cells),
                )
                for weights in trace.attention[step]
            ]
        )
    return found
