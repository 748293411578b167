"""Pooling of grids: every mean against a loop over cells, and the features of moved boxes from a store."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.types import ByteGrid
from deixis.vision import pooling
from deixis.vision.grid_extractor import CLASS_WEIGHT, repool

SIZE = (60, 40)


def grid(seed: int, height: int, width: int, depth: int, zero: int = 100) -> ByteGrid:
    values = np.random.default_rng(seed).integers(0, 256, (height, width, depth), dtype=np.uint8)
    return ByteGrid(values, 0.25, zero)


def loop_mean(given: ByteGrid, box: tuple[float, ...]) -> np.ndarray:
    """Mean over cells by the covered area, one cell at a time, in double precision."""
    height, width, depth = given.values.shape
    spans = []
    for low, high, length, cells in ((box[0], box[2], SIZE[0], width), (box[1], box[3], SIZE[1], height)):
        start, end = low / length * (cells - 1) + 0.5, high / length * (cells - 1) + 0.5
        if end - start < 1:
            start, end = (start + end) / 2 - 0.5, (start + end) / 2 + 0.5
        spans.append((max(start, 0), min(end, cells)))
    total, area = np.zeros(depth), 0.0
    for row in range(height):
        for column in range(width):
            across = max(0.0, min(spans[0][1], column + 1) - max(spans[0][0], column))
            down = max(0.0, min(spans[1][1], row + 1) - max(spans[1][0], row))
            total += across * down * given.scale * (given.values[row, column].astype(float) - given.zero)
            area += across * down
    return total / area


BOXES = np.array([[0, 0, 60, 40], [10, 5, 31, 22], [33.3, 7.7, 34.1, 39], [58, 38, 60, 40], [0, 0, 1, 1]])


@pytest.mark.parametrize("shape", [(5, 7, 3), (1, 1, 2), (2, 9, 4)])
def test_means_equal_a_loop_over_cells(shape: tuple[int, int, int]) -> None:
    given = grid(0, *shape)
    expected = [loop_mean(given, tuple(box)) for box in BOXES]
    np.testing.assert_allclose(pooling.box_means(given, BOXES, SIZE), expected, atol=2e-4)


def test_features_are_means_contrasts_and_positions() -> None:
    grids = [grid(1, 5, 7, 3), grid(2, 3, 4, 2, zero=0)]
    features = pooling.pool(grids, BOXES, SIZE)
    assert features.shape == (5, 2 * 3 + 2 * 2 + 8)
    outer = np.array([[0, 0, 60, 40], [0, 0, 41.5, 30.5], [32.9, 0, 34.5, 40], [57, 37, 60, 40], [0, 0, 1.5, 1.5]])
    for row, (box, around) in enumerate(zip(BOXES, outer, strict=True)):
        expected: list[float] = []
        for each in grids:
            mean = loop_mean(each, tuple(box))
            expected += [*mean / 3, *(mean - loop_mean(each, tuple(around))) / 3]
        x1, y1, x2, y2 = box / np.tile(SIZE, 2)
        shares = [x1, y1, x2, y2, x2 - x1, y2 - y1, (x2 - x1) * (y2 - y1), np.sqrt((x2 - x1) * (y2 - y1))]
        expected += [2 * share for share in shares]
        np.testing.assert_allclose(features[row], expected, atol=2e-4)
    assert not features[0, 3:6].any()  # the whole image has no surroundings


def test_boxes_beyond_the_image_are_clipped() -> None:
    given = [grid(3, 4, 4, 2)]
    np.testing.assert_array_equal(
        pooling.pool(given, [[-9, -9, 30, 20]], SIZE), pooling.pool(given, [[0, 0, 30, 20]], SIZE)
    )


def test_moved_boxes_have_no_classes_of_the_detector() -> None:
    given, probs = (grid(4, 4, 4, 2),), np.array([[0.5, 0.25]])
    with_classes = repool(given, BOXES[:1], SIZE, 2, probs)
    assert with_classes.dtype == np.float16
    np.testing.assert_array_equal(with_classes[0, -2:], [CLASS_WEIGHT * 0.5, CLASS_WEIGHT * 0.25])
    moved = repool(given, BOXES[:1], SIZE, 2)
    np.testing.assert_array_equal(moved[0, :-2], with_classes[0, :-2])
    assert not moved[0, -2:].any()
    assert repool(given, BOXES[:1], SIZE).shape == (1, 12)


def test_a_grid_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="uint8"):
        ByteGrid(np.zeros((2, 2, 3), np.float32), 1.0, 0)  # type: ignore[arg-type]
