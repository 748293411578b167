"""Points of heat maps: bicubic enlargement against torch, maxima by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from deixis.localize.points import bicubic_maximum, centre_of_maximum, enlarge_bicubic
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
