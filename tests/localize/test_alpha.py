"""AMC's published box rule by hand; its evaluator's numbers are in tests/metrics/test_phrases.py."""

import numpy as np

from deixis.localize.alpha import rank_boxes
from deixis.types import HeatMap

# at image size: 2 rows, 4 columns
HEAT = HeatMap(np.array([[0.0, 1.0, 0.5, 0.1], [0.0, 0.9, 0.4, 0.1]]), (4, 2))
WHOLE, HOT, PAIR, EMPTY = (0, 0, 4, 2), (1, 0, 2, 2), (1, 0, 3, 2), (2, 2, 2, 2)


def test_heat_divided_by_a_power_of_the_area() -> None:
    """Heat 3, 1.9 and 2.8 in areas 8, 2 and 4: alpha 0 prefers the whole, .5 the pair, 1 the hottest column."""
    boxes = np.array([EMPTY, WHOLE, HOT, PAIR], dtype=float)
    assert rank_boxes(HEAT, boxes, alpha=0.0).tolist() == [1, 3, 2, 0]
    assert rank_boxes(HEAT, boxes).tolist() == [3, 2, 1, 0]
    assert rank_boxes(HEAT, boxes, alpha=1.0).tolist() == [2, 3, 1, 0]


def test_corners_are_cut_to_whole_pixels_and_areas_are_not() -> None:
    """1.9 to 3.9 holds the pixels 1 and 2, as 1 to 3 does; the first box of equal ones wins."""
    boxes = np.array([[1.9, 0, 3.9, 2], [1, 0, 3, 2]])
    assert rank_boxes(HEAT, boxes).tolist() == [0, 1]
    assert rank_boxes(HEAT, boxes[::-1]).tolist() == [0, 1]
