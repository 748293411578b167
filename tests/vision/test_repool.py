"""Features of moved boxes against a loop over the cells of the grid."""

import numpy as np
import torch

from deixis.types import ByteGrid, Regions
from deixis.vision.grid_extractor import CLASS_WEIGHT, describe, repool
from deixis.vision.moved import can_repool
from deixis.vision.repool import repooler

ONE = {"version": 1}
ROWS = torch.zeros(1, 1, 2, dtype=torch.long)


def regions(grid: np.ndarray | None, seed: int = 0) -> Regions:
    features = np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float16)
    return Regions(np.array([[0, 0, 4, 4], [1, 1, 3, 3]], np.float32), features, (8, 6), grid=grid)


def test_boxes_of_whole_cells_are_means_of_the_cells() -> None:
    grid = np.random.default_rng(1).normal(size=(4, 4, 3)).astype(np.float16)
    pool = repooler([regions(grid)], ONE)
    assert pool is not None
    boxes = torch.tensor([[[[0.25, 0.25, 0.5, 0.5], [0.0, 0.0, 1.0, 1.0]]]])
    found = pool(boxes, ROWS)
    assert found.shape == (1, 1, 2, 3)
    # the mean of interpolated samples inside a box of one cell leans to its neighbours by less than half a cell
    inner = grid[1, 1].astype(np.float32)
    near = grid[0:3, 0:3].reshape(-1, 3).astype(np.float32)
    assert ((found[0, 0, 0].numpy() >= near.min(0)) & (found[0, 0, 0].numpy() <= near.max(0))).all()
    flat = repooler([regions(np.broadcast_to(inner, (4, 4, 3)).astype(np.float16))], ONE)
    assert flat is not None
    np.testing.assert_allclose(flat(boxes, ROWS)[0, 0].numpy(), [inner, inner], atol=1e-6)


def test_each_image_has_its_own_grid() -> None:
    grids = [np.full((rows, columns, 3), value, np.float16) for rows, columns, value in ((2, 3, 1), (4, 2, 5))]
    pool = repooler([regions(grid) for grid in grids], ONE)
    assert pool is not None
    found = pool(torch.tensor([[[[0.1, 0.1, 0.9, 0.9]]], [[[0.2, 0.3, 0.6, 0.7]]]]), ROWS)
    np.testing.assert_allclose(found[:, 0, 0, 0].numpy(), [1, 5], rtol=1e-6)


def test_no_grid_or_a_grid_of_other_features() -> None:
    whole = np.zeros((2, 2, 3), np.float16)
    assert repooler([regions(whole), regions(None)], ONE) is None
    assert repooler([regions(np.zeros((2, 2, 5), np.float16))], ONE) is None


def version2(seed: int) -> tuple[Regions, dict]:
    """Regions with maps as version 2 keeps them: two grids and the classes of a detector."""
    rng = np.random.default_rng(seed)
    maps = tuple(
        ByteGrid(rng.integers(0, 255, (cells, cells + 1, 4), dtype=np.uint8), 0.02, 100) for cells in (3 + seed, 6)
    )
    boxes = np.array([[0, 0, 40, 30], [10, 5, 30, 25], [2, 3, 9, 28]], np.float32)
    description = describe("v2-detector")
    classes = description["pooling"]["classes"]
    probs = rng.random((3, classes)).astype(np.float32)
    features = repool(maps, boxes, (40, 30), classes, probs)
    return Regions(boxes, features, (40, 30), maps=maps, grid=np.zeros((2, 2, features.shape[1]))), description


def test_maps_give_a_moved_box_the_feature_of_a_proposal_at_its_place() -> None:
    """The class probabilities are those of the proposal that was moved; each image has its own maps."""
    given, description = zip(*(version2(seed) for seed in (0, 1)), strict=True)
    pool = repooler(given, description[0])
    assert pool is not None
    places = torch.from_numpy(np.stack([one.boxes / np.tile(one.size, 2) for one in given])).unsqueeze(1)
    own = torch.arange(3).expand(2, 1, 3)
    found = pool(places, own)
    assert found.shape == (2, 1, 3, given[0].features.shape[1])
    for image, one in enumerate(given):
        np.testing.assert_allclose(found[image, 0].numpy(), one.features.astype(np.float32), atol=0.01)
    # the third proposal moved to the place of the first: everything but the classes is that of the first
    moved = pool(places[:, :, :1], own[:, :, 2:])[0, 0, 0].numpy()
    classes = description[0]["pooling"]["classes"]
    np.testing.assert_allclose(moved[:-classes], given[0].features[0, :-classes].astype(np.float32), atol=0.01)
    np.testing.assert_allclose(moved[-classes:], given[0].features[2, -classes:].astype(np.float32), atol=0.01)
    assert np.abs(moved[-classes:]).max() > CLASS_WEIGHT / 2


def test_a_feature_grid_of_version_2_is_not_pooled() -> None:
    """Its tiles have their own position and surroundings in their features."""
    one, description = version2(0)
    assert can_repool(one, description)
    without = Regions(one.boxes, one.features, one.size, grid=one.grid)
    assert not can_repool(without, description)
    assert can_repool(without, {"version": 1})
    assert not can_repool(without, {"layout": "gvd"})  # its grid is of another network than its features
    assert repooler([one, without], description) is None


def test_regions_beyond_those_of_an_image_are_padding() -> None:
    one, description = version2(0)
    pool = repooler([one], description)
    assert pool is not None
    assert torch.isfinite(pool(torch.rand(1, 1, 2, 4).sort().values, torch.tensor([[[1, 7]]]))).all()
