"""Boxes of different frames are never merged, never vote for each other and never match."""

import numpy as np
import pytest

from deixis.localize.attention import branch_groundings, frame_attention, ground_word
from deixis.localize.votes import vote_region
from deixis.metrics.grounded_captions import ACTIVITYNET, ObjectWord, Sentence, grounding_scores
from deixis.types import AttentionTrace, Grounding, Regions

BOXES = np.array([[0, 0, 10, 10], [20, 20, 40, 40], [0, 0, 10, 10], [60, 60, 80, 90.0]])
FRAMES = np.array([0, 0, 1, 1])


def clip() -> Regions:
    return Regions(BOXES, np.zeros((4, 2)), (100, 100), frames=FRAMES)


def trace(*branches: list[float], mask: list[bool] | None = None) -> AttentionTrace:
    attention = np.array([branches], dtype=np.float32)  # [1, K, 4]
    voted = np.array([mask or [True] * len(branches)])
    return AttentionTrace(attention, voted, BOXES, (100, 100), FRAMES)


def test_the_union_of_branches_is_within_a_frame():
    # frame 0: both branches take another region; frame 1: both take the last one
    found = ground_word(trace([0.4, 0.3, 0.1, 0.2], [0.1, 0.5, 0.1, 0.3]), 0, "dog", clip(), times=(1.5, 4.5))
    first, second = found.track
    assert first.box == (0, 0, 40, 40)
    assert first.parts == ((0, 0, 10, 10), (20, 20, 40, 40))
    assert second.box == (60, 60, 80, 90)
    assert second.parts == ()
    assert first.score == pytest.approx((0.4 + 0.5) / 2)
    assert second.score == pytest.approx((0.2 + 0.3) / 2)
    assert (found.frame, found.time, found.box) == (0, 1.5, first.box)  # of the best frame


def test_people_see_the_frames_above_the_threshold():
    found = ground_word(trace([0.4, 0.3, 0.1, 0.2]), 0, "dog", clip(), frame_threshold=0.6)
    assert [one.shown for one in found.track] == [True, False]  # .2 < .6 * .4
    assert found.shown_at(0) is not None
    assert found.shown_at(1) is None
    everything = ground_word(trace([0.4, 0.3, 0.1, 0.2]), 0, "dog", clip(), frame_threshold=0.5)
    assert all(one.shown for one in everything.track)


def test_a_clip_round_trips_through_json():
    found = ground_word(trace([0.4, 0.3, 0.1, 0.2]), 0, "dog", clip(), frame_threshold=0.6)
    assert Grounding.from_json(found.to_json()) == found


def test_votes_stay_in_their_frame():
    # regions 0 and 2 are the same box in two frames. Together they would beat region 1.
    regions = Regions(BOXES, np.zeros((4, 2)), (100, 100), frames=np.array([0, 0, 1, 0]))
    assert vote_region(regions, np.array([0.3, 0.4, 0.3, 0.0])) == 1
    assert vote_region(Regions(BOXES, np.zeros((4, 2)), (100, 100)), np.array([0.3, 0.4, 0.3, 0.0])) == 0


def test_branches_are_shown_in_the_frame_of_the_word():
    seen = trace([0.1, 0.2, 0.1, 0.6], [0.7, 0.1, 0.1, 0.1], mask=[True, False])
    (row,) = branch_groundings(seen, (Grounding("dog", (60, 60, 80, 90), 0.6, 0, 1, frame=1),))
    assert [one.box for one in row] == [(60, 60, 80, 90), (0, 0, 10, 10)]
    attention, boxes = frame_attention(seen, 0)  # the frame of the branch that predicted the word
    assert boxes.tolist() == BOXES[2:].tolist()
    np.testing.assert_allclose(attention, [[0.1, 0.6], [0.1, 0.1]])


def f1(boxes, frames) -> float:
    references = {"v": (Sentence((ObjectWord("dog", 1, ((0, 0, 10, 10),), (3,)),), ("a", "dog")),)}
    predictions = {"v": (Sentence((ObjectWord("dog", 1, boxes, frames),), ("a", "dog")),)}
    scores = grounding_scores(references, predictions, ACTIVITYNET)
    return next(score.value for score in scores if score.name == "F1_all")


def test_the_right_box_in_the_wrong_frame_is_wrong():
    box = (0, 0, 10, 10)
    assert f1((box,), (3,)) == 1
    assert f1((box,), (4,)) == 0
    assert f1((box,), ()) == 0  # a box without a frame is in no frame
    assert f1((box, (50, 50, 60, 60)), (3, 4)) == 1
    assert f1(((50, 50, 60, 60), box), (3, 4)) == 0
    assert f1(((0, 0, 1, 1),), (3,)) == 0  # [0, 0, 0, 0] of a submission
