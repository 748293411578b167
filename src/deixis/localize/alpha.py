"""AMC's and ALBEF's published box rule (rule "alpha"): heat sum over area ** alpha, alpha = .5 (AMC, Table 5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.localize.points import enlarge_bicubic
from deixis.types import HeatMap


def rank_boxes(heat: HeatMap, boxes: npt.ArrayLike, alpha: float = 0.5) -> npt.NDArray[np.intp]:
    """Indices of boxes ``[N, 4]``, best first, by the heat inside them divided by area ** ``alpha``.

    The heat is that of the map at image size, between corners that are cut to whole pixels.
    """
    candidates = geometry.as_boxes(boxes).astype(np.float64)
    image = enlarge_bicubic(heat).astype(np.float64)
    total = np.zeros((image.shape[0] + 1, image.shape[1] + 1))  # integral image
    total[1:, 1:] = image.cumsum(0).cumsum(1)
    corners = np.trunc(candidates).astype(np.intp)
    x1, x2 = (np.clip(corners[:, i], 0, image.shape[1]) for i in (0, 2))
    y1, y2 = (np.clip(corners[:, i], 0, image.shape[0]) for i in (1, 3))
    inside = total[y2, x2] - total[y1, x2] - total[y2, x1] + total[y1, x1]
    area = geometry.area(candidates)
    score = np.divide(inside, area**alpha, out=np.full(len(inside), -np.inf), where=area > 0)
    return np.argsort(-score, kind="stable")
