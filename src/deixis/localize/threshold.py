"""Box around the hottest connected area of a heat map (rule "threshold"); needs no proposals."""

from __future__ import annotations

import numpy as np

from deixis.types import Box, HeatMap


def threshold_box(heat: HeatMap, share: float = 0.5) -> Box:
    """Box around the cells >= ``share`` * maximum that are connected to the hottest cell (4-neighbourhood)."""
    hot = heat.grid >= share * heat.grid.max()
    reached = np.zeros_like(hot)
    reached[np.unravel_index(int(heat.grid.argmax()), hot.shape)] = True
    while True:
        grown = reached.copy()
        grown[1:] |= reached[:-1]
        grown[:-1] |= reached[1:]
        grown[:, 1:] |= reached[:, :-1]
        grown[:, :-1] |= reached[:, 1:]
        grown &= hot
        if (grown == reached).all():
            break
        reached = grown
    rows, columns = np.flatnonzero(reached.any(1)), np.flatnonzero(reached.any(0))
    across, down = heat.size[0] / hot.shape[1], heat.size[1] / hot.shape[0]
    x1, x2 = float(columns[0] * across), float((columns[-1] + 1) * across)
    y1, y2 = float(rows[0] * down), float((rows[-1] + 1) * down)
    return x1, y1, x2, y2
