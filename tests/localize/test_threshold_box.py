"""The box around the hottest connected area, by hand."""

import numpy as np

from deixis.localize.threshold import threshold_box
from deixis.types import HeatMap


def test_by_hand() -> None:
    grid = np.array([[0.0, 0.6, 0.0, 0.9], [0.0, 1.0, 0.5, 0.0], [0.4, 0.0, 0.7, 0.0]])
    # from the 1: .6 above it, .5 and below that .7; the .9 is hot but not connected, the .4 too cold
    assert threshold_box(HeatMap(grid, (40, 60))) == (10.0, 0.0, 30.0, 60.0)
    assert threshold_box(HeatMap(grid, (40, 60)), share=0.65) == (10.0, 20.0, 20.0, 40.0)
    assert threshold_box(HeatMap(np.zeros((2, 2)), (40, 60))) == (0.0, 0.0, 40.0, 60.0)
