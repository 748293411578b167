"""Every prediction format on the shapes that its makers write, and every fault by name."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.metrics.formats import (
    FLORENCE,
    Images,
    Mention,
    read_lemmas,
    read_predictions,
    read_proposals,
)
from deixis.metrics.references import read_reference
from deixis.types import GroundedCaption, Grounding, HeatMap

IMAGES = Images(
    frozenset({"17", "18"}), {"17.jpg": "17"}, size=lambda image: (100, 80), in_other_split=lambda image: image == "99"
)


def read(tmp_path, document, name="predictions.json", images=IMAGES, **options):
    path = tmp_path / name
    lines = isinstance(document, list) and name.endswith("jsonl")
    path.write_text("\n".join(map(json.dumps, document)) if lines else json.dumps(document))
    return read_predictions(path, images, **options)


def caption(image="17", box=(10.0, 10.0, 50.0, 60.0), **more):
    groundings = (Grounding("dog", box, 0.9, 1, 2, parts=((10.0, 10.0, 20.0, 20.0),)),)
    value = GroundedCaption(("a", "dog", "runs"), groundings, -2.5, image, 100, 80, "model").to_json()
    return {**value, **more}


def phrase(image="17", words="the dog", box=(10, 10, 50, 60), **more):
    return {"image": image, "phrase": words, "box": list(box), **more}


# What is read -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lines.jsonl", "list.json"])
def test_own_captions(tmp_path, name):
    found = read(tmp_path, [caption("17"), caption("18")], name)
    assert found.format == "deixis"
    assert list(found.captions) == ["17", "18"]
    assert found.captions["17"] == GroundedCaption.from_json(caption("17"))


def test_a_single_record_is_a_file_too(tmp_path):
    assert list(read(tmp_path, caption("17")).captions) == ["17"]


@pytest.mark.parametrize("name", ["17", "17.jpg", "photos/17.jpg", 17])
def test_images_by_any_of_their_names(tmp_path, name):
    assert list(read(tmp_path, [phrase(name)]).phrases) == [Mention("17", "the dog")]


def test_own_phrases(tmp_path):
    heat = HeatMap(np.array([[0.0, 1.0], [0.5, 0.25]]), (100, 80))
    answer = Grounding("The  Dog", (10.0, 10.0, 50.0, 60.0), 0.5, heat=heat)
    record = {"image": "17", **answer.to_phrase_json("model"), "caption": 2, "start": 4}
    found = read(tmp_path, [record])
    [(mention, [first])] = found.phrases.items()
    assert mention == Mention("17", "the dog", 2, 4)
    assert first.heat == heat
    assert first.point == heat.argmax()


def test_candidates_stay_behind_the_answer(tmp_path):
    others = [{"box": [0, 0, 5, 5], "score": 0.2}, {"box": [0, 0, 9, 9], "score": 0.8}, {"box": [10, 10, 50, 60]}]
    [found] = read(tmp_path, [phrase(score=0.5, candidates=others)]).phrases.values()
    assert [candidate.box[2] for candidate in found] == [50, 9, 5]


def test_coco_captions(tmp_path):
    found = read(tmp_path, [{"image_id": 17, "caption": "A dog, running."}, {"image_id": 18, "caption": "A cat."}])
    assert found.format == "coco"
    assert found.captions["17"].words == ("a", "dog", "running")
    assert found.captions["17"].caption == "A dog, running."


@pytest.mark.parametrize("field", ["phrase", "category", "label"])
def test_coco_boxes(tmp_path, field):
    boxes = [([0, 0, 10, 10], 0.1), ([20, 30, 40, 50], 0.9)]
    found = read(tmp_path, [{"image_id": 17, field: "a dog", "bbox": box, "score": score} for box, score in boxes])
    assert [candidate.box for candidate in found.phrases[Mention("17", "a dog")]] == [(20, 30, 60, 80), (0, 0, 10, 10)]


def test_proposals(tmp_path):
    path = tmp_path / "boxes.json"
    rows = [("17", [0, 0, 10, 10], 0.1), ("17", [20, 30, 40, 50], 0.9), ("99", [0, 0, 1, 1], 1)]
    path.write_text(json.dumps([{"image_id": i, "category": "x", "bbox": b, "score": s} for i, b, s in rows]))
    found = read_proposals(path, IMAGES)
    assert {image: boxes.tolist() for image, boxes in found.items()} == {"17": [[20, 30, 60, 80], [0, 0, 10, 10]]}


def test_gvd_flickr30k(tmp_path):
    entry = {"clss": ["dog", "man"], "idx_in_sent": [1, 4], "bbox": [[0, 0, 9, 9], [10, 10, 19, 29]]}
    found = read(tmp_path, {"results": {"17": [entry], "99": [entry]}})
    assert found.format == "gvd"
    [sentence] = found.sentences["17"]
    assert [(w.name, w.index, w.boxes) for w in sentence.objects] == [
        ("dog", 1, ((0, 0, 10, 10),)),
        ("man", 4, ((10, 10, 20, 30),)),
    ]
    assert found.notes == ("1 predictions for images of other splits were skipped",)


def test_gvd_activitynet(tmp_path):
    images = Images(frozenset({"v_1_segment_0"}))
    frames = [[frame, 0, 9 + frame, 9, 0.7] for frame in range(10)]
    entry = {"clss": ["dog"], "idx_in_sent": [1], "bbox_for_all_frames": [frames]}
    [sentence] = read(tmp_path, {"results": {"v_1": {"0": entry}}}, images=images).sentences["v_1_segment_0"]
    assert sentence.objects[0].frames == tuple(range(10))
    assert sentence.objects[0].boxes[3] == (3, 0, 13, 10)


# as post_process_generation of the published processor returns it, with the image's name beside it
FLORENCE_OUTPUT = {
    FLORENCE: {
        "bboxes": [[34.88, 10.64, 83.36, 74.64], [0.32, 4.08, 39.04, 75.04], [50.0, 4.0, 60.0, 20.0]],
        "labels": ["A green car", "two men", "two men"],
    }
}


def test_florence_answers_phrases(tmp_path):
    found = read(tmp_path, {"17": FLORENCE_OUTPUT})
    assert found.format == "florence-2"
    men = found.phrases[Mention("17", "two men")][0]
    assert men.box == (0.32, 4.0, 60.0, 75.04)
    assert len(men.parts) == 2
    by_number = read(tmp_path, [{"image": "17", "caption": n, **FLORENCE_OUTPUT} for n in (0, 1)])
    assert {mention.caption for mention in by_number.phrases} == {0, 1}


def test_florence_grounds_a_caption(tmp_path):
    text = "A green car, and two men."
    found = read(tmp_path, [{"image": "17", "caption": text, **FLORENCE_OUTPUT}])
    caption = found.captions["17"]
    assert caption.caption == text
    assert [(g.text, caption.words[g.start : g.end]) for g in caption.groundings] == [
        ("A green car", ("a", "green", "car")),
        ("two men", ("two", "men")),
    ]
    found = read(tmp_path, [{"image": "17", "caption": "A green car.", **FLORENCE_OUTPUT}])
    assert len(found.captions["17"].groundings) == 1
    assert "1 groundings whose words are not in their caption" in found.notes[0]


KOSMOS_OUTPUT = [
    "An image of a snowman warming himself by a fire.",
    [
        ["a snowman", [12, 21], [[0.390625, 0.046875, 0.984375, 0.828125]]],
        ["a fire", [41, 47], [[0.171875, 0.015625, 0.484375, 0.890625], [0.5, 0.5, 0.75, 1.0]]],
    ],
]


@pytest.mark.parametrize(
    "document",
    [
        {"17": KOSMOS_OUTPUT},
        [{"image": "17", "caption": KOSMOS_OUTPUT[0], "entities": KOSMOS_OUTPUT[1]}],
        [{"image_id": 17, "text": KOSMOS_OUTPUT[0], "entities": KOSMOS_OUTPUT[1]}],
    ],
)
def test_kosmos(tmp_path, document):
    found = read(tmp_path, document)
    assert found.format == "kosmos-2"
    caption = found.captions["17"]
    snowman, fire = caption.groundings
    assert caption.words[snowman.start : snowman.end] == ("a", "snowman")
    assert snowman.box == pytest.approx((39.0625, 3.75, 98.4375, 66.25))
    assert fire.box == pytest.approx((17.1875, 1.25, 75.0, 80.0))
    assert len(fire.parts) == 2


def test_kosmos_needs_a_size(tmp_path):
    unsized = Images(frozenset({"17"}))
    with pytest.raises(DeixisError, match=r'image 17.*image size is unknown\. Add "width" and "height"'):
        read(tmp_path, [{"image": "17", "caption": KOSMOS_OUTPUT[0], "entities": KOSMOS_OUTPUT[1]}], images=unsized)
    sized = {"image": "17", "width": 200, "height": 80, "caption": KOSMOS_OUTPUT[0], "entities": KOSMOS_OUTPUT[1]}
    assert read(tmp_path, [sized], images=unsized).captions["17"].groundings[0].box[0] == pytest.approx(78.125)


def test_format_can_be_named(tmp_path):
    with pytest.raises(DeixisError, match="unknown format"):
        read(tmp_path, [{"image": "17", "words": "?"}])
    with pytest.raises(DeixisError, match=r'line 1 .image 17.: .*"bboxes" and "labels" of equal length'):
        read(tmp_path, {"image": "17"}, format="florence-2")
    with pytest.raises(DeixisError, match="Unknown format 'yaml'"):
        read(tmp_path, [phrase()], format="yaml")


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([phrase(), phrase("x")], "line 2: image 'x' is not in the reference"),
        ([phrase(), phrase()], r"line 2 \(image 17\): duplicate: 'the dog' \(first at line 1\)"),
        ([phrase(words="The dog"), phrase(words="the  DOG")], "duplicate: 'the  DOG'"),
        (
            [phrase(box=(10, 10, math.nan, 60))],
            r"line 1 \(image 17\): the box of 'the dog' is .*Expected finite numbers",
        ),
        ([phrase(box=(10, 10, math.inf, 60))], "Expected finite numbers"),
        ([phrase(box=(10, 10, 50))], "Expected 4 numbers"),
        ([phrase(box=(50, 10, 10, 60))], "x2 < x1 or y2 < y1"),
        (
            [phrase(box=(10, 10, 102, 60))],
            r"the box \[10, 10, 102, 60\] of 'the dog' is outside the image of 100 x 80",
        ),
        ([phrase(box=(-3, 10, 50, 60))], "is outside the image"),
        ([phrase(score=math.nan)], "the score is .*Expected finite numbers"),
        ([phrase(point=[1])], "the point of 'the dog' is .*Expected 2 numbers"),
        ([phrase(caption=-1)], r'"caption" of a phrase is -1\. Expected an integer >= 0'),
        ([phrase(caption="A dog.")], '"caption" of a phrase is'),
        ([phrase(heat={"width": 100, "height": 80, "grid": [[math.nan]]})], "heat map of 'the dog': .*finite"),
        ([phrase(heat={"width": 100, "height": 80})], "heat map of 'the dog': .*grid"),
        ([phrase(heat={"width": 9, "height": 80, "grid": [[1]]})], "heat map of 'the dog' has size"),
        ([phrase(candidates=[{"score": 1}])], "a prediction for 'the dog' has no"),
        ([phrase(words="")], 'the field "phrase" is missing or empty'),
        ([{"phrase": "a dog", "box": [0, 0, 1, 1]}], 'the field "image"'),
        ([caption("17"), caption("17.jpg")], r"line 2 \(image 17\): duplicate: a caption of this image"),
        ([caption(box=(10.0, 10.0, math.nan, 60.0))], "line 1 .image 17.: .*finite number, not nan"),
        ([caption(box=(10.0, 10.0, 300.0, 60.0))], "of 'dog' is outside the image"),
        ([caption(words=["a"])], "spans words 1..2 of a caption of 1 words"),
        ([phrase(), 7], "line 2: expected a JSON object, got 7"),
    ],
)
def test_faults_in_our_own_files(tmp_path, records, message):
    with pytest.raises(DeixisError, match=message) as caught:
        read(tmp_path, records, "bad.jsonl")
    assert "bad.jsonl" in str(caught.value)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([{"image_id": 17, "caption": "a"}, {"image_id": 17, "caption": "b"}], "record 1 .image 17.: duplicate"),
        ([{"image_id": 17, "caption": 3}], 'the field "caption" is missing or empty'),
        ([{"image_id": 17, "category_id": 3, "bbox": [0, 0, 1, 1]}], "a box without a phrase"),
        ([{"image_id": 17, "phrase": "a", "bbox": [0, 0, 200, 1]}], "is outside the image"),
        (
            {"results": {"17": [{"clss": ["a"], "idx_in_sent": [], "bbox": []}]}},
            "expected lists clss, idx_in_sent, bbox of equal length",
        ),
        ({"results": {"17": []}}, "a list of captions"),
        (
            {"results": {"17": [{"clss": ["a"], "idx_in_sent": [0], "bbox": [[0, 0, math.nan, 9]]}]}},
            "17: .*Expected finite numbers",
        ),
        (
            {"results": {"17": [{"clss": ["a"], "idx_in_sent": ["0"], "bbox": [[0, 0, 9, 9]]}]}},
            "Expected a class name and an integer position",
        ),
        ({"results": {"x": [{"clss": [], "idx_in_sent": [], "bbox": []}]}}, "image 'x' is not in the reference"),
        ({"17": {FLORENCE: {"bboxes": [[0, 0, 9, 9]], "labels": []}}}, 'lists "bboxes" and "labels" of equal length'),
        (
            {"17": {FLORENCE: {"bboxes": [[0, 0, 9, 9]], "labels": [" "]}}},
            r"a label is ' '\. Expected a nonempty string",
        ),
        ({"17": ["a dog", [["a dog", [0, 5], []]]]}, "an entity is"),
        ({"17": ["a dog", [["a dog", [0, 5], [[0, 0, 1.5, 1]]]]]}, "is outside the image"),
        ([], "has no predictions"),
        ({}, "has no predictions"),
        ("text", "has no predictions"),
    ],
)
def test_faults_in_other_files(tmp_path, document, message):
    with pytest.raises(DeixisError, match=message):
        read(tmp_path, document)


def test_a_box_may_stick_out_by_a_pixel(tmp_path):
    [[answer]] = read(tmp_path, [phrase(box=(-0.6, 0, 100.9, 80.2))]).phrases.values()
    assert answer.box == (0, 0, 100, 80)


def test_broken_json_names_the_line(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps(phrase()) + "\n\n{broken\n")
    with pytest.raises(DeixisError, match=r"bad.jsonl, line 3: not valid JSON"):
        read_predictions(path, IMAGES)
    path.write_text('[{"image": "17",\n "phrase": }]')
    with pytest.raises(DeixisError, match=r"line 2: not valid JSON"):
        read_predictions(path, IMAGES)
    path.write_text("[" * 100_000)
    with pytest.raises(DeixisError, match=r"not (usable|valid) JSON"):
        read_predictions(path, IMAGES)
    with pytest.raises(DeixisError, match="does not exist"):
        read_predictions(Path(tmp_path / "absent.json"), IMAGES)


def test_lemmas(tmp_path):
    path = tmp_path / "lemmas.json"
    path.write_text('{"men": "man"}')
    assert read_lemmas(path) == {"men": "man"}
    path.write_text('["men"]')
    with pytest.raises(DeixisError, match="is not a lemma file"):
        read_lemmas(path)


# GVD's references ---------------------------------------------------------------------------------------------------

GVD_CAPTION = {
    "tokens": ["a", "dog", "runs"],
    "process_idx": [1],
    "process_clss": ["dog"],
    "process_bnd_box": [[0, 0, 9, 9]],
}


def write(path, value):
    path.write_text(json.dumps(value))
    return path


def gvd(tmp_path, annotations, splits=None):
    reference = write(tmp_path / "reference.json", {"annotations": annotations})
    return read_reference(reference, "test", None if splits is None else write(tmp_path / "split.json", splits))


def test_gvd_reference_and_its_splits(tmp_path):
    annotations = [{"image_id": i, "captions": [GVD_CAPTION]} for i in (1, 2, 3)]
    found = gvd(tmp_path, annotations, {"train": ["1"], "test": ["2"], "val": ["3"]})
    assert (found.name, found.split, set(found.sentences)) == ("gvd-flickr30k", "test", {"2"})
    assert found.frequency == {"dog": 1}
    assert found.captions["2"] == (("a", "dog", "runs"),)
    assert found.images.in_other_split("3")
    assert not found.images.in_other_split("4")
    assert set(gvd(tmp_path, annotations).sentences) == {"1", "2", "3"}


def test_gvd_video_reference(tmp_path):
    segment = {
        "tokens": ["a", "man", "and", "a", "dog"],
        "process_idx": [[1, 4], [4]],
        "process_clss": [["man", "dog"], ["dog"]],
        "process_bnd_box": [[0, 0, 9, 9], [5, 5, 9, 9]],
        "frame_ind": [2, 7],
    }
    found = gvd(tmp_path, {"v_1": {"segments": {"0": segment}}})
    assert found.video
    [sentence] = found.sentences["v_1_segment_0"]
    assert [(w.name, w.index, w.frames) for w in sentence.objects] == [("man", 1, (2,)), ("dog", 4, (2, 7))]
    assert sentence.objects[1].boxes[1] == (5, 5, 10, 10)


def test_gvd_reference_faults(tmp_path):
    good = [{"image_id": 1, "captions": [GVD_CAPTION]}]
    with pytest.raises(DeixisError, match=r"has no split 'test'. Available: val"):
        gvd(tmp_path, good, {"val": ["1"]})
    with pytest.raises(DeixisError, match="has no image of the split 'test'"):
        gvd(tmp_path, good, {"test": ["2"]})
    with pytest.raises(DeixisError, match="image 1 has two annotations"):
        gvd(tmp_path, good * 2)
    with pytest.raises(DeixisError, match=r"reference.json, 1: invalid GVD annotation .*'tokens' is missing"):
        gvd(tmp_path, [{"image_id": 1, "captions": [{k: v for k, v in GVD_CAPTION.items() if k != "tokens"}]}])
    with pytest.raises(DeixisError, match="invalid GVD annotation"):
        gvd(tmp_path, [{"image_id": 1, "captions": [{**GVD_CAPTION, "process_bnd_box": []}]}])
    with pytest.raises(DeixisError, match="is not a GVD reference file"):
        gvd(tmp_path, [])
    with pytest.raises(DeixisError, match="is not a split file"):
        gvd(tmp_path, good, ["1"])
    with pytest.raises(DeixisError, match="does not exist"):
        read_reference(tmp_path / "absent.json")
