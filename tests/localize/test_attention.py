"""Boxes of words from attention over regions, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.localize.attention import branch_groundings, ground_word
from deixis.localize.heat import heat_map
from deixis.types import AttentionTrace, Grounding, Place, Regions


def make_regions(*boxes: tuple[float, float, float, float], scores: tuple[float, ...] | None = None) -> Regions:
    given = None if scores is None else np.array(scores)
    return Regions(np.array(boxes, dtype=np.float32), np.zeros((len(boxes), 1)), (60, 60), given)


def make_trace(regions: Regions, *steps: tuple[list[list[float]], list[bool]]) -> AttentionTrace:
    """Return a trace; each step is the attention of the branches, and which of them predicted the word."""
    attention = np.array([step[0] for step in steps], dtype=np.float32)
    return AttentionTrace(attention, np.array([step[1] for step in steps]), regions.boxes, regions.size)


THREE = make_regions((0, 0, 10, 10), (20, 5, 30, 25), (50, 50, 60, 60))


def test_attention_rule_merges_the_best_boxes_of_the_branches_that_predicted_the_word() -> None:
    weights = [[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.0, 0.1, 0.9]]
    found = ground_word(make_trace(THREE, (weights, [True, True, False])), 0, "dog", THREE)
    assert found.box == (0, 0, 30, 25)
    assert found.parts == ((0, 0, 10, 10), (20, 5, 30, 25))
    assert found.score == pytest.approx(0.6)
    assert (found.start, found.end, found.text, found.head) == (0, 1, "dog", 0)


def test_a_box_that_two_branches_share_is_one_box() -> None:
    regions = make_regions((0, 0, 10, 10), (20, 5, 30, 25))
    found = ground_word(make_trace(regions, ([[0.7, 0.3], [0.6, 0.4]], [True, True])), 0, "dog", regions)
    assert found.box == (0, 0, 10, 10)
    assert found.parts == ()


def test_vote_rule_uses_the_mean_attention_of_the_branches_that_predicted_the_word() -> None:
    """Each of the two branches prefers one end of the object; the third branch did not predict the word."""
    regions = make_regions((0, 0, 20, 10), (20, 0, 40, 10), (0, 0, 40, 10), (50, 50, 60, 60))
    weights = [[0.7, 0.0, 0.3, 0.0], [0.0, 0.8, 0.2, 0.0], [0.0, 0.0, 0.0, 1.0]]
    found = ground_word(make_trace(regions, (weights, [True, True, False])), 0, "dog", regions, place="vote")
    assert found.box == (0, 0, 40, 10)
    assert found.parts == ((0, 0, 20, 10), (20, 0, 40, 10))
    assert found.score == pytest.approx(0.75)


def test_vote_rule_uses_the_scores_of_a_detector_only() -> None:
    """Two boxes with equal attention and equal overlap: only their scores differ."""
    regions = make_regions((0, 0, 10, 10), (1, 1, 11, 11), (40, 40, 60, 60), scores=(0.1, 0.9, 0.5))
    trace = make_trace(regions, ([[0.4, 0.4, 0.2]], [True]))
    assert ground_word(trace, 0, "dog", regions, "vote", detector=True).box == (1, 1, 11, 11)
    assert ground_word(trace, 0, "dog", regions, "vote").box == (0, 0, 10, 10)


@pytest.mark.parametrize("place", ["attention", "vote"])
def test_every_word_has_the_attention_of_its_own_step(place: Place) -> None:
    first, second = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.9, 0.1], [0.1, 0.0, 0.9]]
    trace = make_trace(THREE, (first, [True, True]), (second, [False, True]))
    found = ground_word(trace, 1, "ball", THREE, place)
    assert (found.box, found.start, found.end, found.head) == ((50, 50, 60, 60), 1, 2, 1)
    assert found.score == pytest.approx(0.9)


def test_branches_of_a_grounding_are_read_at_its_head_word() -> None:
    first, second = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.0, 0.8, 0.2], [0.1, 0.0, 0.9]]
    trace = make_trace(THREE, (first, [True, True]), (second, [False, True]))
    phrase = Grounding("red ball", (0, 0, 1, 1), 0.5, 0, 2, head=1)
    (branches,) = branch_groundings(trace, (phrase,), cells=6)
    assert [one.box for one in branches] == [(20, 5, 30, 25), (50, 50, 60, 60)]
    assert [one.score for one in branches] == pytest.approx([0.8, 0.9])
    assert {(one.text, one.start, one.end) for one in branches} == {("red ball", 0, 2)}
    for one, weights in zip(branches, trace.attention[1], strict=True):
        assert one.heat == heat_map(weights, THREE.boxes, THREE.size, 6)
    (without_head,) = branch_groundings(trace, (Grounding("a", (0, 0, 1, 1), 0.5, 0, 1),))
    assert [one.box for one in without_head] == [(0, 0, 10, 10)] * 2
