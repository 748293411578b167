"""Regions of heat maps by our rules: heat inside boxes, scores and selection, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deixis.localize.heat import heat_inside
from deixis.localize.heat_rules import (
    DETECTOR_RULES,
    MIN_ATTENTION,
    MIN_PROBABILITY,
    PROPOSAL_RULES,
    HeatRule,
    boxes_by_heat,
)
from deixis.localize.several import several_objects
from deixis.types import Phrase, Regions


def regions(*boxes: tuple[float, float, float, float], scores: tuple[float, ...] | None = None) -> Regions:
    likely = None if scores is None else np.array(scores)
    return Regions(np.array(boxes, dtype=np.float32), np.zeros((len(boxes), 1)), (40, 20), likely)


# 2 rows and 4 columns of cells of 10 x 10 pixels
MAP = np.array([[0.0, 1.0, 0.5, 0.1], [0.0, 0.9, 0.4, 0.1]])
WHOLE, HOT, PAIR, HALF_CELL = (0, 0, 40, 20), (10, 0, 20, 20), (10, 0, 30, 20), (10, 0, 15, 10)


def test_heat_inside_boxes_by_hand() -> None:
    inside = heat_inside(np.stack([MAP, 2 * MAP]), regions(WHOLE, HOT, PAIR, HALF_CELL, (25, 5, 80, 15)))
    # the last: half of the third column and the fourth, half of both rows, and what is beyond the image is nothing
    expected = [3.0, 1.9, 2.8, 0.5, 0.25 * (0.5 + 0.4) + 0.5 * (0.1 + 0.1)]
    np.testing.assert_allclose(inside, [expected, [2 * value for value in expected]])


def test_the_area_decides_between_the_hottest_cells_and_the_whole() -> None:
    boxes = regions(WHOLE, HOT, PAIR)
    # heat / area^a, areas 800, 200, 400 pixels
    for power, best in ((0.0, 0), (0.5, 2), (1.0, 1)):
        rule = HeatRule(floor=0.0, area_power=power, score_power=0.0)
        np.testing.assert_allclose(
            rule.scores(MAP[None], boxes), [[3.0 / 800**power, 1.9 / 200**power, 2.8 / 400**power]], rtol=1e-6
        )
        assert rule.select(MAP[None], boxes) == [best]


def test_what_is_colder_than_the_floor_counts_as_nought() -> None:
    boxes, cold = regions(WHOLE, HOT, PAIR), HeatRule(floor=0.5, area_power=0.5, score_power=0.0)
    # left of the map: .5 and .4, both in the hot column; it does not matter where the map begins and how it is scaled
    for heat in (MAP, 0.2 + 3 * MAP):
        assert cold.select(heat[None], boxes) == [1]
        scores = cold.scores(heat[None], boxes)[0]
        np.testing.assert_allclose(scores / scores[0], [1, 2, 2**0.5], rtol=1e-6)


def test_a_score_tells_only_where_it_is_trusted() -> None:
    boxes = regions(WHOLE, HOT, PAIR, scores=(0.01, 0.64, 0.16))
    trusting = HeatRule(floor=0.0, area_power=0.5, score_power=0.5)
    np.testing.assert_allclose(
        trusting.scores(MAP[None], boxes),
        [[3.0 / 800**0.5 * 0.1, 1.9 / 200**0.5 * 0.8, 2.8 / 400**0.5 * 0.4]],
        rtol=1e-6,
    )
    assert trusting.select(MAP[None], boxes) == [1]
    assert HeatRule(floor=0.0, area_power=0.5, score_power=0.0).select(MAP[None], boxes) == [2]
    assert trusting.select(MAP[None], regions(WHOLE, HOT, PAIR)) == [2]


def test_a_name_tells_where_heat_cannot() -> None:
    boxes = regions(HOT, (30, 0, 40, 20), PAIR)
    rule = HeatRule(floor=0.0, area_power=0.5, score_power=0.0, class_power=0.5)
    even = np.ones_like(MAP)
    named = np.array([[0.04, 0.25, 0.0], [1.0, 1.0, 1.0]])
    scores = rule.scores(np.stack([even + MAP, even + MAP]), boxes, named)
    plain = replace(rule, class_power=0.0).scores(np.stack([even + MAP, even + MAP]), boxes, named)
    np.testing.assert_allclose(scores[0] / plain[0], [0.2, 0.5, MIN_PROBABILITY**0.5])
    np.testing.assert_allclose(scores[1], plain[1])
    assert rule.select(MAP[None], boxes) == replace(rule, class_power=0.0).select(MAP[None], boxes)


@pytest.mark.parametrize("rule", [*vars(DETECTOR_RULES).values(), *vars(PROPOSAL_RULES).values()])
def test_maps_are_scored_independently_and_scores_are_finite(rule: HeatRule) -> None:
    boxes = regions(WHOLE, HOT, (30, 0, 40, 20), (5, 5, 5, 5), scores=(0.0, 0.5, 0.5, 1.0))
    maps = np.stack([MAP, MAP[:, ::-1], np.zeros_like(MAP), np.full_like(MAP, 0.3)])
    scores = rule.scores(maps, boxes)
    assert np.isfinite(scores).all()
    for alone, row in zip(maps, scores, strict=True):
        np.testing.assert_allclose(rule.scores(alone[None], boxes)[0], row)
    assert (scores[2:] == 0).all()
    assert (scores[:2, 0] > 0).all()  # a score of nought does not take a region out


def phrase(lemma: str, plural: bool = False) -> Phrase:
    return Phrase(lemma, 0, 1, lemma, lemma=lemma, plural=plural)


def test_the_rule_depends_on_the_phrase_and_on_the_proposals() -> None:
    """One map for phrases of a known class, of an unknown one, and of several objects.

    PAIR has the most heat for its area but a low score, HOT a high score, and the last box the right class.
    """
    last = (20, 0, 40, 20)
    boxes = regions(PAIR, HOT, last, scores=(0.001, 0.9, 0.9))
    maps = np.stack([MAP] * 4)
    class_probs = np.ones((4, 3))
    class_probs[[0, 3]] = [0.0, 0.0, 0.9]
    phrases = [phrase("dog"), phrase("thing"), phrase("thing", plural=True), phrase("dog", plural=True)]
    found = boxes_by_heat(maps, boxes, class_probs, phrases, detector=True)
    assert found.tolist() == [list(last), list(HOT), list(HOT), list(HOT)]
    found = boxes_by_heat(maps, boxes, class_probs, phrases, detector=False)
    assert found.tolist() == [list(PAIR)] * 4


def test_a_place_may_fill_the_image() -> None:
    boxes, even = regions(WHOLE, HOT, scores=(1.0, 0.5)), np.ones((1, 2, 4)) + 0.2 * MAP
    scene, thing = (
        boxes_by_heat(even, boxes, np.ones((1, 2)), [phrase(lemma)], detector=True)[0] for lemma in ("beach", "thing")
    )
    assert scene.tolist() == list(WHOLE)
    assert thing.tolist() == list(HOT)


def test_several_objects_of_a_class_get_the_box_around_them() -> None:
    """The second box of the left object, the improbable third object and the whole image do not count."""
    left, same, right, far = (0, 0, 10, 10), (1, 0, 10, 10), (15, 5, 25, 15), (30, 10, 40, 20)
    boxes = regions(WHOLE, left, same, right, far)
    probs = np.array([[0.0, 0.9, 0.8, 0.5, 0.2]])
    dogs = [phrase("dog", plural=True)]
    assert boxes_by_heat(MAP[None], boxes, probs, dogs, detector=True).tolist() == [[0, 0, 25, 15]]
    one = np.array([[0.0, 0.9, 0.8, 0.0, 0.2]])
    assert several_objects(boxes.boxes, one[0]) is None
    assert boxes_by_heat(MAP[None], boxes, one, dogs, detector=True).tolist() == [list(WHOLE)]  # by the map alone


def test_the_plural_of_a_part_is_one_part() -> None:
    """Shoes that were located have the box of the feet, not one around all regions with that name."""
    boxes = regions(WHOLE, HOT, (30, 0, 40, 20), scores=(1.0, 0.5, 0.5))
    probs = np.array([[0.0, 0.5, 0.5]])
    found = boxes_by_heat(MAP[None], boxes, probs, [phrase("shoe", plural=True)], detector=True)
    assert found.tolist() == [list(HOT)]


def test_attention_to_the_region_itself_by_hand() -> None:
    boxes = regions(WHOLE, HOT, PAIR)
    rule = HeatRule(floor=0.0, area_power=0.0, score_power=0.0, attention_power=0.5)
    attention = np.array([[0.04, 0.64, 0.0]])
    expected = [[3.0 * 0.2, 1.9 * 0.8, 2.8 * MIN_ATTENTION**0.5]]
    np.testing.assert_allclose(rule.scores(MAP[None], boxes, None, attention), expected, rtol=1e-6)
    assert rule.select(MAP[None], boxes) == [0]  # without attention: heat alone
    assert rule.select(MAP[None], boxes, None, attention) == [1]
