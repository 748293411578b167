"""Drawing: boxes where they belong, labels that stay in the picture and apart."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageColor, ImageDraw

from deixis import GroundedCaption, Grounding
from deixis.show import draw
from deixis.show.draw import Mark, Span, draw_boxes, draw_caption, draw_text, text_on
from deixis.show.page import Shown, caption_page


def grey(width: int = 600, height: int = 500) -> Image.Image:
    return Image.new("RGB", (width, height), "#808080")


def test_a_box_is_drawn_along_its_edges_and_nowhere_inside() -> None:
    out = np.asarray(draw_boxes(grey(), [Mark((100, 50, 300, 200), colour="#0072b2")]))
    blue = np.array(ImageColor.getrgb("#0072b2"))
    for x, y in [(100, 120), (299, 120), (200, 50), (200, 199)]:
        assert (out[y, x] == blue).all()
    assert (out[70:180, 120:280] == 128).all()
    assert (out[220:] == 128).all()


def test_a_small_picture_is_enlarged_and_its_boxes_with_it() -> None:
    out = draw_boxes(grey(100, 100), [Mark((50, 50, 100, 100), colour="#ff0000")], min_side=400)
    assert out.size == (400, 400)
    assert out.getpixel((201, 300)) == (255, 0, 0)


def test_the_given_image_is_left_alone() -> None:
    image = grey()
    draw_boxes(image, [Mark((0, 0, 50, 50), "dog")])
    assert image.getextrema() == ((128, 128),) * 3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.floats(-50, 700)] * 4), min_size=1, max_size=4))
def test_labels_stay_inside_the_picture(boxes: list[tuple[float, float, float, float]]) -> None:
    size = (600, 500)
    pen = ImageDraw.Draw(grey(*size))
    for box in boxes:
        place = draw._label_place(pen, draw.font(16), "a label", draw._scaled(box, 1.0, size), size, [])
        assert place[0] >= 0
        assert place[1] >= 0
        assert place[2] <= size[0]
        assert place[3] <= size[1]


def test_labels_of_boxes_on_the_same_spot_do_not_cover_each_other() -> None:
    pen = ImageDraw.Draw(grey())
    taken: list[tuple[float, float, float, float]] = []
    for _ in range(6):
        taken.append(draw._label_place(pen, draw.font(16), "person", (100, 100, 400, 400), (600, 500), taken))
    assert all(draw._shared(a, b) == 0 for a, b in itertools.combinations(taken, 2))


@pytest.mark.parametrize("background", [*draw.PALETTE, "#000000", "#ffffff"])
def test_text_reads_on_every_colour(background: str) -> None:
    """At least the contrast of 4.5 that accessibility guidelines ask of text."""

    def luminance(value: str) -> float:
        channels = np.array(ImageColor.getrgb(value)) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted([luminance(background), luminance(text_on(background))])
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_long_text_wraps_inside_its_width() -> None:
    short = draw_text([Span("a dog")], 300)
    long = draw_text([Span("a dog " * 30)], 300)
    assert short.width == long.width == 300
    assert long.height > 3 * short.height
    ink = np.asarray(long.convert("L")) < 128
    assert not ink[:, -8:].any()


def caption() -> GroundedCaption:
    return GroundedCaption(
        ("a", "dog", "&", "<b>"),
        (Grounding("dog", (10, 10, 200, 200), 0.9, 1, 2, parts=((10, 10, 90, 90),)),),
        image='a "photo".jpg',
        model="m",
    )


def test_a_caption_is_drawn_below_with_its_noun_in_the_colour_of_the_box() -> None:
    out = draw_caption(grey(), caption())
    assert out.height > 500
    below = np.asarray(out)[500:].reshape(-1, 3)
    assert (below == ImageColor.getrgb(draw.colour(0))).all(1).any()


def test_the_page_escapes_words_and_carries_everything_inside() -> None:
    page = caption_page("Demo", {"": [Shown(grey(), caption())]})
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "a &quot;photo&quot;.jpg" in page
    assert "http" not in page
    assert page.count('data-g="0"') == 3  # the word, its box, the box's part


def test_the_page_keeps_the_proportions_that_its_boxes_need() -> None:
    """A picture stretched to its height attribute would lie askew under boxes that keep their proportions."""
    page = caption_page("Demo", {"": [Shown(grey(), caption())]})
    assert "width: 100%; height: auto" in page
    assert 'viewBox="0 0 600 500"' in page
