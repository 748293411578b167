"""Boxes of words from several branches: the union of their best regions, or votes."""

import numpy as np
import pytest

from deixis.localize.branches import ground_word
from deixis.types import Regions


def mask(*branches: bool) -> np.ndarray:
    return np.array(branches)


def test_the_best_regions_of_the_branches_that_predicted_the_word_are_merged() -> None:
    boxes = np.array([[0, 0, 10, 10], [20, 5, 30, 25], [50, 50, 60, 60]], dtype=np.float32)
    attention = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.0, 0.1, 0.9]])
    found = ground_word("dog", 3, attention, mask(True, True, False), Regions(boxes, np.zeros((3, 1)), (60, 60)))
    assert found.box == (0, 0, 30, 25)
    assert found.parts == ((0, 0, 10, 10), (20, 5, 30, 25))
    assert found.score == pytest.approx(0.6)
    assert (found.start, found.end, found.text) == (3, 4, "dog")


def test_a_region_of_two_branches_is_one_box() -> None:
    boxes = np.array([[0, 0, 10, 10], [20, 5, 30, 25]], dtype=np.float32)
    attention = np.array([[0.7, 0.3], [0.6, 0.4]])
    found = ground_word("dog", 0, attention, mask(True, True), Regions(boxes, np.zeros((2, 1)), (60, 60)))
    assert found.box == (0, 0, 10, 10)
    assert found.parts == ()


def test_regions_vote_by_the_mean_attention_of_these_branches() -> None:
    """Both branches that predicted the word prefer an end of the object; the third attends elsewhere."""
    boxes = np.array([[0, 0, 20, 10], [20, 0, 40, 10], [0, 0, 40, 10], [50, 50, 60, 60]], dtype=np.float32)
    regions = Regions(boxes, np.zeros((4, 1)), (60, 60))
    attention = np.array([[0.7, 0.0, 0.3, 0.0, 0.0], [0.0, 0.8, 0.2, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]])  # padded
    found = ground_word("dog", 0, attention, mask(True, True, False), regions, place="vote")
    assert found.box == (0, 0, 40, 10)
    assert found.parts == ((0, 0, 20, 10), (20, 0, 40, 10))
    assert found.score == pytest.approx(0.75)
