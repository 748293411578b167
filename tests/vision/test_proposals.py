"""Every way of proposing boxes: whole image first, bounded, repeatable, and honest about who taught it."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from deixis import boxes as geometry
from deixis.errors import DeixisError
from deixis.vision import proposals
from deixis.vision.proposals import coco_ssd
from deixis.vision.proposals.base import Found, finish
from deixis.vision.proposals.cover import cover, overlaps

needs_ssd = pytest.mark.skipif(
    coco_ssd.importlib.util.find_spec(coco_ssd.PACKAGE) is None, reason="deixis[coco-ssd] is not installed"
)


def scene(width: int = 160, height: int = 120) -> np.ndarray:
    """A red disc and a green rectangle on a grey ramp with a little grain."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    image = np.stack([90 + 60 * x / width] * 3, axis=-1) + rng.normal(0, 4, (height, width, 3))
    image[(x - 0.3 * width) ** 2 + (y - 0.6 * height) ** 2 < (0.2 * height) ** 2] = (200, 40, 30)
    image[(x > 0.6 * width) & (x < 0.9 * width) & (y > 0.2 * height) & (y < 0.5 * height)] = (30, 160, 60)
    return np.clip(image, 0, 255).astype(np.uint8)


DISC = [0.3 * 160 - 24, 0.6 * 120 - 24, 0.3 * 160 + 24, 0.6 * 120 + 24]
BLOCK = [0.6 * 160, 0.2 * 120, 0.9 * 160, 0.5 * 120]


def check(found: proposals.Proposals, image: np.ndarray, limit: int) -> None:
    height, width = image.shape[:2]
    assert found.boxes.dtype == found.scores.dtype == np.float32
    assert 1 <= len(found) <= limit
    assert found.boxes[0].tolist() == [0, 0, width, height]
    assert (found.boxes[:, :2] >= 0).all()
    assert (found.boxes[:, 2:] <= [width, height]).all()
    assert (found.boxes[:, 2:] - found.boxes[:, :2] >= 1 - 1e-4).all() or len(found) == 1
    assert np.isfinite(found.scores).all()
    assert found.scores[0] == found.scores.max()


# The value type and the common end ---------------------------------------------------------------------------------


def test_parts_of_proposals_must_fit_together():
    box = np.zeros((1, 4), np.float32)
    with pytest.raises(ValueError, match="N >= 1"):
        proposals.Proposals(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))
    with pytest.raises(ValueError, match="scores of shape"):
        proposals.Proposals(box, np.zeros(2, np.float32))


def test_finish_clips_drops_slivers_and_keeps_labels_with_their_boxes():
    image = np.zeros((50, 100, 3), np.uint8)
    boxes = np.array([[-10, -10, 20, 20], [99.5, 0, 140, 50], [30, 30, 60, 60], [5, 5, 9, 9]])
    ids = np.array([[0], [1], [2], [1]])
    found = finish(Found(boxes, np.array([3.0, 2, 1, 0.5]), ("a", "b", "c"), ids, ids / 10), image, limit=3)
    assert found.boxes.tolist() == [[0, 0, 100, 50], [0, 0, 20, 20], [30, 30, 60, 50]]
    assert found.scores.tolist() == [3, 3, 1]
    assert [found.labels.best(i)[0] for i in range(3)] == ["", "a", "c"]


def test_finish_of_nothing_is_the_whole_image():
    image = np.zeros((5, 7, 3), np.uint8)
    found = finish(Found(np.zeros((0, 4)), np.zeros(0)), image, limit=10)
    assert found.boxes.tolist() == [[0, 0, 7, 5]]


# Cover -------------------------------------------------------------------------------------------------------------


def random_boxes(count: int, seed: int) -> np.ndarray:
    corners = np.random.default_rng(seed).uniform(0, 100, (count, 2, 2))
    return np.concatenate([corners.min(axis=1), corners.max(axis=1) + 1], axis=1)


def test_fast_overlaps_are_the_iou():
    a, b = random_boxes(40, 1), random_boxes(30, 2)
    np.testing.assert_allclose(overlaps(a, b), geometry.iou(a, b), atol=1e-6)


def test_cover_takes_the_best_addition_at_every_step():
    boxes, weights = random_boxes(60, 3), np.random.default_rng(4).uniform(0.1, 1, 60)
    whole = np.array([0, 0, 101, 101.0])
    chosen, gains = cover(boxes, weights, 12, (0.3, 0.8), whole)
    near = np.clip((geometry.iou(boxes, boxes) - 0.3) / 0.5, 0, 1)
    covered = np.clip((geometry.iou(boxes, whole[None])[:, 0] - 0.3) / 0.5, 0, 1)
    for index, gain in zip(chosen, gains, strict=True):
        added = np.maximum(near - covered[:, None], 0).T @ weights / weights.sum()
        assert added[index] == pytest.approx(added.max(), abs=1e-5)
        assert gain == pytest.approx(added[index], abs=1e-5)
        covered = np.maximum(covered, near[index])
    assert len(set(chosen)) == 12


def test_cover_prefers_another_place_to_a_near_copy():
    boxes = np.array([[0, 0, 40, 40], [1, 0, 41, 40], [0, 1, 40, 41], [60, 60, 90, 90.0]])
    chosen, _ = cover(boxes, np.array([1, 1, 1, 0.9]), 2, (0.4, 0.8), np.array([0, 0, 100, 100.0]))
    assert 3 in chosen


# Selective search and the grid --------------------------------------------------------------------------------------


def test_selective_search_finds_the_things_in_a_scene():
    image = scene()
    found = proposals.default().propose(image)
    check(found, image, 100)
    assert geometry.iou([DISC, BLOCK], found.boxes[:20]).max(axis=1).min() > 0.7


def test_selective_search_repeats_itself():
    image = scene()
    once, again = (proposals.default().propose(image) for _ in range(2))
    assert np.array_equal(once.boxes, again.boxes)
    assert np.array_equal(once.scores, again.scores)


@pytest.mark.parametrize("name", ["selective-search", "grid"])
def test_fewer_boxes_are_the_beginning_of_more(name):
    image = scene()
    few, many = (proposals.by_name(name, limit).propose(image).boxes for limit in (8, 30))
    assert np.array_equal(few, many[:8])
    assert len(few) == 8


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (3, 4), (20, 900)])
@pytest.mark.parametrize("name", ["selective-search", "grid"])
def test_pictures_of_any_shape(name, shape):
    image = np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8)
    check(proposals.by_name(name, 30).propose(image), image, 30)


def test_a_plain_picture_is_one_region():
    image = np.full((60, 80, 3), 120, np.uint8)
    found = proposals.default().propose(image)
    check(found, image, 100)


def test_the_grid_scales_with_the_picture():
    small, large = (proposals.Grid().propose(np.zeros((h, h * 2, 3), np.uint8)) for h in (100, 300))
    np.testing.assert_allclose(small.boxes * 3, large.boxes, rtol=1e-6)
    assert len({tuple(box) for box in large.boxes.tolist()}) == 100


# Names and descriptions -------------------------------------------------------------------------------------------


def test_an_unknown_name_is_told_the_choices():
    for name in ("selectve-search", "truth", "truth:", "torchvision:fasterrcnn", "transformers:"):
        with pytest.raises(DeixisError, match=r"no proposals called .* choose selective-search, grid, coco-ssd"):
            proposals.by_name(name)


def test_no_boxes_at_all_is_refused():
    with pytest.raises(DeixisError, match="at least one box"):
        proposals.by_name("grid", 0)


@pytest.mark.parametrize("name", ["selective-search", "grid", "coco-ssd", "coco-ssd+ss"])
def test_a_description_is_json_names_its_maker_and_follows_the_settings(name):
    one, other = proposals.by_name(name, 50), proposals.by_name(name, 51)
    described = json.loads(json.dumps(one.describe()))
    assert described["name"] == name
    assert described["limit"] == 50
    assert ("none" in described["supervision"]) == (name in ("selective-search", "grid"))
    assert described != json.loads(json.dumps(other.describe()))
    assert pickle.loads(pickle.dumps(one)) == one


def test_importing_proposals_imports_neither_torch_nor_opencv():
    code = "import sys; import deixis.vision.proposals; print({'torch', 'cv2', 'transformers'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"
