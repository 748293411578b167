"""Charts: values where they belong."""

import re

import pytest

from deixis.show.charts import Bar, Plane, Point, Series, bars, ceiling, columns, plot, ring


@pytest.mark.parametrize(("value", "top"), [(0, 1), (-3, 1), (0.0234, 0.04), (0.1, 0.1), (7, 8), (81, 100), (323, 400)])
def test_a_scale_ends_at_a_round_number(value: float, top: float) -> None:
    assert ceiling(value) == pytest.approx(top)


def places(chart: str) -> list[tuple[float, float]]:
    found = re.findall(r'<circle cx="([\d.-]+)" cy="([\d.-]+)"', chart)
    return [(float(x), float(y)) for x, y in found]


def test_points_lie_on_both_axes() -> None:
    chart = plot([Series([Point(0, 0, "a"), Point(1, 4, "b"), Point(0.5, 2, "c")], "#000000")], "", "", [0, 1], top=4)
    (x0, y0), (x1, y1), middle = places(chart)
    assert x0 < x1
    assert y0 > y1
    assert middle == pytest.approx(((x0 + x1) / 2, (y0 + y1) / 2), abs=0.1)


def test_tenfold_steps_are_equal_on_a_logarithmic_axis() -> None:
    points = [Point(x, 0.5, "") for x in (1, 10, 100)]
    (a, _), (b, _), (c, _) = places(plot([Series(points, "#000000")], "", "", [1, 10, 100], 1.0, logarithmic=True))
    assert b - a == pytest.approx(c - b, abs=0.2)


def test_negative_values_have_room() -> None:
    """A loss may be below nothing, as a negative reward is."""
    chart = plot([Series([Point(1, -0.35, ""), Point(2, 0.1, "")], "#000000", joined=True)], "", "", [1, 2], height=230)
    (_, low), (_, high) = places(chart)
    assert 16 <= high < low <= 230 - 52
    assert ">-0.4<" in chart
    assert all(
        16 <= y <= 230 - 52
        for _, y in places(plot([Series([Point(1, -2, "")], "#000000")], "", "", [1, 2], height=230))
    )


def test_one_epoch_stands_in_the_middle() -> None:
    assert Plane(1.0, span=(1, 1)).x(1) == pytest.approx((Plane(1.0).left + Plane(1.0).right) / 2)


def test_every_text_is_escaped() -> None:
    for chart in (
        bars([("<a>", [Bar("<b>", 0.5, "#000000", "<c>")])], "<d>", [("<e>", "#000000")]),
        columns([Bar("<b>", 0.5, "#000000", "<c>")], "<d>", "<e>"),
        ring([Bar("<b>", 1.0, "#000000")], "<d>"),
        plot([Series([Point(0, 1, "<a>")], "#000000", "<b>")], "<c>", "<d>", [0, 1]),
    ):
        assert not re.search("<[a-e]>", chart)


def test_the_slices_of_a_ring_close_it() -> None:
    chart = ring([Bar("a", 0.25, "#111111"), Bar("b", 0.75, "#222222")], "")
    starts = re.findall(r'd="M([\d.]+ [\d.]+) A\d+ \d+ 0 (\d) 1 ([\d.]+ [\d.]+)', chart)
    (first, small, turn), (second, large, end) = starts
    assert (small, large) == ("0", "1")
    assert turn == second
    assert end == first
