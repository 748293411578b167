"""Heat maps of attention over regions, by hand."""

import numpy as np
import pytest

from deixis.localize.heat import heat_map

BOXES = np.array([[0, 0, 40, 40], [20, 20, 80, 80], [80, 0, 100, 20]], dtype=np.float32)
SIZE = (100, 80)
WEIGHTS = np.array([0.3, 0.5, 0.2])


def test_a_cell_has_the_sum_of_weights_times_coverage() -> None:
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
