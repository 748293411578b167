"""The contact sheet: nothing overlaps, nothing is cut off, boxes are scaled with their picture."""

import numpy as np
import pytest
from PIL import Image

from deixis.show.draw import Mark, Span
from deixis.show.drawing import Drawing
from deixis.show.sheet import Card, contact_sheet

SHADES = [60, 90, 120, 150, 180, 210]


def cards(sizes: list[tuple[int, int]]) -> list[Card]:
    return [
        Card(Image.new("RGB", size, (shade, 0, 0)), (), ((Span("a few words about it"),),), "note")
        for size, shade in zip(sizes, SHADES, strict=False)
    ]


def extent(sheet: Drawing, shade: int) -> tuple[int, int, int, int]:
    here = np.all(np.asarray(sheet.to_image()) == (shade, 0, 0), axis=-1)
    rows, columns = np.flatnonzero(here.any(1)), np.flatnonzero(here.any(0))
    assert here[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].all()
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


@pytest.mark.parametrize(
    "sizes",
    [
        [(300, 200), (200, 300), (500, 100), (100, 500), (320, 240), (10, 10)],
        [(4000, 3000)],
        [(2000, 100), (100, 2000), (50, 50), (300, 200)],
    ],
)
def test_every_picture_is_there_whole_and_apart(sizes):
    sheet = contact_sheet(cards(sizes), "title")
    assert sheet.width <= 2000
    places = [extent(sheet, shade) for shade in SHADES[: len(sizes)]]
    for (width, height), (x1, y1, x2, y2) in zip(sizes, places, strict=True):
        assert (x2 - x1) / (y2 - y1) == pytest.approx(width / height, rel=0.05, abs=0.05)
        assert x1 >= 20
        assert x2 <= sheet.width - 20
        assert y1 >= 60
        assert y2 <= sheet.height - 60  # room for the words
    for index, a in enumerate(places):
        for b in places[:index]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]


def test_marks_move_with_the_picture():
    photo = Image.new("RGB", (100, 100), (60, 0, 0))
    sheet = contact_sheet([Card(photo, (Mark((25, 50, 75, 100), "", "#00ff00"),))])
    green = np.all(np.asarray(sheet.to_image()) == (0, 255, 0), axis=-1)
    x1, y1, x2, y2 = extent(contact_sheet([Card(photo)]), 60)
    columns, rows = np.flatnonzero(green.any(0)), np.flatnonzero(green.any(1))
    assert (columns.min() - x1) / (x2 - x1) == pytest.approx(0.25, abs=0.01)
    assert (columns.max() - x1) / (x2 - x1) == pytest.approx(0.75, abs=0.01)
    assert (rows.min() - y1) / (y2 - y1) == pytest.approx(0.5, abs=0.01)
    assert (rows.max() - y1) / (y2 - y1) == pytest.approx(1.0, abs=0.01)


def test_columns_break_into_rows():
    sizes = [(300, 200)] * 4
    two = [extent(contact_sheet(cards(sizes), columns=2), shade)[1] for shade in SHADES[:4]]
    assert two[0] == two[1] < two[2] == two[3]
