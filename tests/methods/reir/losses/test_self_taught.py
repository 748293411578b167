"""Self-taught regression: published numbers, by hand, and its gradient."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.methods.reir.losses.self_taught import SelfTaughtConfig, regression_targets, self_taught

GOLDEN = Path(__file__).parents[3] / "golden" / "reir.npz"
PUBLISHED = SelfTaughtConfig(identical=False)


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN, allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def everything(values: Tensor) -> Tensor:
    return torch.ones(values.shape, dtype=torch.bool)


def test_pairs_and_targets_agree_with_the_published_code(golden: dict[str, Tensor]) -> None:
    taught = regression_targets(
        golden["boxes"][None, None], golden["score"][None], everything(golden["score"][None]), PUBLISHED
    )
    assert torch.equal(taught.neighbours[0].nonzero(), golden["stage1_pairs"])
    torch.testing.assert_close(taught.offsets[taught.neighbours], golden["stage1_targets"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("gap", ["0.1", "0.3"])
def test_losses_of_both_stages_agree_with_the_published_code(golden: dict[str, Tensor], gap: str) -> None:
    config = SelfTaughtConfig(gap=float(gap), identical=False)
    first = (golden["delta1"][None], golden["boxes"][None, None], golden["score"][None])
    second = (golden["delta2"][None], golden["boxes2"].view(1, 4, 5, 4), golden["score2"][None])
    for stage, (moves, boxes, score) in (("1", first), ("2", second)):
        loss = self_taught(moves, boxes, score, everything(score), config)
        torch.testing.assert_close(loss, golden[f"stage{stage}_loss_iou0p6_gap{gap}"][0], atol=1e-5, rtol=0)


def test_self_taught_targets_by_hand() -> None:
    """The second box is the surest. The first covers two thirds of it, the third a half, and the fourth is padding."""
    boxes = torch.tensor([[[0.0, 0, 2, 1], [0, 0, 3, 1], [0, 0, 1.5, 1], [0, 0, 3, 1]]]).double().unsqueeze(1)
    sure = torch.tensor([[[0.3, 0.5, 0.2, 0.9]]]).double()
    where = torch.tensor([[[True, True, True, False]]])
    taught = regression_targets(boxes, sure, where, SelfTaughtConfig())
    assert taught.neighbours.tolist() == [[[True, True, False, False]]]
    # from the centre at 1 to that at 1.5 is a quarter of the width 2; the width grows by half
    expected = [[10 * 0.25, 0, 5 * math.log(1.5), 0], [0, 0, 0, 0]]
    torch.testing.assert_close(taught.offsets[0, 0, :2], torch.tensor(expected).double())
    assert regression_targets(boxes, sure, where, PUBLISHED).neighbours.tolist() == [[[True, False, False, False]]]
    far = regression_targets(boxes, sure, where, SelfTaughtConfig(gap=0.25))
    assert far.neighbours.any()
    assert not far.counted.any()
    moves = torch.zeros(1, 1, 4, 4).double()
    by_hand = (2.5 - 0.5) + (5 * math.log(1.5) - 0.5)  # both are over 1, where the loss is linear
    assert self_taught(moves, boxes, sure, where, SelfTaughtConfig()).item() == pytest.approx(by_hand / 8)
    assert self_taught(moves, boxes, sure, where, PUBLISHED).item() == pytest.approx(by_hand / 4)
    assert self_taught(moves, boxes, sure, ~everything(sure), PUBLISHED).item() == 0


def test_gradients_of_self_taught_regression() -> None:
    torch.manual_seed(0)
    corners = torch.rand(2, 1, 6, 2, dtype=torch.float64) / 5
    boxes = torch.cat([corners, 1 - corners.flip(2)], -1)
    sure = torch.rand(2, 3, 6, dtype=torch.float64).softmax(-1)
    moves = torch.randn(2, 3, 6, 4, dtype=torch.float64, requires_grad=True)
    config = SelfTaughtConfig(gap=0.01)
    assert regression_targets(boxes, sure, everything(sure), config).counted.sum() > 5
    assert torch.autograd.gradcheck(lambda m: self_taught(m, boxes, sure, everything(sure), config), moves)
