"""The two writers of a drawing agree, and the SVG is sound."""

import base64
import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from deixis import GroundedCaption, Grounding
from deixis.errors import DeixisError
from deixis.show.draw import Mark, colour, draw_boxes, draw_caption, draw_marks
from deixis.show.drawing import Drawing, Photo, Rect, Words, beside, save_drawing, stack, text_width
from deixis.show.panels import draw_branches, draw_comparison
from deixis.types import HeatMap

SVG = "{http://www.w3.org/2000/svg}"


def photo(width: int = 320, height: int = 240) -> Image.Image:
    ramp = np.linspace(0, 255, width * height * 3).reshape(height, width, 3)
    return Image.fromarray(ramp.astype(np.uint8))


def caption(words: str, *nouns: tuple[int, tuple[float, float, float, float]], model: str = "") -> GroundedCaption:
    said = tuple(words.split())
    groundings = tuple(Grounding(said[at], box, 0.5, at, at + 1) for at, box in nouns)
    return GroundedCaption(said, groundings, model=model)


MAN = caption("a man with a dog", (1, (10, 20, 110, 220)), (4, (150, 100, 300, 230)), model="first")
DOG = caption("a dog beside a bench", (1, (140, 90, 310, 235)), (4, (0, 120, 200, 240)), model="second")


def parsed(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.to_svg())


def test_svg_has_the_boxes_the_words_and_the_photograph() -> None:
    tree = parsed(draw_caption(photo(), MAN))
    image = tree.find(f"{SVG}defs/{SVG}image")
    assert image is not None
    kind, data = image.attrib["href"].split(",", 1)
    assert kind == "data:image/jpeg;base64"
    inside = Image.open(io.BytesIO(base64.b64decode(data)))
    assert inside.size == (320, 240)  # enlarged where it is shown, not in the file
    assert np.abs(np.asarray(inside, dtype=float) - np.asarray(photo())).mean() < 4
    texts = [element.text for element in tree.iter(f"{SVG}text")]
    assert texts == ["man", "dog", "a", "man", "with a", "dog"]
    (use,) = tree.iter(f"{SVG}use")
    assert use.attrib["href"] == f"#{image.attrib['id']}"
    assert use.attrib["transform"] == "translate(0 0) scale(2 2)"
    rects = [element.attrib for element in tree.iter(f"{SVG}rect")]
    outlines = [rect for rect in rects if rect.get("stroke") == colour(0)]
    assert [float(outlines[0][side]) for side in ("x", "y", "width", "height")] == [
        21,
        41,
        198,
        398,
    ]  # line of 2, inside
    assert sum(rect["fill"] == colour(0) for rect in rects) == 2  # label and word


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30), st.sampled_from([colour(0), colour(4)]))
def test_svg_is_well_formed_whatever_the_words(text: str, ink: str) -> None:
    drawing = draw_boxes(photo(60, 60), [Mark((0, 0, 40, 40), text, ink)])
    tree = parsed(drawing)
    shown = [element.text or "" for element in tree.iter(f"{SVG}text")]
    assert len(shown) == sum(isinstance(item, Words) for item in drawing.items)
    if text.isascii() and text.isprintable() and text.strip() and not drawing.left_out and "…" not in "".join(shown):
        assert shown == [" ".join(text.split())]


def test_words_keep_their_measured_room_in_any_type_face() -> None:
    (text,) = parsed(Drawing(200, 50, (Words((10, 30), "wide words", 20),))).iter(f"{SVG}text")
    assert float(text.attrib["textLength"]) == pytest.approx(text_width("wide words", 20), rel=1e-4)


def test_a_photograph_that_is_shown_often_is_kept_once() -> None:
    branches = [[Grounding(g.text, g.box, 0.1) for _ in range(4)] for g in MAN.groundings]
    tree = parsed(draw_branches(photo(), MAN, branches, [[True] * 4] * 2))
    assert len(list(tree.iter(f"{SVG}image"))) == 1
    assert len(list(tree.iter(f"{SVG}use"))) == 2 * 5


def test_branches_stand_in_rows_of_words_and_columns_of_branches() -> None:
    heat = HeatMap(np.eye(4), (320, 240))
    boxes = [(10.0, 20.0, 60.0, 220.0), (60.0, 20.0, 110.0, 220.0)]
    merged = Grounding("man", (10, 20, 110, 220), 0.5, 1, 2, tuple(boxes))
    said = GroundedCaption(("a", "man"), (merged,))
    looks = [
        Grounding("man", boxes[0], 0.25, heat=heat),
        Grounding("man", boxes[1], 0.5),
        Grounding("man", (0, 0, 9, 9), 0.125),
    ]
    drawing = draw_branches(photo(), said, [looks], [[True, True, False]], width=160)
    pictures = [item for item in drawing.items if isinstance(item, Photo)]
    assert len(pictures) == 4
    assert len({item.box[1] for item in pictures}) == 1
    assert pictures[0].image.size == (320, 240)
    assert np.asarray(pictures[0].image.convert("RGB")).tolist() != np.asarray(photo()).tolist()  # its heat
    assert pictures[1].image is pictures[3].image
    texts = [item.text for item in drawing.items if isinstance(item, Words)]
    for text in ("branch 1", "branch 3", "merged", "0.25", "0.50", "0.12, another word"):
        assert text in texts
    outlines = [
        item.box for item in drawing.items if isinstance(item, Rect) and item.stroke == colour(0) and not item.dashed
    ]
    lefts = [box[0] - picture.box[0] for box, picture in zip(outlines, pictures, strict=True)]
    assert lefts == [5, 30, 0, 5]  # at half the photograph's size


def test_every_word_needs_a_look_of_every_branch() -> None:
    with pytest.raises(ValueError, match="every branch"):
        draw_branches(photo(), MAN, [[Grounding("man", (0, 0, 9, 9), 0.1)]], [[True]])
    with pytest.raises(DeixisError, match="no grounded word"):
        draw_branches(photo(), caption("nothing here"), [], [])


def test_models_are_compared_in_panels_with_one_colour_for_one_word() -> None:
    drawing = draw_comparison(photo(), [MAN, DOG])
    left, right = (item.box for item in drawing.items if isinstance(item, Photo))
    assert left[2] < right[0]
    assert left[1] == right[1]
    chips = [item for item in drawing.items if isinstance(item, Rect) and item.fill]
    words = {}
    for chip in chips:
        text = next(
            i.text
            for i in drawing.items
            if isinstance(i, Words) and chip.box[0] <= i.at[0] < chip.box[2] and chip.box[1] < i.at[1] <= chip.box[3]
        )
        words.setdefault(text, set()).add(chip.fill)
    assert words == {"man": {colour(0)}, "dog": {colour(1)}, "bench": {colour(2)}}
    assert {"first", "second"} <= {item.text for item in drawing.items if isinstance(item, Words)}


def test_the_name_of_the_file_decides(tmp_path: Path) -> None:
    drawing = draw_boxes(photo(), [Mark((10, 10, 100, 100), "dog")])
    for name in ("a.png", "a.jpg", "a.SVG"):
        save_drawing(drawing, tmp_path / name)
    assert Image.open(tmp_path / "a.png").size == (drawing.width, drawing.height)
    assert Image.open(tmp_path / "a.jpg").format == "JPEG"
    assert ElementTree.parse(tmp_path / "a.SVG").getroot().tag == f"{SVG}svg"


@pytest.mark.parametrize("name", ["a.what", "nowhere/a.png", "nowhere/a.svg", "name"])
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DeixisError, match=f"{name} cannot be written .*(Choose a .png|Create the folder)"):
        save_drawing(draw_boxes(photo(), []), tmp_path / name)


def test_drawings_are_put_together_without_overlap() -> None:
    one, two = draw_marks(photo(60, 30), [], 60), draw_marks(photo(20, 40), [], 20)
    below, right = stack([one, two], 5), beside([one, two], 5)
    assert (below.width, below.height) == (60, 75)
    assert (right.width, right.height) == (85, 40)
    assert [item.box for item in below.items] == [(0, 0, 60, 30), (0, 35, 20, 75)]
    assert [item.box for item in right.items] == [(0, 0, 60, 30), (65, 0, 85, 40)]
