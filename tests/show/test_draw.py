"""Drawing: boxes where they belong, labels that stay in the picture and apart, colours that all can tell apart."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageColor

from deixis import GroundedCaption, Grounding
from deixis.show import draw
from deixis.show.draw import Mark, Span, draw_boxes, draw_caption, draw_marks, draw_text, text_on
from deixis.show.drawing import Drawing, Rect, Words


def grey(width: int = 600, height: int = 500) -> Image.Image:
    return Image.new("RGB", (width, height), "#808080")


def chips(drawing: Drawing) -> list[Rect]:
    return [item for item in drawing.items if isinstance(item, Rect) and item.fill and item.radius]


def test_a_box_is_drawn_along_its_edges_and_nowhere_inside() -> None:
    out = np.asarray(draw_boxes(grey(), [Mark((100, 50, 300, 200), colour="#0072b2")]).to_image())
    blue = np.array(ImageColor.getrgb("#0072b2"))
    for x, y in [(100, 120), (299, 120), (200, 50), (200, 199)]:
        assert (out[y, x] == blue).all()
    assert (out[70:180, 120:280] == 128).all()
    assert (out[220:] == 128).all()


def test_a_small_picture_is_enlarged_and_its_boxes_with_it() -> None:
    out = draw_boxes(grey(100, 100), [Mark((50, 50, 100, 100), colour="#ff0000")], min_side=400).to_image()
    assert out.size == (400, 400)
    assert out.getpixel((201, 300)) == (255, 0, 0)


def test_the_given_image_is_left_alone() -> None:
    image = grey()
    draw_boxes(image, [Mark((0, 0, 50, 50), "dog")]).to_image()
    assert image.getextrema() == ((128, 128),) * 3


numbers = st.floats(-100, 900)
labels = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=40)
marked = st.builds(
    Mark, st.tuples(numbers, numbers, numbers, numbers), labels, st.sampled_from(draw.PALETTE), score=st.floats(0, 1)
)


@settings(max_examples=100, deadline=None)
@given(st.tuples(st.integers(1, 800), st.integers(1, 800)), st.lists(marked, max_size=25), st.integers(40, 900))
def test_labels_stay_inside_the_picture_and_apart_whatever_the_boxes(
    size: tuple[int, int], marks: list[Mark], width: int
) -> None:
    drawing = draw_marks(grey(*size), marks, width)
    places = [chip.box for chip in chips(drawing)]
    for x1, y1, x2, y2 in places:
        assert 0 <= x1 < x2 <= drawing.width
        assert 0 <= y1 < y2 <= drawing.height
    for (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) in itertools.combinations(places, 2):
        assert ax2 <= bx1 or bx2 <= ax1 or ay2 <= by1 or by2 <= ay1
    asked = [mark for mark in marks if mark.label.strip()]
    assert len(places) + len(drawing.left_out) == len(asked)
    texts = [item for item in drawing.items if isinstance(item, Words)]
    for chip, text in zip(places, texts, strict=True):  # what is written stands on its label
        assert chip[0] <= text.at[0]
        assert text.at[0] + draw.text_width(text.text, text.size) <= chip[2]


@pytest.mark.parametrize("length", [1, 12, 60])
@pytest.mark.parametrize("size", [(60, 60), (200, 2000), (1000, 30)])
def test_a_single_label_always_finds_room_on_a_picture_for_people(size: tuple[int, int], length: int) -> None:
    assert not draw_boxes(grey(*size), [Mark((5, 5, 20, 20), "w" * length)]).left_out


def test_where_labels_do_not_all_fit_the_least_sure_are_named_below() -> None:
    marks = [Mark((0, 0, 90, 40), f"thing {i}", draw.colour(i), score=i / 20) for i in range(20)]
    picture = draw_marks(grey(100, 60), marks, 120, label_size=12)
    shown = [item.text for item in picture.items if isinstance(item, Words)]
    assert 1 <= len(shown) < 20
    assert sorted(shown) == sorted(f"thing {i}" for i in range(20 - len(shown), 20))
    assert [label for label, _ in picture.left_out] == [f"thing {i}" for i in range(20 - len(shown))]
    whole = draw.draw_photo(grey(100, 60), marks, 120, label_size=12)
    below = [item for item in whole.items if isinstance(item, Words) and item.at[1] > picture.height]
    told = " ".join(["Not shown:", *(label for label, _ in picture.left_out)])
    assert " ".join(words.text for words in below) == told


@pytest.mark.parametrize("background", [*draw.PALETTE, "#000000", "#ffffff"])
def test_text_reads_on_every_colour(background: str) -> None:
    """At least the contrast of 4.5 that accessibility guidelines ask of text."""
    low, high = sorted([luminance(background), luminance(text_on(background))])
    assert (high + 0.05) / (low + 0.05) >= 4.5


def linear(value: str) -> np.ndarray:
    channels = np.array(ImageColor.getrgb(value)) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(value: str) -> float:
    return float(linear(value) @ [0.2126, 0.7152, 0.0722])


SEEN_AS = {
    "all three cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""Linear RGB as people with one kind of cone missing see it (Machado, Oliveira and Fernandes 2009, severity 1)."""


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB, white D65."""
    to_xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    )
    t = to_xyz @ rgb / to_xyz.sum(1)
    f = np.where(t > 216 / 24389, np.cbrt(t), (24389 / 27 * t + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", SEEN_AS)
def test_the_first_eight_colours_are_told_apart_with_any_colour_vision(vision: str) -> None:
    """A difference of 2.3 can just be noticed side by side; twelve times that is seen across a picture."""
    seen = [lab(np.clip(np.array(SEEN_AS[vision]) @ linear(value), 0, 1)) for value in draw.PALETTE]
    assert len(seen) == 8
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 28


def test_long_text_wraps_inside_its_width() -> None:
    short = draw_text([Span("a dog")], 300)
    long = draw_text([Span("a dog " * 30), Span("w" * 90, "#0072b2")], 300)
    assert short.width == long.width == 300
    assert long.height > 3 * short.height
    ink = np.asarray(long.to_image().convert("L")) < 200
    assert not ink[:, -8:].any()


def test_a_phrase_stands_on_one_colour_in_each_line() -> None:
    drawing = draw_text([Span("with"), Span("a man in a blue shirt", "#0072b2"), Span(".", glue=True)], 500)
    assert len(chips(drawing)) == 1
    assert [item.text for item in drawing.items if isinstance(item, Words)] == ["with", "a man in a blue shirt", "."]
    broken = draw_text([Span("a man in a blue shirt", "#0072b2")], 120)
    assert len(chips(broken)) > 1
    assert len({chip.box[1] for chip in chips(broken)}) == len(chips(broken))


def caption() -> GroundedCaption:
    return GroundedCaption(
        ("a", "dog", "&", "<b>"),
        (Grounding("dog", (10, 10, 200, 200), 0.9, 1, 2, parts=((10, 10, 90, 90),)),),
        image='a "photo".jpg',
        model="m",
    )


def test_a_caption_is_drawn_below_with_its_noun_in_the_colour_of_the_box() -> None:
    drawing = draw_caption(grey(), caption())
    assert drawing.height > 500
    label, word = chips(drawing)
    assert label.fill == word.fill == draw.colour(0)
    assert label.box[3] <= 500 <= word.box[1]
    box = next(
        item for item in drawing.items if isinstance(item, Rect) and item.stroke == draw.colour(0) and not item.dashed
    )
    assert box.box == (10, 10, 200, 200)


def test_words_stand_in_the_sentence_as_it_is_written() -> None:
    words = ("a", "man", "'s", "tv")
    made = GroundedCaption(words, (Grounding("man", (0, 0, 9, 9), 0.5, 1, 2),), caption="A man's TV.")
    spans = draw.caption_spans(made)
    assert [(span.text, span.colour, span.glue) for span in spans] == [
        ("A", None, False),
        ("man", draw.colour(0), False),
        ("'s TV.", None, True),
    ]
    plain = GroundedCaption(words, caption="Anything else")
    assert draw.written_words(plain) == ["a", " man", " 's", " tv"]


def test_a_phrase_of_several_words_is_one_span_with_one_label() -> None:
    wall = Grounding("rock wall", (10, 10, 200, 200), 0.9, 1, 3)
    made = GroundedCaption(("a", "rock", "wall", "stands"), (wall,), caption="A rock wall stands.")
    assert [(span.text, span.colour) for span in draw.caption_spans(made)] == [
        ("A", None),
        ("rock wall", draw.colour(0)),
        ("stands.", None),
    ]
    drawing = draw_caption(grey(), made)
    assert len(chips(drawing)) == 2  # at the box and in the sentence
    assert [item.text for item in drawing.items if isinstance(item, Words)].count("rock wall") == 2


def test_a_note_stands_below_the_sentence() -> None:
    without, with_note = draw_caption(grey(), caption()), draw_caption(grey(), caption(), note="Low confidence: why.")
    assert with_note.height > without.height
    note = next(item for item in with_note.items if isinstance(item, Words) and item.text.startswith("Low"))
    assert without.height <= note.at[1] <= with_note.height


def test_boxes_of_absent_phrases_are_dashed() -> None:
    found = caption()
    for absent in ((), found.groundings):
        edge = [
            item
            for item in draw_caption(grey(), found, absent=absent).items
            if isinstance(item, Rect) and item.stroke == draw.colour(0) and item.box == (10, 10, 200, 200)
        ]
        assert [item.dashed for item in edge] == [bool(absent)]


def test_the_box_before_regression_is_dashed() -> None:
    moved = Grounding("dog", (20, 20, 80, 80), 0.9, initial_box=(10, 10, 60, 60))
    mark = Mark.of(moved, "#123456")
    assert mark.parts == ((10, 10, 60, 60),)  # parts are drawn as thin dashed boxes
