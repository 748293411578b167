"""Padded tensors of regions."""

from __future__ import annotations

import numpy as np
import torch

from deixis.layers.padding import pad_regions
from deixis.types import Regions


def _regions(count: int, **parts: object) -> Regions:
    return Regions(np.tile([0.0, 0, 2, 2], (count, 1)), np.ones((count, 3)), (4, 4), **parts)  # type: ignore[arg-type]


def test_class_probabilities_are_padded_and_image_vectors_stacked() -> None:
    one = _regions(1, class_probs=np.array([[0.25, 0.75]]), class_names=("a", "b"), image_vector=np.array([1.0, 2.0]))
    two = _regions(2, class_probs=np.full((2, 2), 0.5), class_names=("a", "b"), image_vector=np.array([3.0, 4.0]))
    padded = pad_regions([one, two])
    assert padded.class_probs is not None
    assert padded.class_probs.tolist() == [[[0.25, 0.75], [0, 0]], [[0.5, 0.5], [0.5, 0.5]]]
    assert padded.image_vector is not None
    assert torch.equal(padded.image_vector, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_parts_that_an_image_lacks_are_left_out() -> None:
    whole = _regions(1, class_probs=np.ones((1, 1)), class_names=("a",), image_vector=np.ones(2))
    padded = pad_regions([whole, _regions(1)])
    assert padded.class_probs is None
    assert padded.image_vector is None


def test_grids_of_different_shapes_are_padded_with_a_mask() -> None:
    first, second = np.arange(12.0).reshape(2, 3, 2), np.ones((1, 2, 2))
    padded = pad_regions([_regions(1, grid=first), _regions(2, grid=second)])
    assert padded.grid is not None
    assert padded.grid_mask is not None
    assert padded.grid.shape == (2, 6, 2)
    assert torch.equal(padded.grid[0], torch.arange(12.0).view(6, 2))
    assert padded.grid_mask.tolist() == [[True] * 6, [True, True, False, False, False, False]]
    assert torch.all(padded.grid[1, 2:] == 0)


def test_grids_of_one_shape_need_no_mask_and_a_missing_grid_leaves_all_out() -> None:
    padded = pad_regions([_regions(1, grid=np.ones((2, 2, 3)))] * 2)
    assert padded.grid is not None
    assert padded.grid_mask is None
    assert pad_regions([_regions(1, grid=np.ones((2, 2, 3))), _regions(1)]).grid is None
