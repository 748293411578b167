"""Box geometry: hand-worked cases and properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deixis import boxes

number = st.floats(-500, 500, width=32)
side = st.floats(0.5, 400, width=32)


@st.composite
def box_arrays(draw: st.DrawFn, min_boxes: int = 1) -> np.ndarray:
    n = draw(st.integers(min_boxes, 6))
    corner = draw(hnp.arrays(np.float64, (n, 2), elements=number))
    size = draw(hnp.arrays(np.float64, (n, 2), elements=side))
    return np.concatenate([corner, corner + size], axis=1)


def test_iou_by_hand() -> None:
    a = [[0, 0, 2, 2], [0, 0, 1, 1], [5, 5, 5, 9]]
    b = [[1, 1, 3, 3], [0, 0, 2, 2]]
    np.testing.assert_allclose(boxes.iou(a, b), [[1 / 7, 1], [0, 1 / 4], [0, 0]])
    assert boxes.iou([], b).shape == (0, 2)


def test_two_empty_boxes_do_not_overlap() -> None:
    assert boxes.iou([[3, 3, 3, 3]], [[3, 3, 3, 3]]).item() == 0


def test_a_box_inside_out_has_no_area() -> None:
    np.testing.assert_array_equal(boxes.area([[4, 0, 1, 5], [4, 0, 1, -5]]), [0, 0])


def test_whole_numbers_are_accepted_and_other_shapes_are_not() -> None:
    assert boxes.as_boxes([[1, 2, 3, 4]]).dtype == np.float64
    with pytest.raises(ValueError, match=r"must have shape \[\.\.\., 4\]"):
        boxes.as_boxes([[1, 2, 3]])


@given(box_arrays(), box_arrays())
def test_iou_is_symmetric_bounded_and_one_on_itself(a: np.ndarray, b: np.ndarray) -> None:
    overlap = boxes.iou(a, b)
    np.testing.assert_allclose(overlap, boxes.iou(b, a).T, atol=1e-12)
    assert ((overlap >= 0) & (overlap <= 1 + 1e-9)).all()
    np.testing.assert_allclose(np.diag(boxes.iou(a, a)), 1)


@given(box_arrays(), number, number, st.floats(0.1, 10))
def test_iou_does_not_change_when_the_picture_moves_or_grows(a: np.ndarray, x: float, y: float, scale: float) -> None:
    moved = (a + np.array([x, y, x, y])) * scale
    np.testing.assert_allclose(boxes.iou(moved, moved), boxes.iou(a, a), atol=1e-6)


@given(box_arrays())
def test_union_holds_every_box_and_touches_all_sides(a: np.ndarray) -> None:
    whole = boxes.union(a)
    np.testing.assert_allclose(boxes.intersection(whole[None], a)[0], boxes.area(a))
    assert whole[0] in a[:, 0]
    assert whole[3] in a[:, 3]


def test_union_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one box"):
        boxes.union([])


@given(box_arrays(), box_arrays())
def test_deltas_take_sources_onto_targets(a: np.ndarray, b: np.ndarray) -> None:
    n = min(len(a), len(b))
    np.testing.assert_allclose(boxes.apply_deltas(a[:n], boxes.deltas(a[:n], b[:n])), b[:n], atol=1e-6)


def test_deltas_by_hand() -> None:
    np.testing.assert_allclose(boxes.deltas([[0, 0, 10, 20]], [[5, 0, 25, 20]]), [[1, 0, np.log(2), 0]])


@given(box_arrays(), st.floats(1, 900), st.floats(1, 900))
def test_clip_stays_inside_and_repeats_without_change(a: np.ndarray, width: float, height: float) -> None:
    cut = boxes.clip(a, width, height)
    assert (cut >= 0).all()
    assert (cut <= [width, height, width, height]).all()
    np.testing.assert_array_equal(boxes.clip(cut, width, height), cut)


def test_a_box_holds_its_near_edges_and_not_its_far_ones() -> None:
    assert boxes.contains([[1, 1, 3, 3]], (1, 1)).all()
    assert not boxes.contains([[1, 1, 3, 3]], (3, 2)).any()


@given(box_arrays(), st.floats(0.1, 0.9))
def test_nms_keeps_a_maximal_set_without_overlap(a: np.ndarray, threshold: float) -> None:
    scores = np.arange(len(a))[::-1] % 3
    kept = boxes.nms(a, scores, threshold)
    overlap = boxes.iou(a, a)
    inside = overlap[np.ix_(kept, kept)] - np.eye(len(kept))
    assert (inside <= threshold + 1e-9).all()
    for left_out in set(range(len(a))) - set(kept.tolist()):
        assert any(overlap[left_out, k] > threshold and scores[k] >= scores[left_out] for k in kept)


@given(box_arrays(), st.floats(1, 2000), st.floats(1, 2000))
def test_every_convention_comes_back(a: np.ndarray, width: float, height: float) -> None:
    np.testing.assert_allclose(boxes.from_inclusive(boxes.to_inclusive(a)), a, atol=1e-9)
    np.testing.assert_allclose(boxes.from_zero_based_inclusive(boxes.to_zero_based_inclusive(a)), a, atol=1e-9)
    np.testing.assert_allclose(boxes.from_xywh(boxes.to_xywh(a)), a, atol=1e-9)
    there = boxes.to_normalised(a, width, height)
    np.testing.assert_allclose(boxes.from_normalised(there, width, height), a, atol=1e-9, rtol=1e-9)


@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 300), st.integers(0, 300))
def test_conventions_agree_on_the_pixels_they_cover(width: int, height: int, left: int, top: int) -> None:
    """A box of width x height pixels has that area in every convention."""
    ours = np.array([[left, top, left + width, top + height]], dtype=float)
    inclusive = [[left + 1, top + 1, left + width, top + height]]
    np.testing.assert_array_equal(boxes.from_inclusive(inclusive), ours)
    zero_based = [[left, top, left + width - 1, top + height - 1]]
    np.testing.assert_array_equal(boxes.from_zero_based_inclusive(zero_based), ours)
    np.testing.assert_array_equal(boxes.from_xywh([[left, top, width, height]]), ours)
    assert boxes.area(ours).item() == width * height
