"""Attention map consistency by hand, its gradient; published numbers are in test_albef_network.py."""

import pytest
import torch

from deixis.methods.albef.losses.map_consistency import (
    MapConfig,
    box_masks,
    cosine_distance,
    map_consistency,
    max_margin,
    mean_margin,
)

MAPS = torch.tensor([[[0.9, 0.1], [0.3, 0.1]], [[0.2, 0.2], [0.6, 1.0]]], dtype=torch.float64)
MASKS = torch.tensor([[[1, 1], [0, 0]], [[1, 0], [0, 0]]]).bool()


def test_mean_by_hand() -> None:
    # image 1: .5 inside, .2 outside, no loss; image 2: .2 inside, .6 outside, .4 + .1
    torch.testing.assert_close(mean_margin(MAPS, MASKS, 0.1), torch.tensor(0.25, dtype=torch.float64))
    # pooled: (.9 + .1 + .2) / 3 = .4 inside, (.3 + .1 + .2 + .6 + 1) / 5 = .44 outside
    torch.testing.assert_close(mean_margin(MAPS, MASKS, 0.1, pooled=True), torch.tensor(0.14, dtype=torch.float64))


def test_max_by_hand() -> None:
    # image 1: .9 inside, .3 outside, no loss; image 2: .2 inside, 1 outside, .8 + .5
    torch.testing.assert_close(max_margin(MAPS, MASKS, 0.5), torch.tensor(0.65, dtype=torch.float64))


def test_cosine_by_hand() -> None:
    first = 1.0 / ((0.81 + 0.01 + 0.09 + 0.01) ** 0.5 * 2**0.5)
    second = 0.2 / (0.04 + 0.04 + 0.36 + 1.0) ** 0.5
    expected = torch.tensor(1 - (first + second) / 2, dtype=torch.float64)
    torch.testing.assert_close(cosine_distance(MAPS, MASKS), expected)


def test_terms_are_weighted_as_the_recipe_says() -> None:
    both = map_consistency(MAPS, MASKS, MapConfig())
    assert both["mean"].item() == pytest.approx(0.2 * 0.25)
    assert both["max"].item() == pytest.approx(0.8 * 0.65)
    assert set(map_consistency(MAPS, MASKS, MapConfig(most=0))) == {"mean"}
    assert set(map_consistency(MAPS, MASKS, MapConfig(mean=0))) == {"max"}
    assert set(map_consistency(MAPS, MASKS, MapConfig(loss="cosine"))) == {"cosine"}


def test_a_box_that_fills_the_image_has_nothing_outside() -> None:
    full = torch.ones(2, 2, 2, dtype=torch.bool)
    assert mean_margin(MAPS, full, 0.1).item() == 0
    assert max_margin(MAPS, full, 0.5).item() == 0


@pytest.mark.parametrize("config", [MapConfig(), MapConfig(pooled=True), MapConfig(loss="cosine")])
def test_gradients_are_right(config: MapConfig) -> None:
    maps = torch.rand(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    masks = torch.tensor([[[1, 1, 0]] * 3, [[0, 0, 1]] * 3]).bool()
    assert torch.autograd.gradcheck(lambda m: torch.stack([*map_consistency(m, masks, config).values()]).sum(), maps)


def test_masks_hold_the_cells_whose_centre_is_in_the_box() -> None:
    boxes = torch.tensor([[0.0, 0.0, 0.5, 1.0], [0.26, 0.26, 0.6, 0.6], [0.3, 0.0, 0.31, 0.25], [0.0, 0.0, 1.0, 1.0]])
    masks = box_masks(boxes, 4).int().tolist()
    assert masks[0] == [[1, 1, 0, 0]] * 4
    assert masks[1] == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert masks[2] == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]  # thinner than a cell
    assert masks[3] == [[1, 1, 1, 1]] * 4
