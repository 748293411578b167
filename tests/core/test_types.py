"""The types: what they refuse, and JSON that comes back the same."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis import DeixisError, GroundedCaption, Grounding, HeatMap, Labels, Phrase, Regions

finite = st.floats(allow_nan=False, allow_infinity=False)
box = st.tuples(finite, finite, finite, finite)
heat = st.builds(
    HeatMap,
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=4).map(np.array),
    st.tuples(st.integers(1, 999), st.integers(1, 999)),
)


@st.composite
def captions(draw: st.DrawFn) -> GroundedCaption:
    words = draw(st.lists(st.text(min_size=1), min_size=1, max_size=8))
    groundings = []
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(words) - 1))
        groundings.append(
            Grounding(
                text=draw(st.text()),
                box=draw(box),
                score=draw(finite),
                start=start,
                end=draw(st.integers(start + 1, len(words))),
                parts=tuple(draw(st.lists(box, max_size=3))),
                point=draw(st.none() | st.tuples(finite, finite)),
                heat=draw(st.none() | heat),
            )
        )
    return GroundedCaption(
        tuple(words),
        tuple(groundings),
        draw(st.none() | finite),
        draw(st.text()),
        draw(st.integers(0, 9999)),
        draw(st.integers(0, 9999)),
        draw(st.text()),
        draw(st.text()),
    )


@given(captions())
def test_a_grounded_caption_survives_json(caption: GroundedCaption) -> None:
    assert GroundedCaption.from_json(json.loads(json.dumps(caption.to_json(), allow_nan=False))) == caption


@given(st.text(), box, finite, st.none() | st.tuples(finite, finite), st.none() | heat)
def test_a_phrase_grounding_survives_json(text, where, score, point, heat_map) -> None:
    grounding = Grounding(text, where, score, point=point, heat=heat_map)
    back = Grounding.from_phrase_json(json.loads(json.dumps(grounding.to_phrase_json("m"))))
    assert (back.text, back.box, back.score, back.heat) == (text, where, score, heat_map)
    assert back.pointing() == grounding.pointing()


def test_the_shared_json_shapes() -> None:
    caption = GroundedCaption(
        ("a", "dog"), (Grounding("dog", (1, 2, 3, 4), 0.5, 1, 2, ((1, 2, 2, 4),)),), -1.5, "x.jpg", 10, 20, "m"
    )
    assert caption.to_json() == {
        "image": "x.jpg",
        "width": 10,
        "height": 20,
        "caption": "a dog",
        "words": ["a", "dog"],
        "groundings": [
            {"word": "dog", "start": 1, "end": 2, "box": [1, 2, 3, 4], "score": 0.5, "parts": [[1, 2, 2, 4]]}
        ],
        "logprob": -1.5,
        "model": "m",
    }
    assert Grounding("a dog", (1, 2, 3, 4), 0.5).to_phrase_json("m") == {
        "phrase": "a dog",
        "box": [1, 2, 3, 4],
        "point": [2.0, 3.0],
        "score": 0.5,
        "model": "m",
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"words": "a dog"}, '"words"'),
        ({"words": None}, '"words"'),
        ({"width": 1.5}, '"width"'),
        ({"groundings": [{"word": "dog"}]}, '"start" is missing'),
        ({"logprob": float("nan")}, '"logprob"'),
        ({"groundings": [{"word": "dog", "start": 1, "end": 2, "box": [1, 2, 3], "score": 1}]}, "four numbers"),
        (
            {"groundings": [{"word": "dog", "start": 1, "end": 2, "box": [1, 2, 3, float("nan")], "score": 1}]},
            "finite",
        ),
        ({"groundings": [{"word": "dog", "start": 1, "end": 9, "box": [1, 2, 3, 4], "score": 1}]}, "spans words"),
    ],
)
def test_wrong_json_is_named(change: dict, said: str) -> None:
    good = GroundedCaption(("a", "dog"), image="x.jpg").to_json()
    with pytest.raises(DeixisError, match=said):
        GroundedCaption.from_json({**good, **change})


def test_regions_refuse_parts_that_do_not_fit() -> None:
    boxes, features = np.zeros((2, 4)), np.zeros((2, 3))
    Regions(boxes, features, (4, 4))
    for wrong in (
        {"boxes": np.zeros((2, 5))},
        {"features": np.zeros((3, 3))},
        {"scores": np.zeros(1)},
        {"frames": np.zeros(3, dtype=int)},
        {"size": (0, 4)},
        {"grid": np.zeros((2, 2))},
    ):
        with pytest.raises(ValueError):
            Regions(**{"boxes": boxes, "features": features, "size": (4, 4), **wrong})


def test_selecting_regions_keeps_the_parts_together() -> None:
    labels = Labels(np.array([[0, 1], [1, 0], [2, 0]]), np.full((3, 2), 0.5), ("cat", "dog", "cup"))
    regions = Regions(
        np.arange(12.0).reshape(3, 4),
        np.arange(3.0)[:, None],
        (9, 9),
        scores=np.array([0.1, 0.2, 0.3]),
        labels=labels,
        frames=np.array([0, 0, 1]),
        extractor="x",
    )
    some = regions.select([2, 0])
    assert some.features[:, 0].tolist() == [2, 0]
    assert some.scores is not None
    assert some.scores.tolist() == [0.3, 0.1]
    assert some.labels is not None
    assert some.labels.best(0) == ("cup", 0.5)
    assert some.frames is not None
    assert some.frames.tolist() == [1, 0]
    assert some.extractor == "x"


def test_labels_refuse_an_id_without_a_name() -> None:
    with pytest.raises(ValueError, match="outside"):
        Labels(np.array([[2]]), np.array([[1.0]]), ("cat", "dog"))


def test_a_phrase_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="span"):
        Phrase("a dog", 3, 2)


def test_heat_map_points_at_the_middle_of_its_hottest_cell() -> None:
    grid = np.zeros((2, 4))
    grid[1, 2] = 1
    assert HeatMap(grid, (80, 20)).argmax() == (50.0, 15.0)


def test_heat_map_at_image_size_by_hand() -> None:
    # two cells over four pixels: centres at .5 and 2.5 of the pixel index axis
    wide = HeatMap(np.array([[0.0, 1.0]]), (4, 1)).at_image_size()
    np.testing.assert_allclose(wide, [[0, 0.25, 0.75, 1]])


@given(heat)
def test_enlarging_a_heat_map_stays_within_its_values(heat_map: HeatMap) -> None:
    large = heat_map.at_image_size()
    assert large.shape == heat_map.size[::-1]
    assert large.min() >= heat_map.grid.min() - 1e-6
    assert large.max() <= heat_map.grid.max() + 1e-6


def test_importing_the_package_stays_light() -> None:
    import subprocess
    import sys

    heavy = "torch", "spacy", "cv2", "matplotlib", "tyro"
    code = f"import sys, deixis, deixis.cli, deixis.data; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
