"""Heat maps from attention, their hottest point, and points inside boxes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.boxes import contains
from deixis.localize.heat import heat_map, hottest, point_in_box
from deixis.types import HeatMap

BOXES = np.array([[0, 0, 40, 40], [20, 20, 80, 80], [80, 0, 100, 20]], dtype=np.float32)
WEIGHTS = np.array([0.3, 0.5, 0.2])
SIZE = (100, 80)


def test_heat_is_the_weighted_sum_of_the_regions() -> None:
    """Cells of 25 x 20 pixels. The cell 25..50 x 20..40 lies in the second box, and .6 of it in the first."""
    heat = heat_map(WEIGHTS, BOXES, SIZE, 4).grid
    assert heat.shape == (4, 4)
    assert heat[0, 0] == pytest.approx(0.3)
    assert heat[1, 1] == pytest.approx(0.5 + 0.3 * 15 / 25)
    assert heat[2, 2] == pytest.approx(0.5)
    assert heat[0, 3] == pytest.approx(0.2 * 20 / 25)
    assert heat[3, 3] == pytest.approx(0.5 * 5 / 25)
    whole = heat_map(WEIGHTS, BOXES, SIZE, 100).grid.sum() * 1 * 0.8  # a cell has 1 x .8 pixels
    assert whole == pytest.approx(0.3 * 1600 + 0.5 * 3600 + 0.2 * 400)


def test_of_two_equal_maxima_the_point_is_in_one() -> None:
    grid = np.zeros((1, 5))
    grid[0, [0, 4]] = 1
    assert hottest(HeatMap(grid, (50, 10))) in [(5, 5), (45, 5)]


def test_point_in_box_by_hand() -> None:
    grid = np.array([[0.9, 0.2, 0.3], [0.1, 0.8, 0.4]])
    heat = HeatMap(grid, (30, 20))  # cells of 10 x 10 pixels
    assert point_in_box(heat, (0, 0, 30, 20), (7.0, 3.0)) == (7, 3)  # inside: kept as it is
    assert point_in_box(heat, (7, 3, 30, 20), (7.0, 3.0)) == (7, 3)  # the near edges are inside
    assert point_in_box(heat, (0, 0, 7, 20), (7.0, 3.0)) == (5, 5)  # the far edges are outside
    assert point_in_box(heat, (0, 0, 15, 20), (20.0, 3.0)) == (5, 5)  # also for centres of cells
    assert point_in_box(heat, (12, 0, 30, 20), (5.0, 5.0)) == (15, 15)  # the hottest centre in the box
    assert point_in_box(heat, (18, 0, 30, 20), (5.0, 5.0)) == (25, 15)
    assert point_in_box(heat, (16, 2, 24, 18), (5.0, 5.0)) == (20, 10)  # no centre of a cell: its own centre
    cold = HeatMap(np.zeros((2, 3)), (30, 20))
    assert point_in_box(cold, (12, 0, 30, 20), (5.0, 5.0)) == (15, 5)


sides = st.floats(-20, 120, allow_nan=False)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[float, float, float, float]:
    (x1, x2), (y1, y2) = (sorted((draw(sides), draw(sides))) for _ in range(2))
    return x1, y1, x2, y2


@given(
    st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(st.floats(0, 1), min_size=n, max_size=n), min_size=1)),
    boxes(),
    st.tuples(sides, sides),
)
def test_the_point_lies_in_the_box(
    grid: list[list[float]], box: tuple[float, float, float, float], preferred: tuple[float, float]
) -> None:
    """For any map, any box (also an empty one, or one beyond the image) and any preferred point."""
    x, y = point_in_box(HeatMap(np.array(grid), (100, 80)), box, preferred)
    assert box[0] <= x <= box[2]
    assert box[1] <= y <= box[3]
    if box[2] - box[0] > 1e-6 and box[3] - box[1] > 1e-6:
        assert contains(box, (x, y))
    if contains(box, preferred):
        assert (x, y) == preferred
