"""Features of moved boxes against a loop over the cells of the grid."""

import numpy as np
import torch

from deixis.types import Regions
from deixis.vision.repool import repooler


def regions(grid: np.ndarray | None, seed: int = 0) -> Regions:
    features = np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float16)
    return Regions(np.array([[0, 0, 4, 4], [1, 1, 3, 3]], np.float32), features, (8, 6), grid=grid)


def test_boxes_of_whole_cells_are_means_of_the_cells() -> None:
    grid = np.random.default_rng(1).normal(size=(4, 4, 3)).astype(np.float16)
    pool = repooler([regions(grid)])
    assert pool is not None
    boxes = torch.tensor([[[[0.25, 0.25, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0]]]])
    found = pool(boxes)
    assert found.shape == (1, 1, 2, 3)
    # the mean of interpolated samples inside a box of one cell leans to its neighbours by less than half a cell
    inner = grid[1, 1].astype(np.float32)
    near = grid[0:3, 0:3].reshape(-1, 3).astype(np.float32)
    assert ((found[0, 0, 0].numpy() >= near.min(0)) & (found[0, 0, 0].numpy() <= near.max(0))).all()
    flat = repooler([regions(np.broadcast_to(inner, (4, 4, 3)).astype(np.float16))])
    assert flat is not None
    np.testing.assert_allclose(flat(boxes)[0, 0].numpy(), [inner, inner], atol=1e-6)


def test_each_image_has_its_own_grid() -> None:
    grids = [np.full((rows, columns, 3), value, np.float16) for rows, columns, value in ((2, 3, 1), (4, 2, 5))]
    pool = repooler([regions(grid) for grid in grids])
    assert pool is not None
    found = pool(torch.tensor([[[[0.1, 0.1, 0.9, 0.9]]], [[[0.2, 0.3, 0.6, 0.7]]]]))
    np.testing.assert_allclose(found[:, 0, 0, 0].numpy(), [1, 5], rtol=1e-6)


def test_no_grid_or_a_grid_of_other_features() -> None:
    whole = np.zeros((2, 2, 3), np.float16)
    assert repooler([regions(whole), regions(None)]) is None
    assert repooler([regions(np.zeros((2, 2, 5), np.float16))]) is None
