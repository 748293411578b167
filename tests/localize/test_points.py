"""Points of heat maps: bicubic enlargement against torch, maxima by hand, points inside boxes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from deixis.boxes import contains
from deixis.localize.points import bicubic_maximum, centre_of_maximum, enlarge_bicubic, point_in_box
from deixis.types import HeatMap


@settings(max_examples=30, deadline=None)
@given(arrays.arrays(np.float64, (5, 7), elements=st.floats(0, 1)), st.integers(5, 40), st.integers(7, 40))
def test_bicubic_keeps_constants_and_agrees_with_torch(grid: np.ndarray, height: int, width: int) -> None:
    constant = enlarge_bicubic(HeatMap(np.full((3, 4), 0.5), (width, height)))
    assert constant == pytest.approx(np.full((height, width), 0.5))
    source = torch.tensor(grid, dtype=torch.float32)[None, None]
    expected = torch.nn.functional.interpolate(source, (height, width), mode="bicubic")[0, 0].numpy()
    assert enlarge_bicubic(HeatMap(grid, (width, height))) == pytest.approx(expected, abs=1e-5)


def test_the_bicubic_maximum_is_a_pixel() -> None:
    """A map at image size is not resampled: column and row of its largest value, the first of several."""
    grid = np.zeros((3, 4))
    grid[1, 2] = grid[2, 0] = 1
    assert bicubic_maximum(HeatMap(grid, (4, 3))) == (2.0, 1.0)


def test_the_centre_of_a_plateau() -> None:
    grid = np.zeros((4, 5))
    grid[1:4, 1:4] = 1
    assert centre_of_maximum(HeatMap(grid, (50, 40))) == (25.0, 25.0)


def test_of_two_equal_maxima_the_point_is_in_one() -> None:
    grid = np.zeros((1, 5))
    grid[0, [0, 4]] = 1
    point = centre_of_maximum(HeatMap(grid, (50, 10)))
    assert point in [(5, 5), (45, 5)]
    assert all(type(coordinate) is float for coordinate in point)


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
