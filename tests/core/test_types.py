"""The value types: what they refuse, and JSON that is read back as it was written."""

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
def groundings(draw: st.DrawFn, words: int) -> Grounding:
    start = draw(st.integers(0, words - 1))
    return Grounding(
        text=draw(st.text()),
        box=draw(box),
        score=draw(finite),
        start=start,
        end=draw(st.integers(start + 1, words)),
        parts=tuple(draw(st.lists(box, max_size=3))),
        point=draw(st.none() | st.tuples(finite, finite)),
        heat=draw(st.none() | heat),
        heat_point=draw(st.none() | st.tuples(finite, finite)),
        head=draw(st.none() | st.integers(0, words - 1)),
        pos=draw(st.sampled_from(["", "NOUN", "VERB"])),
    )


@st.composite
def captions(draw: st.DrawFn) -> GroundedCaption:
    words = draw(st.lists(st.text(min_size=1), min_size=1, max_size=8))
    phrases, nouns = (draw(st.lists(groundings(len(words)), max_size=3)) for _ in range(2))
    return GroundedCaption(
        words=tuple(words),
        groundings=tuple(phrases),
        logprob=draw(st.none() | finite),
        image=draw(st.text()),
        width=draw(st.integers(0, 9999)),
        height=draw(st.integers(0, 9999)),
        model=draw(st.text()),
        caption=draw(st.text()),
        word_groundings=tuple(nouns),
        model_hash=draw(st.text()),
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
        "word_groundings": [],
        "model_hash": "",
        "schema": 3,
    }
    assert Grounding("a dog", (1, 2, 3, 4), 0.5).to_phrase_json("m") == {
        "phrase": "a dog",
        "box": [1, 2, 3, 4],
        "point": [2.0, 3.0],
        "score": 0.5,
        "model": "m",
    }


def test_optional_fields_of_a_grounding_are_written_where_they_are_set() -> None:
    heat_map = HeatMap(np.array([[0.5, 1.0]]), (10, 20))
    full = Grounding("dog", (1, 2, 3, 4), 0.5, 1, 2, (), (2, 3), heat_map, (7.5, 10.0), 1, "NOUN")
    plain = Grounding("dog", (1, 2, 3, 4), 0.5, 1, 2)
    added = {name: value for name, value in full.to_json().items() if name not in plain.to_json()}
    assert added == {
        "point": [2, 3],
        "heat": {"width": 10, "height": 20, "grid": [[0.5, 1.0]]},
        "heat_point": [7.5, 10.0],
        "head": 1,
        "pos": "NOUN",
    }
    assert Grounding.from_json(json.loads(json.dumps(full.to_json()))) == full
    phrase = full.to_phrase_json("m")
    assert {"phrase", "box", "point", "score", "model", "heat", "heat_point"} == set(phrase)
    assert Grounding.from_phrase_json(phrase).heat_point == (7.5, 10.0)
    first_word = Grounding("dog", (1, 2, 3, 4), 0.5, 0, 1, head=0)
    assert first_word.to_json()["head"] == 0


def test_word_groundings_are_written_with_their_part_of_speech() -> None:
    dog = Grounding("brown dog", (1, 2, 3, 4), 0.5, 1, 3, head=2)
    noun = Grounding("dog", (1, 2, 3, 4), 0.5, 2, 3, pos="NOUN")
    verb = Grounding("runs", (1, 2, 3, 4), 0.5, 3, 4, pos="VERB")
    words = ("a", "brown", "dog", "runs")
    caption = GroundedCaption(words, (dog,), word_groundings=(noun, verb), model_hash="0123abcd")
    value = json.loads(json.dumps(caption.to_json()))
    assert [(one["word"], one["start"], one["pos"]) for one in value["word_groundings"]] == [
        ("dog", 2, "NOUN"),
        ("runs", 3, "VERB"),
    ]
    assert (value["model_hash"], value["schema"]) == ("0123abcd", 3)
    assert GroundedCaption.from_json(value) == caption
    assert caption.nouns() == (noun,)
    assert caption.all_words() == (noun, verb)
    without = GroundedCaption(words, (dog,))
    assert without.nouns() == without.all_words() == (dog,)
    with pytest.raises(ValueError, match=r"spans words 3\.\.4"):
        GroundedCaption(words[:3], (dog,), word_groundings=(verb,))


def test_json_of_version_0_1_is_read() -> None:
    """As `deixis caption --json` of version 0.1 wrote it: groundings of single words, and no schema."""
    value = {
        "image": "x.jpg",
        "width": 10,
        "height": 20,
        "caption": "A dog.",
        "words": ["a", "dog"],
        "groundings": [
            {
                "word": "dog",
                "start": 1,
                "end": 2,
                "box": [1, 2, 3, 4],
                "score": 0.5,
                "parts": [[1, 2, 2, 4]],
                "point": [2.0, 3.0],
            }
        ],
        "logprob": -1.5,
        "model": "m",
        "sure": True,
        "plain": False,
    }
    dog = Grounding("dog", (1, 2, 3, 4), 0.5, 1, 2, ((1, 2, 2, 4),), (2, 3))
    caption = GroundedCaption.from_json(value)
    assert caption == GroundedCaption(("a", "dog"), (dog,), -1.5, "x.jpg", 10, 20, "m", "A dog.")
    assert (caption.word_groundings, caption.model_hash) == ((), "")
    assert caption.nouns() == (dog,)


# Wrong JSON -----------------------------------------------------------------------------------------------------------

GOOD = {"word": "dog", "start": 1, "end": 2, "box": [1, 2, 3, 4], "score": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"words": "a dog"}, '"words"'),
        ({"words": None}, '"words"'),
        ({"words": ["a", 5]}, '"words"'),
        ({"width": 1.5}, '"width"'),
        ({"height": True}, '"height"'),
        ({"image": None}, '"image"'),
        ({"logprob": float("nan")}, '"logprob"'),
        ({"logprob": 10**400}, '"logprob"'),
        ({"groundings": 5}, '"groundings" must be a list'),
        ({"groundings": {"0": GOOD}}, '"groundings" must be a list'),
        ({"groundings": None}, '"groundings" must be a list'),
        ({"groundings": [5]}, '"word" is missing'),
        ({"groundings": [[]]}, '"word" is missing'),
        ({"groundings": [{"word": "dog"}]}, '"start" is missing'),
        ({"word_groundings": 5}, '"word_groundings" must be a list'),
        ({"word_groundings": [{**GOOD, "score": None}]}, '"score"'),
        ({"word_groundings": [{**GOOD, "end": 9}]}, "spans words"),
    ],
)
def test_wrong_json_of_a_caption_is_named(change: dict, said: str) -> None:
    good = GroundedCaption(("a", "dog"), image="x.jpg").to_json()
    with pytest.raises(DeixisError, match=said):
        GroundedCaption.from_json({**good, **change})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"box": [1, 2, 3]}, "four numbers"),
        ({"box": 5}, "four numbers"),
        ({"box": [1, 2, 3, float("nan")]}, "finite"),
        ({"box": [1, 2, 3, "4"]}, "finite"),
        ({"box": [1, 2, 3, 10**400]}, "finite"),
        ({"end": 9}, "spans words"),
        ({"start": -1}, "spans words"),
        ({"word": 5}, '"word"'),
        ({"score": 10**400}, '"score" must be a finite number'),
        ({"score": float("inf")}, '"score" must be a finite number'),
        ({"score": True}, '"score" must be a finite number'),
        ({"parts": 5}, '"parts" must be a list'),
        ({"parts": None}, '"parts" must be a list'),
        ({"parts": [5]}, "four numbers"),
        ({"point": 5}, "two numbers"),
        ({"point": [1, 10**400]}, '"point"'),
        ({"heat_point": [1]}, "two numbers"),
        ({"head": "dog"}, '"head"'),
        ({"heat": 5}, '"width" is missing'),
        ({"heat": []}, '"width" is missing'),
        ({"pos": 5}, '"pos"'),
        ({"heat": {"width": 3, "height": 3}}, '"grid"'),
        ({"heat": {"width": 3, "height": 3, "grid": 5}}, '"grid"'),
        ({"heat": {"width": 3, "height": 3, "grid": []}}, '"grid"'),
        ({"heat": {"width": 3, "height": 3, "grid": [[1], [1, 2]]}}, '"grid"'),
        ({"heat": {"width": 3, "height": 3, "grid": [["hot"]]}}, '"grid"'),
        ({"heat": {"width": 3, "height": 3, "grid": [[10**400]]}}, '"grid"'),
        ({"heat": {"width": 3, "height": 3, "grid": [[float("nan")]]}}, '"grid"'),
        ({"heat": {"width": "3", "height": 3, "grid": [[1]]}}, '"width"'),
        ({"heat": {"width": 3, "height": 0, "grid": [[1]]}}, "size"),
    ],
)
def test_wrong_json_of_a_grounding_is_named(change: dict, said: str) -> None:
    """In a caption; and, where the field is in it, as the answer to a phrase."""
    good = GroundedCaption(("a", "dog"), image="x.jpg").to_json()
    with pytest.raises(DeixisError, match=said):
        GroundedCaption.from_json({**good, "groundings": [{**GOOD, **change}]})
    phrase = {**Grounding("dog", (1, 2, 3, 4), 1.0).to_phrase_json(), **change}
    if not {"parts", "head", "pos", "start", "end", "word"} & set(change):
        with pytest.raises(DeixisError, match=said):
            Grounding.from_phrase_json(phrase)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FULL = GroundedCaption(
    ("a", "dog"),
    (Grounding("dog", (1, 2, 3, 4), 0.5, 1, 2, ((1, 2, 2, 4),), (2, 3), HeatMap(np.ones((2, 2)), (9, 9)), (1, 1), 1),),
    word_groundings=(Grounding("dog", (1, 2, 3, 4), 0.5, 1, 2, pos="NOUN"),),
).to_json()


@given(st.data())
def test_any_value_in_any_field_is_read_or_refused_with_a_sentence(data: st.DataObject) -> None:
    value = json.loads(json.dumps(FULL))
    part = data.draw(st.sampled_from([value, value["groundings"][0], value["groundings"][0]["heat"]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(json_values)
    try:
        caption = GroundedCaption.from_json(value)
    except DeixisError:
        return
    json.dumps(caption.to_json(), allow_nan=False)


@given(json_values)
def test_any_json_is_read_or_refused_with_a_sentence(value: object) -> None:
    for read in (GroundedCaption.from_json, Grounding.from_json, Grounding.from_phrase_json):
        with pytest.raises(DeixisError):
            read(value)  # type: ignore[arg-type]


# Regions, phrases, heat maps ------------------------------------------------------------------------------------------


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
        {"class_probs": np.zeros((2, 3)), "class_names": ("cat", "dog")},
        {"class_probs": np.zeros((3, 1)), "class_names": ("cat",)},
        {"class_names": ("cat",)},
        {"image_vector": np.zeros((1, 3))},
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
        class_probs=np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]),
        class_names=("cat", "dog"),
        image_vector=np.array([7.0, 8.0]),
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
    assert some.class_probs is not None
    assert some.class_probs.tolist() == [[0.2, 0.8], [0.9, 0.1]]
    assert some.class_names == ("cat", "dog")
    assert some.image_vector is not None
    assert some.image_vector.tolist() == [7, 8]


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
