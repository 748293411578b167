"""Regions of video segments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deixis.errors import DeixisError
from deixis.types import Labels, Regions


def join_frames(parts: Sequence[Regions], image_id: str = "") -> Regions:
    """Join the regions of the frames of one video segment; all frames have the same size."""
    if len({part.size for part in parts}) != 1:
        raise DeixisError(f"the frames of {image_id or 'a video'} have different sizes. Sample them again in one size.")
    labels = [part.labels for part in parts if part.labels is not None]
    grids = [part.grid for part in parts if part.grid is not None]
    return Regions(
        boxes=np.concatenate([part.boxes for part in parts]),
        features=np.concatenate([part.features for part in parts]),
        size=parts[0].size,
        scores=np.concatenate([part.scores for part in parts if part.scores is not None]),
        labels=Labels(
            np.concatenate([part.ids for part in labels]),
            np.concatenate([part.probs for part in labels]),
            labels[0].names,
        )
        if labels
        else None,
        frames=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        grid=np.stack(grids) if grids else None,
        extractor=parts[0].extractor,
    )
