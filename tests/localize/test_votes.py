"""Votes between overlapping regions, and the region of a word by attention or votes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deixis.localize.attention import select_region
from deixis.localize.batched_votes import votes
from deixis.localize.votes import MIN_SCORE, SCORE_POWER, region_votes, vote_region
from deixis.types import Place, Regions

# two halves of a thing, the thing, and the picture
BOXES = torch.tensor([[0.0, 0.0, 10.0, 10.0], [10.0, 0.0, 20.0, 10.0], [0.0, 0.0, 20.0, 10.0], [0.0, 0.0, 20.0, 40.0]])


def test_votes_by_hand() -> None:
    """IoU of halves and thing 1/2, of halves and picture 1/8, of thing and picture 1/4."""
    attention = torch.tensor([[0.49, 0.36, 0.09, 0.06]])
    a, b, c, d = 0.7, 0.6, 0.3, 0.06**0.5
    half, eighth, quarter = 0.5**0.5, 0.125**0.5, 0.5
    expected = [
        a + half * c + eighth * d,
        b + half * c + eighth * d,
        half * (a + b) + c + quarter * d,
        eighth * (a + b) + quarter * c + d,
    ]
    found = votes(BOXES, attention)
    torch.testing.assert_close(found, torch.tensor([expected]))
    assert found.argmax() == 2


def test_every_image_of_a_batch_votes_for_itself() -> None:
    torch.manual_seed(0)
    corners = torch.rand(3, 6, 2)
    boxes = torch.cat([corners, corners + torch.rand(3, 6, 2)], -1)
    attention = torch.rand(3, 4, 6).softmax(-1)
    together = votes(boxes, attention)
    assert together.shape == (3, 4, 6)
    for i in range(3):
        torch.testing.assert_close(together[i], votes(boxes[i], attention[i]))


def test_the_votes_of_one_word_are_those_of_a_batch() -> None:
    torch.manual_seed(0)
    corners = torch.rand(7, 2, dtype=torch.float64)
    boxes = torch.cat([corners, corners + torch.rand(7, 2, dtype=torch.float64)], -1)
    attention, scores = torch.rand(2, 7, dtype=torch.float64)
    alone = region_votes(boxes.numpy(), attention.numpy(), scores.numpy())
    np.testing.assert_allclose(alone, votes(boxes, attention[None], scores)[0].numpy(), rtol=1e-12)


@pytest.mark.parametrize(("place", "index"), [("attention", 0), ("vote", 2)])
def test_the_region_of_one_word(place: Place, index: int) -> None:
    regions = Regions(BOXES.numpy(), np.zeros((4, 1)), (20, 40))
    assert select_region(regions, np.array([0.5, 0.4, 0.08, 0.02]), place) == index


def test_regions_of_other_frames_do_not_vote() -> None:
    """The second half is in another frame: nothing is left that speaks for the whole."""
    regions = Regions(BOXES.numpy(), np.zeros((4, 1)), (20, 40), frames=np.array([0, 1, 0, 0]))
    assert vote_region(regions, np.array([0.5, 0.4, 0.08, 0.02])) == 0


def test_regions_without_area_vote_for_nobody() -> None:
    regions = Regions(np.array([[5.0, 5, 5, 5], [0, 0, 4, 4]]), np.zeros((2, 1)), (20, 40))
    assert vote_region(regions, np.array([0.9, 0.1])) == 1


def test_a_detector_that_knows_the_whole_decides() -> None:
    """Two boxes that the attention cannot tell apart; and a score of nothing counts as the least one, not as a veto."""
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 10.0]])
    found = votes(boxes, torch.tensor([[0.5, 0.5]]), torch.tensor([0.0, 1.0]))[0]
    torch.testing.assert_close(found[0] / found[1], torch.tensor(MIN_SCORE**SCORE_POWER))
    regions = Regions(boxes.numpy(), np.zeros((2, 1)), (20, 40), scores=np.array([0.1, 0.9]))
    assert vote_region(regions, np.array([0.5, 0.5]), detector=True) == 1
    assert vote_region(regions, np.array([0.5, 0.5])) == 0
