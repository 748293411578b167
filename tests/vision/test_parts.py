"""Body parts and clothes from a hand-made person: a standing figure with a torso of 100 pixels."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.vision.proposals.parts import PARTS, body_unit, part_boxes

PERSON = np.array([50.0, 0.0, 150.0, 320.0])
POINTS = [
    (100, 40), (95, 35), (105, 35), (90, 40), (110, 40),  # nose, eyes, ears
    (75, 80), (125, 80), (65, 130), (135, 130), (60, 170), (140, 170),  # shoulders, elbows, wrists
    (85, 180), (115, 180), (85, 240), (115, 240), (85, 300), (115, 300),  # hips, knees, ankles
]  # fmt: skip


def figure(hidden: tuple[int, ...] = ()) -> np.ndarray:
    points = np.array([(x, y, 0.9) for x, y in POINTS])
    points[list(hidden), 2] = 0.1
    return points


def boxes(points: np.ndarray) -> dict[str, list[list[float]]]:
    found: dict[str, list[list[float]]] = {}
    for name, box in part_boxes(points, PERSON):
        found.setdefault(name, []).append([round(float(value), 6) for value in box])
    return found


def test_the_unit_is_the_torso() -> None:
    assert body_unit(figure(), PERSON) == pytest.approx(100)
    # without hips: 1.3 times the width of the shoulders; with neither: .3 of the person's height
    assert body_unit(figure((11, 12)), PERSON) == pytest.approx(65)
    assert body_unit(figure((5, 6, 11, 12)), PERSON) == pytest.approx(96)


def test_a_whole_figure_has_all_parts() -> None:
    found = boxes(figure())
    assert set(found) == set(PARTS)
    assert found["torso"] == [[55, 65, 145, 195]]  # margins .2 and .15
    assert found["top"] == [[45, 65, 155, 195]]
    assert found["legs"] == [[70, 170, 130, 310]]
    assert found["lower body"] == [[65, 165, 135, 255]]
    assert found["outfit"] == [[55, 65, 145, 315]]
    assert found["head"] == [[70, -4, 130, 71]]  # around the mean of the face (100, 38)
    # a hand continues the forearm by .3 of its length: (60, 170) + .3 (-5, 40) = (58.5, 182)
    assert found["hand"] == [[36.5, 160, 80.5, 204], [119.5, 160, 163.5, 204]]
    assert found["foot"] == [[60, 292, 110, 332], [90, 292, 140, 332]]
    assert found["feet"] == [[60, 292, 140, 332]]


@pytest.mark.parametrize(
    ("hidden", "missing"),
    [
        ((0, 1, 2, 3), {"head", "hat", "face"}),
        ((5, 6), {"torso", "top", "outfit"}),
        ((9, 10), {"arm", "hand"}),
        ((15, 16), {"legs", "foot", "feet"}),
        (tuple(range(17)), set(PARTS)),
    ],
)
def test_hidden_points_have_no_parts(hidden: tuple[int, ...], missing: set[str]) -> None:
    assert set(boxes(figure(hidden))) == set(PARTS) - missing
