"""Random windows of larger image maps in training, with boxes cut along."""

from __future__ import annotations

import numpy as np
import torch

from deixis.methods.updown.batches import Example, Target, collate, crop_regions, random_window
from deixis.methods.updown.recipes import UPDOWN_RECIPES
from deixis.types import Regions

# a map of 3 x 3 cells of an image of 90 x 60 pixels: a cell has 30 x 20 pixels
GRID = np.arange(9, dtype=np.float32).reshape(3, 3, 1)
BOXES = np.array([[0, 0, 90, 60], [0, 0, 29, 19], [40, 30, 80, 50.0]])


def photo() -> Regions:
    return Regions(BOXES, np.eye(3), (90, 60), grid=GRID, scores=np.array([0.3, 0.2, 0.1]))


def test_boxes_and_map_by_hand() -> None:
    found = crop_regions(photo(), (1, 1, 2, 30.0, 20.0, 90.0, 60.0))
    assert found.size == (60, 40)
    assert found.grid is not None
    assert found.grid[..., 0].tolist() == [[4, 5], [7, 8]]
    # the first box is clipped, the second lies outside, the third is moved by 30, 20
    assert found.boxes.tolist() == [[0, 0, 60, 40], [10, 10, 50, 30]]
    assert found.features.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert crop_regions(photo(), None).boxes is BOXES


def test_windows_are_random_and_repeatable() -> None:
    windows = [random_window(photo(), 2, torch.tensor(key)) for key in range(200)]
    assert windows == [random_window(photo(), 2, torch.tensor(key)) for key in range(200)]
    assert {window[:2] for window in windows if window} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert random_window(photo(), 3, torch.tensor(0)) is None
    assert random_window(Regions(BOXES, np.eye(3), (90, 60)), 2, torch.tensor(0)) is None


def test_a_batch_is_cropped_with_its_targets_in_training_only() -> None:
    targets = (Target(0, 0, (40, 30, 80, 50)), Target(0, 1, (0, 0, 29, 19)))
    example = Example("a", ((1, 4, 5, 2),), targets=targets)
    whole = collate([example], {"a": photo()}, 0)
    assert whole.regions.grid is not None
    assert whole.regions.grid.shape == (1, 9, 1)
    for key in range(20):
        keys = torch.tensor([key])
        batch = collate([example], {"a": photo()}, 0, keys, crop=2)
        window = random_window(photo(), 2, keys[0])
        assert window is not None
        assert batch.regions.grid is not None
        first = 3 * window[0] + window[1]
        assert batch.regions.grid[0, :, 0].tolist() == [first, first + 1, first + 3, first + 4]
        inside = crop_regions(photo(), window)
        np.testing.assert_allclose(batch.regions.boxes[0].numpy(), inside.boxes / np.tile(inside.size, 2), rtol=1e-6)
        # the region that is the true box has IoU 1 with it, before and after
        assert batch.overlap is not None
        assert batch.overlap[0, 0, 0].max() == 1
        seen = bool((batch.overlap[0, 0, 1] > 0.5).any())
        assert seen == (window[:2] == (0, 0))  # the second true box is in one of the four windows
    assert collate([example], {"a": photo()}, 0, crop=2).regions.grid.shape == (1, 9, 1)


def test_recipes_of_the_papers_crop() -> None:
    assert {UPDOWN_RECIPES[name].crop for name in ("gvd", "distributed-attention", "cyclical")} == {16}
    assert not any(r.crop for name, r in UPDOWN_RECIPES.items() if name.endswith("-small") or "video" in name)
    assert UPDOWN_RECIPES["updown"].crop == 0
