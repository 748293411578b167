"""Visual Genome in its official layout, small, good and bad, and the triplets that AMC makes of it."""

import json
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.data import Entity, Sample, recognise
from deixis.data import visual_genome as vg
from deixis.data.reading import BadFile
from deixis.errors import DeixisError
from deixis.language.names import with_article

IMAGES = [
    {"image_id": 1, "url": "https://host/people/VG_100K_2/1.jpg", "width": 800, "height": 600, "coco_id": None},
    {"image_id": 2, "url": "https://host/people/VG_100K/2.jpg", "width": 100, "height": 100, "coco_id": 7},
    {"image_id": 3, "url": "https://host/people/VG_100K/3.jpg", "width": 200, "height": 100},
]
REGIONS = [
    {
        "id": 1,  # as in version 1.2
        "regions": [
            {
                "region_id": 11,
                "image_id": 1,
                "phrase": "The clock is green. ",
                "x": 421,
                "y": 57,
                "width": 282,
                "height": 239,
            },
            {"region_id": 12, "image_id": 1, "phrase": "a dog's ear", "x": -5, "y": 500, "width": 50, "height": 200},
        ],
    },
    {"image_id": 2, "regions": []},
    {"image_id": 3, "regions": [{"id": 31, "phrase": "a road", "x": 0, "y": 0, "width": 200, "height": 100}]},
]
OBJECTS = [
    {
        "image_id": 1,
        "image_url": "https://host/people/VG_100K_2/1.jpg",
        "objects": [
            {
                "object_id": 101,
                "names": ["Clock", "watch"],
                "x": 421,
                "y": 91,
                "w": 79,
                "h": 339,
                "synsets": ["clock.n.01"],
            },
            {
                "object_id": 102,
                "name": "traffic  light",
                "x": 0,
                "y": 0,
                "w": 400,
                "h": 300,
                "merged_object_ids": [7, 8],
            },
        ],
    },
    {"image_id": 2, "objects": []},
    {"image_id": 3, "objects": [{"object_id": 301, "names": ["road"], "x": 0, "y": 0, "w": 300, "h": 300}]},
]
ATTRIBUTES = [
    {
        "image_id": 1,
        "attributes": [
            {
                "object_id": 101,
                "names": ["clock"],
                "attributes": ["green", "Tall ", "green"],
                "x": 421,
                "y": 91,
                "w": 79,
                "h": 339,
            },
            {"object_id": 8, "names": ["light"], "attributes": ["orange"], "x": 0, "y": 0, "w": 399, "h": 300},
            {"object_id": 9, "names": ["shade"], "x": 0, "y": 0, "w": 3, "h": 3},  # many have no attribute
        ],
    },
    {"image_id": 2, "attributes": []},
    {
        "image_id": 3,
        "attributes": [{"object_id": 301, "names": ["road"], "attributes": None, "x": 0, "y": 0, "w": 9, "h": 9}],
    },
]


def build(root: Path, images=IMAGES, regions=REGIONS, objects=OBJECTS, attributes=ATTRIBUTES) -> Path:
    files = {
        "image_data.json": images,
        "region_descriptions.json": regions,
        "objects.json": objects,
        "attributes.json": attributes,
    }
    for name, content in files.items():
        if content is not None:
            (root / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return root


def reasons(dataset) -> list[tuple[str, str]]:
    return [(Path(entry.file).name, entry.reason) for entry in dataset.skipped]


def test_regions_are_captions_and_objects_are_entities(tmp_path):
    root = build(tmp_path)
    assert vg.recognise(root)
    assert recognise(root).NAME == "visual_genome"
    assert vg.splits(root) == ("all",)
    dataset = vg.load(root, "all")
    assert not dataset.skipped
    assert [sample.image_id for sample in dataset] == ["1", "2", "3"]
    clock, nothing, road = dataset
    assert clock.path == root / "VG_100K_2" / "1.jpg"
    assert road.path == root / "VG_100K" / "3.jpg"
    assert clock.size == (800, 600)
    assert [caption.text for caption in clock.captions] == ["The clock is green.", "a dog's ear"]
    first, second = clock.captions
    assert first.tokens == ("the", "clock", "is", "green")
    assert second.tokens == ("a", "dog", "'s", "ear")
    for caption, entity in ((first, "region 11"), (second, "region 12")):
        [phrase] = caption.phrases
        assert (phrase.text, phrase.start, phrase.end) == (caption.text, 0, len(caption.tokens))
        assert phrase.entity == entity
    assert {entity.id: (entity.label, entity.types, entity.boxes.tolist()) for entity in clock.entities} == {
        "region 11": ("", (), [[421, 57, 703, 296]]),
        "region 12": ("", (), [[0, 500, 45, 600]]),  # cut to the image
        "object 101": ("clock", ("green", "tall"), [[421, 91, 500, 430]]),
        "object 102": ("traffic light", ("orange",), [[0, 0, 400, 300]]),  # of one of the objects merged in it
    }
    assert nothing.captions == nothing.entities == ()
    assert [entity.id for entity in road.entities] == ["region 31", "object 301"]


def test_attributes_alone_name_and_place_objects(tmp_path):
    dataset = vg.load(build(tmp_path, objects=None, regions=None))
    assert not dataset.skipped
    assert [(e.id, e.label, e.types) for e in dataset[0].entities] == [
        ("object 101", "clock", ("green", "tall")),
        ("object 8", "light", ("orange",)),
        ("object 9", "shade", ()),
    ]


def test_splits_by_the_lists_of_bottom_up_attention(tmp_path):
    root = build(tmp_path)
    (root / "train.txt").write_text("VG_100K/3.jpg xml/3.xml\nVG_100K_2/1.jpg xml/1.xml\n")
    (root / "val.txt").write_text("2\n\nVG_100K/99.jpg xml/99.xml\nnonsense\n")
    assert vg.splits(root) == ("train", "val")
    assert [sample.image_id for sample in vg.load(root, "train")] == ["1", "3"]
    assert len(vg.load(root, "all")) == 3
    dataset = vg.load(root, "val")
    assert [sample.image_id for sample in dataset] == ["2"]
    assert [(entry.line, entry.reason) for entry in dataset.skipped] == [
        (3, "'99' is not an image in image_data.json"),
        (4, "'nonsense' is not an image in image_data.json"),
    ]
    with pytest.raises(DeixisError, match=r"no split 'test'\. Available: all, train, val"):
        vg.load(root, "test")


def test_files_in_another_order_give_the_same_samples(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    straight = vg.load(build(tmp_path / "a"))
    mixed = vg.load(build(tmp_path / "b", regions=REGIONS[::-1], objects=[*OBJECTS[1:], OBJECTS[0]]))
    assert not mixed.skipped
    for one, other in zip(straight, mixed, strict=True):
        assert one.captions == other.captions
        assert [entity.id for entity in one.entities] == [entity.id for entity in other.entities]


def test_one_bad_record_does_not_hide_the_others(tmp_path):
    def region(number, **changes):
        return {"region_id": number, "phrase": "a thing", "x": 1, "y": 1, "width": 9, "height": 9, **changes}

    def thing(number, **changes):
        return {"object_id": number, "names": ["thing"], "x": 1, "y": 1, "w": 9, "h": 9, **changes}

    images = [*IMAGES, {"image_id": 4, "width": 0, "height": 5}, {"width": 5, "height": 5}, IMAGES[0]]
    regions = [
        {
            "image_id": 1,
            "regions": [
                region(1),
                region(2, phrase=""),
                region(3, phrase="?"),
                region(4, x="1"),
                region(5, width=0),
                region(6, x=900),
                region(7, height=None),
                region(1),
                "region",
                region(9),
            ],
        },
        {"image_id": 77, "regions": []},
        {"image_id": 2},
        {"image_id": 3, "regions": [region(30)]},
        {"image_id": 3, "regions": [region(31)]},
        {"regions": []},
        [],
    ]
    objects = [
        {
            "image_id": 1,
            "objects": [
                thing(1),
                thing(2, names=[]),
                thing(3, names="thing"),
                thing(4, names=[5]),
                thing(5, h=-1),
                thing(6),
            ],
        }
    ]
    attributes = [
        {
            "image_id": 1,
            "attributes": [
                thing(1, attributes="red"),
                thing(6, attributes=["old", 3]),
                thing(6, attributes=["new"]),
                5,
            ],
        }
    ]
    dataset = vg.load(build(tmp_path, images, regions, objects, attributes))
    assert [sample.image_id for sample in dataset] == ["1", "2", "3"]
    assert [entity.id for entity in dataset[0].entities] == ["region 1", "region 9", "object 1", "object 6"]
    assert [caption.phrases[0].entity for caption in dataset[0].captions] == ["region 1", "region 9"]
    assert dataset[0].entities[3].types == ("new",)
    assert dataset[2].entities[0].id == "region 30"
    found = reasons(dataset)
    assert [reason for name, reason in found if name == "image_data.json"] == [
        "image 3: invalid image size 0 x 5",
        'image 4: the field "image_id" is missing',
        "image 5: duplicate image 1",
    ]
    assert sorted(reason for name, reason in found if name == "region_descriptions.json") == sorted(
        [
            "invalid record: expected a JSON object, got []",
            "invalid record: duplicate image 3",
            "invalid record: image 77 is not in image_data.json",
            'invalid record: the field "image_id" is missing',
            'image 1, region 1: "phrase" is empty',
            "image 1, region 2: the phrase has no words",
            "image 1, region 3: \"box\" is ['1', 1, 9, 9]. Expected 4 numbers",
            "image 1, region 4: the box from (1, 1) to (1, 10) is empty or outside the image",
            "image 1, region 5: the box from (900, 1) to (909, 10) is empty or outside the image",
            'image 1, region 6: the field "height" is missing',
            "image 1, region 7: duplicate region 1",
            "image 1, region 8: expected a JSON object, got 'region'",
            'image 2: the field "regions" is missing',
        ]
    )
    assert [reason for name, reason in found if name == "objects.json"] == [
        "image 1, object 1: the object has no name",
        "image 1, object 2: the object has no name",
        "image 1, object 3: the object has no name",
        "image 1, object 4: the box from (1, 1) to (10, 0) is empty or outside the image",
    ]
    assert [reason for name, reason in found if name == "attributes.json"] == [
        "image 1, attribute 0: \"attributes\" is 'red'. Expected a list",
        "image 1, attribute 1: an attribute must be a string",
        "image 1, attribute 3: expected a JSON object, got 5",
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", r"line 1: expected a list of images"),
        ('\n{"image_id": 1}', r"line 2: expected a list of images"),
        (
            '[{"image_id": 1,\n"regions": []},\n{"image_id": 2 "regions": []}]',
            r"line 3: not valid JSON \(expecting ',' delimiter",
        ),
        ('[{"image_id": 1,\n"regions": [', r"line 2: not valid JSON"),
        ('[{"image_id": 1, "regions": []}\n{"image_id": 2}]', r"line 2: not valid JSON \(',' or '\]' expected"),
        ('[{"image_id": 1, "regions": []},\n]', r"line 2: not valid JSON"),
        ('[{"image_id": 1, "regions": []}\n', r"line 2: not valid JSON"),
        ('[{"image_id": 1, "regions": []}]\n\n[]', r"line 3: unexpected text after the list"),
        ("[" * 100_000, r"line 1: not usable JSON"),
    ],
)
def test_malformed_json_is_named_with_its_line(tmp_path, content, says):
    with pytest.raises(BadFile, match=rf"region_descriptions\.json, {says}"):
        vg.load(build(tmp_path, regions=content))


def test_text_that_is_not_utf8_is_named(tmp_path):
    root = build(tmp_path)
    (root / "objects.json").write_bytes(b'[{"image_id": 1, "objects": []},\n {"image_id": 2, "note": "\xff"}]')
    with pytest.raises(BadFile, match=r"objects\.json, line 1: not UTF-8 text"):
        vg.load(root)


def test_a_file_that_cannot_be_opened_is_named(tmp_path, monkeypatch):
    root = build(tmp_path)
    usual = vg.open_text

    def refuse(path, *args, **kwargs):
        if path.name == "objects.json":
            raise PermissionError(13, "Permission denied")
        return usual(path, *args, **kwargs)

    monkeypatch.setattr(vg, "open_text", refuse)
    with pytest.raises(BadFile, match=r"objects\.json: cannot be read \(Permission denied\)"):
        vg.load(root)


def test_records_longer_than_what_is_read_at_once(tmp_path, monkeypatch):
    whole = vg.load(build(tmp_path))
    monkeypatch.setattr(vg, "_CHUNK", 7)
    build(tmp_path, regions=json.dumps(REGIONS, indent=3))
    pieces = vg.load(tmp_path)
    assert not pieces.skipped
    for one, other in zip(whole, pieces, strict=True):
        assert one.captions == other.captions
        assert [entity.id for entity in one.entities] == [entity.id for entity in other.entities]


def test_a_record_that_goes_on_too_long_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(vg, "_CHUNK", 100)
    build(tmp_path, regions=json.dumps([{"image_id": 1, "note": "long " * 1000, "regions": []}]))
    assert not vg.load(tmp_path).skipped
    monkeypatch.setattr(vg, "_MAX_RECORD", 1000)
    with pytest.raises(BadFile, match=r"region_descriptions\.json, line 1: not valid JSON"):
        vg.load(tmp_path)


def test_the_stream_reads_as_it_goes_and_holds_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(vg, "_CHUNK", 100)
    root = build(tmp_path)
    alive = [weakref.ref(sample) for sample in vg.stream(root)]
    assert [ref() for ref in alive[:-1]] == [None, None]
    build(root, regions=json.dumps(REGIONS)[:-1] + ", {broken")
    stream = vg.stream(root)
    assert next(stream).image_id == "1"
    with pytest.raises(BadFile, match=r"region_descriptions\.json, line 1: not valid JSON"):
        list(stream)


def test_absent_files_are_named(tmp_path):
    with pytest.raises(DeixisError, match="has no annotations"):
        vg.load(build(tmp_path, regions=None, objects=None, attributes=None))
    (tmp_path / "image_data.json").unlink()
    assert not vg.recognise(tmp_path)
    build(tmp_path, images=None)
    assert vg.recognise(tmp_path)
    with pytest.raises(DeixisError, match=r"image_data\.json does not exist"):
        vg.load(tmp_path)
    assert {e.path for e in vg.expected(tmp_path) if e.required} == {"image_data.json", "VG_100K", "VG_100K_2"}
    nothing = {e.path for e in vg.expected(tmp_path / "nowhere") if e.required}
    assert nothing >= {"image_data.json", "region_descriptions.json", "objects.json"}


# Triplets -----------------------------------------------------------------------------------------------------------


def picture(*objects: tuple[str, tuple[str, ...], list[float]], size=(100, 100)) -> Sample:
    entities = tuple(
        Entity(f"object {n}", np.array([box], dtype=float), types, label)
        for n, (label, types, box) in enumerate(objects)
    )
    return Sample("7", (), size=size, entities=entities)


def texts(sample: Sample, source: str, **options) -> dict[str, list[float]]:
    return {t.text: list(t.box) for t in vg.triplets(sample, **options) if t.source == source}


def test_triplets_of_regions_objects_and_attributes(tmp_path):
    clock, _, road = vg.load(build(tmp_path))
    found = [(t.source, t.text, t.box) for t in vg.triplets(clock)]
    assert found == [
        ("region", "The clock is green.", (421, 57, 703, 296)),
        # the clock (5.6 % of the image) and the ear (0.9 %) are too small
        ("object", "a traffic light", (0, 0, 400, 300)),
        ("attribute", "an orange traffic light", (0, 0, 400, 300)),
    ]
    assert all(t.image_id == "1" for t in vg.triplets(clock))
    everything = [t.text for t in vg.triplets(clock, min_area=0)]
    assert {"a dog's ear", "a clock", "a green clock", "a tall clock"} <= set(everything)
    assert [t.text for t in vg.triplets(road)] == ["a road", "a road"]  # the region's and the object's


def test_an_attribute_is_not_said_twice():
    sample = picture(("red wine", ("red", "expensive"), [0, 0, 90, 90]), ("redwood", ("red",), [0, 0, 90, 90]))
    assert list(texts(sample, "attribute")) == ["an expensive red wine", "a red redwood"]


def test_boxes_of_eight_percent_stay():
    sample = picture(("dog", (), [0, 0, 80, 10]), ("cat", (), [0, 0, 79.9, 10]))
    assert texts(sample, "object") == {"a dog": [0, 0, 80, 10]}


def test_spatial_prompts_for_several_boxes_of_one_name():
    left, right, middle = [0, 35, 30, 65], [70, 30, 100, 60], [35, 40, 65, 70]
    sample = picture(
        ("car", ("snow-covered", "old"), left),
        ("car", (), right),
        ("car", ("red",), middle),
        ("dog", (), [0, 0, 50, 50]),
    )
    assert texts(sample, "spatial") == {
        "a snow-covered car on the left": left,
        "a car on the right": right,
        "top car": right,
        "bottom red car": middle,
    }


def test_corners_are_told_as_well():
    sample = picture(("donut", (), [0, 0, 40, 40]), ("donut", ("white",), [60, 60, 100, 100]))
    assert texts(sample, "spatial") == {
        "a donut on the left": [0, 0, 40, 40],
        "a white donut on the right": [60, 60, 100, 100],
        "top donut": [0, 0, 40, 40],
        "bottom white donut": [60, 60, 100, 100],
        "a donut to the top left": [0, 0, 40, 40],
        "a white donut to the bottom right": [60, 60, 100, 100],
    }
    two = picture(("tree", (), [0, 0, 30, 40]), ("tree", (), [0, 5, 35, 40]), ("tree", (), [60, 0, 100, 40]))
    assert "a tree to the top left" not in texts(two, "spatial")  # it would mean either
    assert texts(two, "spatial")["a tree to the top right"] == [60, 0, 100, 40]


def test_positions_are_those_among_all_boxes_of_a_name():
    """With a small man farthest left, "a man on the left" is nobody who is large enough."""
    small, second, third = [0, 0, 5, 5], [20, 20, 60, 60], [60, 50, 100, 95]
    sample = picture(("man", (), small), ("man", (), second), ("man", (), third))
    assert texts(sample, "spatial") == {
        "a man on the right": third,
        "bottom man": third,
        "a man to the bottom right": third,
    }
    assert texts(sample, "spatial", min_area=0)["a man on the left"] == small
    assert texts(sample, "object") == {"a man": third}


boxes = st.tuples(*[st.integers(0, 60)] * 2, *[st.integers(20, 40)] * 2).map(
    lambda b: [b[0], b[1], b[0] + b[2], b[1] + b[3]]
)


@given(st.lists(st.tuples(st.sampled_from(["dog", "cat"]), boxes), min_size=1, max_size=8), st.floats(0, 0.3))
def test_the_farthest_boxes_are_the_farthest(objects, min_area):
    sample = picture(*((label, (), box) for label, box in objects))
    everything, spatial = texts(sample, "spatial", min_area=0), texts(sample, "spatial", min_area=min_area)
    large = {t: b for t, b in everything.items() if (b[2] - b[0]) * (b[3] - b[1]) >= min_area * 100 * 100}
    assert spatial == large
    spatial = everything
    for label in ("dog", "cat"):
        alike = [box for name, box in objects if name == label]
        sides = {
            f"a {label} on the left": lambda box: box[0] + box[2],
            f"a {label} on the right": lambda box: -box[0] - box[2],
            f"top {label}": lambda box: box[1] + box[3],
            f"bottom {label}": lambda box: -box[1] - box[3],
        }
        for text, place in sides.items():
            places = sorted(map(place, alike))
            if text in spatial:
                assert place(spatial[text]) == places[0] < places[1]
            else:
                assert len(places) < 2 or places[0] == places[1]
        for down in ("top", "bottom"):
            for across in ("left", "right"):
                box = spatial.get(f"a {label} to the {down} {across}")
                if box is not None:
                    x, y = box[0] + box[2], box[1] + box[3]
                    assert x < 200 / 3 if across == "left" else x > 400 / 3
                    assert y < 200 / 3 if down == "top" else y > 400 / 3
                    assert box in [spatial[text] for text in sides if text in spatial]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("brown dog", "a brown dog"),
        ("orange cat", "an orange cat"),
        ("umbrella", "an umbrella"),
        ("unlit lamp", "an unlit lamp"),
        ("uniform", "a uniform"),
        ("used car", "a used car"),
        ("urn", "an urn"),
        ("hour hand", "an hour hand"),
        ("horse", "a horse"),
        ("one way sign", "a one way sign"),
        ("one-way street", "a one-way street"),
        ("one dog", "one dog"),
        ("herb", "a herb"),
        ("european plug", "a european plug"),
        ("elephant", "an elephant"),
        ("ewe", "a ewe"),
        ("suv", "an suv"),
        ("8 ball", "an 8 ball"),
        ("s curve", "an s curve"),
        ("distant trees", "distant trees"),
        ("people", "people"),
        ("policemen", "policemen"),
        ("child", "a child"),
        ("green grass", "green grass"),
        ("grass hut", "a grass hut"),
        ("glass", "a glass"),
        ("bus", "a bus"),
        ("lens", "a lens"),
        ("skis", "skis"),
        ("the sky", "the sky"),
        ("two dogs", "two dogs"),
    ],
)
def test_the_article(name, text):
    assert with_article(name) == text
