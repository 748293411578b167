"""Region of a word or phrase from its attention over regions (rules "attention" and "vote")."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis.localize.votes import vote_region
from deixis.types import Place, Regions


def select_region(
    regions: Regions, attention: npt.NDArray[np.floating], place: Place = "vote", detector: bool = False
) -> int:
    """Index of the region for ``attention [N]``: its maximum, or the region with the most votes.

    ``detector``: the scores of the regions are those of a detector.
    """
    return int(attention.argmax()) if place == "attention" else vote_region(regions, attention, detector)
