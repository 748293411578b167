"""Heat maps over a photograph."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from deixis.errors import DeixisError
from deixis.show.drawing import Line, Photo
from deixis.show.heat import LARGEST, heat_sheet, overlay
from deixis.types import Grounding, HeatMap


def colourfulness(pixels: np.ndarray) -> float:
    return float(np.ptp(pixels.astype(float), axis=-1).mean())


def test_hot_places_glow_and_cold_ones_are_grey() -> None:
    grid = np.zeros((4, 4))
    grid[0, 3] = 0.02  # heat maps are of any size: only their proportions count
    pixels = np.asarray(overlay(Image.new("RGB", (80, 80), (90, 160, 90)), HeatMap(grid, (80, 80))))
    assert pixels.shape == (80, 80, 3)
    assert colourfulness(pixels[:20, 65:]) > 60
    assert colourfulness(pixels[60:, :20]) == 0
    assert pixels[5, 75].mean() > pixels[75, 5].mean()


def test_large_images_shrink() -> None:
    photo = Image.new("RGB", (2 * LARGEST, LARGEST))
    assert overlay(photo, HeatMap(np.ones((2, 2)), photo.size)).size == (LARGEST, LARGEST // 2)


def test_the_point_is_marked_where_it_lies_in_the_picture() -> None:
    photo = Image.new("RGB", (2 * LARGEST, LARGEST))
    found = Grounding("dog", (0, 0, 90, 90), 0.5, point=(LARGEST / 2, LARGEST / 4), heat=HeatMap(np.eye(2), photo.size))
    drawing = heat_sheet(photo, [found])
    (x1, y1, x2, y2) = next(item.box for item in drawing.items if isinstance(item, Photo))
    lines = [item for item in drawing.items if isinstance(item, Line)]
    middles = {((line.start[0] + line.end[0]) / 2, (line.start[1] + line.end[1]) / 2) for line in lines}
    assert len(lines) == 4
    assert [*middles] == [pytest.approx((x1 + (x2 - x1) / 4, y1 + (y2 - y1) / 4))]


def test_a_map_of_nothing_is_grey_all_over() -> None:
    pixels = np.asarray(overlay(Image.new("RGB", (20, 20), "red"), HeatMap(np.zeros((2, 2)), (20, 20))))
    assert colourfulness(pixels) == 0


def test_a_sheet_has_a_picture_for_each_phrase() -> None:
    photo = Image.new("RGB", (60, 40), "white")
    found = [
        Grounding(text, (0, 0, 20, 20), 0.5, heat=HeatMap(np.eye(4), photo.size))
        for text in ("a dog", "a cat", "a bird")
    ]
    one, three = heat_sheet(photo, found[:1]), heat_sheet(photo, found, "a title")
    assert three.width > 2 * one.width
    with pytest.raises(DeixisError, match="no heat maps"):
        heat_sheet(photo, [Grounding("a dog", (0, 0, 20, 20), 0.5)])
    with pytest.raises(DeixisError, match="there is no grounding to draw"):
        heat_sheet(photo, [])
