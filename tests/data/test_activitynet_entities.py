"""ActivityNet-Entities in its official layout, small, good and bad."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.data import activitynet_entities as anet
from deixis.data import recognise
from deixis.data.reading import BadFile
from deixis.data.report import inspect
from deixis.data.sample import Segment
from deixis.errors import DeixisError
from deixis.vision.segments import place_in_video
from small_clips import grey, write_clip

TRAINVAL = "anet_entities_cleaned_class_thresh50_trainval.json"
SKELETON = "anet_entities_cleaned_class_thresh50_test_skeleton.json"
HIDDEN = "anet_entities_cleaned_class_thresh50_hidden_test_skeleton.json"

GIRLS = {
    "tokens": ["Two", "girls", "wash", "a", "car", ",", "", "then", "they", "leave"],
    "process_idx": [[1, 8], [1, 8], [4]],
    "process_clss": [["girl", "they"], ["girl", "they"], ["car"]],
    "process_bnd_box": [[10, 20, 109, 219], [300, 20.5, 399, 219], [500, 100, 719, 300]],
    "frame_ind": [3, 3, 9],
    "crowds": [0, 0, 0],
    "timestamps": [0.0, 28.22],
}
BARE = {"tokens": ["It", "ends"], "process_idx": [], "process_clss": [], "process_bnd_box": [], "frame_ind": []}
HE = {
    "tokens": ["The", "man", "'s", "hat", "and", "he"],
    "process_idx": [[3], [1, 5], [1]],
    "process_clss": [["hat"], ["man", "he"], ["man"]],
    "process_bnd_box": [[1, 2, 30, 40], [5, 6, 70, 80], [7, 8, 90, 100]],
    "frame_ind": [0, 1, 2],
}
HIDDEN_BOXES = {**GIRLS, "process_bnd_box": [], "frame_ind": [], "crowds": []}


def build(root: Path, videos=None, lists=None, file=TRAINVAL) -> Path:
    root.mkdir(exist_ok=True)
    if videos is None:
        videos = {"v_wash": {"segments": {"10": HE, "1": BARE, "0": GIRLS}}, "v_other": {"segments": {"0": BARE}}}
    content = videos if isinstance(videos, str) else json.dumps({"vocab": ["girl", "car"], "annotations": videos})
    (root / file).write_text(content)
    lists = {"training": ["v_other"], "validation": ["v_wash"], "testing": ["v_test"]} if lists is None else lists
    (root / "split_ids_anet_entities.json").write_text(lists if isinstance(lists, str) else json.dumps(lists))
    return root


def reasons(dataset) -> list[str]:
    assert all(Path(entry.file).name == TRAINVAL for entry in dataset.skipped)
    return [entry.reason for entry in dataset.skipped]


def test_segments_with_frames_phrases_and_boxes(tmp_path):
    root = build(tmp_path)
    assert anet.recognise(root)
    assert recognise(root).NAME == "activitynet_entities"
    assert anet.splits(root) == ("train", "val")
    assert [sample.image_id for sample in anet.load(root, "train")] == ["v_other_segment_0"]
    dataset = anet.load(root, "val")
    assert not dataset.skipped
    assert [sample.image_id for sample in dataset] == ["v_wash_segment_0", "v_wash_segment_1", "v_wash_segment_10"]

    girls, bare, he = dataset
    [caption] = girls.captions
    assert caption.text == "Two girls wash a car , then they leave"
    assert caption.tokens == ("two", "girls", "wash", "a", "car", "then", "they", "leave")
    assert [(p.text, p.start, p.end, p.head, p.entity, p.types) for p in caption.phrases] == [
        ("girls", 1, 2, "girls", "1", ("girl",)),
        ("car", 4, 5, "car", "4", ("car",)),
        ("they", 6, 7, "they", "1", ("they",)),  # the same boxes: the same entity
    ]
    people, car = girls.entities
    assert (people.label, car.label) == ("girl", "car")
    # One pixel more on the far sides; the frame is 720 wide.
    assert people.boxes.tolist() == [[10, 20, 110, 220], [300, 20.5, 400, 220]]
    assert people.frames.tolist() == [3, 3]
    assert car.boxes.tolist() == [[500, 100, 720, 301]]
    assert car.frames.tolist() == [9]

    assert bare.captions[0].phrases == bare.entities == ()
    assert [(p.text, p.start, p.entity) for p in he.captions[0].phrases] == [
        ("man", 1, "1"),
        ("hat", 3, "3"),
        ("he", 5, "5"),
    ]
    # "man" has two boxes and "he" one of them: not the same, so two entities.
    assert {entity.id: entity.frames.tolist() for entity in he.entities} == {"1": [1, 2], "3": [0], "5": [1]}


def test_frames_are_where_grounded_video_description_has_them(tmp_path):
    root = build(tmp_path)
    sample = anet.load(root, "val")[2]
    assert len(sample.frames) == 10
    assert sample.frames[0] == root / "frames_10frm" / "v_wash_segment_10" / "01.jpg"
    (root / "frames").mkdir()
    sample = anet.load(root, "val")[0]
    assert sample.frames[9] == root / "frames" / "v_wash_segment_00" / "10.jpg"
    sample.frames[9].parent.mkdir()
    Image.new("RGB", (720, 405), (9, 9, 9)).save(sample.frames[9])
    assert sample.open(9).size == (720, 405)


def test_absent_frames_are_told_of_together(tmp_path):
    report = inspect(build(tmp_path))
    assert report.splits["val"].images == 3
    [frames] = [lack for lack in report.missing if lack.file.startswith("frames")]
    assert (frames.file, frames.count) == ("frames_10frm", 40)


def test_the_files_may_be_in_the_data_folder(tmp_path):
    build(tmp_path / "data")
    assert anet.recognise(tmp_path)
    assert len(anet.load(tmp_path, "val")) == 3
    assert [entry.path for entry in anet.expected(tmp_path)][:2] == [
        "data/split_ids_anet_entities.json",
        f"data/{TRAINVAL}",
    ]


def test_skeletons_have_words_and_no_boxes(tmp_path):
    root = build(tmp_path, {"v_test": {"duration": 9.5, "segments": {"0": HIDDEN_BOXES}}}, file=SKELETON)
    empty = {**HIDDEN_BOXES, "tokens": [], "process_idx": [], "process_clss": []}
    build(root, {"v_secret": {"segments": {"0": empty}}}, file=HIDDEN)
    assert anet.splits(root) == ("test", "hidden_test")
    [sample] = anet.load(root, "test")
    assert [(p.text, p.entity) for p in sample.captions[0].phrases] == [("girls", "1"), ("car", "4"), ("they", "1")]
    assert [(entity.boxes.shape, entity.frames.shape) for entity in sample.entities] == [((0, 4), (0,)), ((0, 4), (0,))]
    [secret] = anet.load(root, "hidden_test")
    assert (secret.image_id, secret.captions, len(secret.frames)) == ("v_secret_segment_0", (), 10)


def test_one_bad_record_does_not_hide_the_others(tmp_path):
    def girls(**changes):
        return {**GIRLS, **changes}

    segments = {
        "0": GIRLS,
        "1": {key: value for key, value in GIRLS.items() if key != "tokens"},
        "2": girls(frame_ind=[3, 3]),
        "3": girls(process_clss=[["girl"]]),
        "4": girls(tokens=["Two", 2]),
        "5": [],
        "6": girls(frame_ind=[3, 10, "9"]),
        "7": girls(process_bnd_box=[[10, 20, 10, 50], [1, 2, 3], [730, 1, 740, 5]]),
        "8": girls(process_idx=[[1, 80], [1], [5]]),
        "9": girls(process_clss=[["girl", None], ["girl", "they"], "car"]),
    }
    videos = {"v_a": {"segments": segments}, "v_b": {}, "v_c": {"segments": {"first": GIRLS}}, "v_d": 3}
    lists = {"validation": ["v_a", "v_b", "v_gone", "v_c", "v_d", "v_a"]}
    dataset = anet.load(build(tmp_path, videos, lists), "val")
    assert [sample.image_id[-1] for sample in dataset] == ["0", "6", "7", "8", "9"]
    assert reasons(dataset) == [
        'v_a, segment 1: the field "tokens" is missing',
        "v_a, segment 2: the lists of objects differ in length: "
        "3 process_idx, 3 process_clss, 3 process_bnd_box, 2 frame_ind",
        "v_a, segment 3: the lists of objects differ in length: "
        "3 process_idx, 1 process_clss, 3 process_bnd_box, 3 frame_ind",
        'v_a, segment 4: "tokens" must be a list of strings',
        "v_a, segment 5: expected a JSON object, got []",
        "v_a, segment 6, object 1: frame 10 is not in the range 0 to 9",
        "v_a, segment 6, object 2: \"frame_ind\" is '9'. Expected an integer",
        "v_a, segment 7, object 0: the box from (10, 20) to (10, 50) is empty",
        'v_a, segment 7, object 1: "process_bnd_box" is [1, 2, 3]. Expected 4 numbers',
        "v_a, segment 7, object 2: the box from (730, 1) to (741, 6) is empty or outside the image",
        "v_a, segment 8, object 0: word 80 is not in the sentence of 10 tokens",
        'v_a, segment 8, object 1: "process_idx" is [1]. Expected 2 numbers',
        "v_a, segment 8: the object word 5 (',') has no token",
        "v_a, segment 9, object 0: a class must be a nonempty string",
        "v_a, segment 9, object 2: \"process_clss\" is 'car'. Expected a list",
        'v_b: the field "segments" is missing',
        "v_gone: the video is in the list of videos, but has no annotation",
        'v_c: "segments" must be an object with numbers as keys',
        "v_d: expected a JSON object, got 3",
    ]
    # A bad box costs the box, not the word.
    boxless = dataset[2]
    assert [phrase.text for phrase in boxless.captions[0].phrases] == ["girls", "car", "they"]
    assert not any(len(entity.boxes) for entity in boxless.entities)
    assert dataset[1].entities[0].frames.tolist() == [3]


def test_a_video_name_leads_nowhere_else(tmp_path):
    dataset = anet.load(build(tmp_path, {"../v": {"segments": {"0": BARE}}}, {"validation": ["../v"]}), "val")
    assert len(dataset) == 0
    assert reasons(dataset) == ["../v, segment 0: '../v' is not a file name without a folder"]


@pytest.mark.parametrize(
    ("videos", "lists", "says"),
    [
        ("", None, rf"{TRAINVAL}, line 1: not valid JSON"),
        ('{"annotations":\n {"v_a": }}', None, rf"{TRAINVAL}, line 2: not valid JSON"),
        ("[1]", None, rf'{TRAINVAL}: the object "annotations" is missing'),
        (None, "{", r"split_ids_anet_entities\.json, line 1: not valid JSON"),
        (None, {"training": []}, r'split_ids_anet_entities\.json: the list of videos "validation" is missing'),
        (None, {"validation": [1]}, r'split_ids_anet_entities\.json: the list of videos "validation" is missing'),
    ],
)
def test_unusable_files_are_named(tmp_path, videos, lists, says):
    with pytest.raises(BadFile, match=says):
        anet.load(build(tmp_path, videos, lists), "val")


def test_a_split_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DeixisError, match=r"no split 'test'\. Available: train, val"):
        anet.load(build(tmp_path), "test")
    (tmp_path / "split_ids_anet_entities.json").unlink()
    assert anet.recognise(tmp_path)
    assert anet.splits(tmp_path) == ()
    assert not anet.recognise(tmp_path / "nowhere")


def test_boxes_overlap_as_the_official_evaluator_counts_them(tmp_path):
    from deixis import boxes

    dataset = anet.load(build(tmp_path), "val")
    people = dataset[0].entities[0].boxes
    # 100 x 200 pixels with both corners counted, against its left half.
    half = boxes.from_zero_based_inclusive([[10, 20, 59, 219]])
    assert boxes.area(people[:1]).tolist() == [100 * 200]
    assert np.allclose(boxes.iou(people[:1], half), 0.5)


def test_place_in_the_video_and_box_scale(tmp_path):
    """Times, number and count of segments, duration; frames of another width are resized to that of the boxes."""
    segments = {
        "0": GIRLS,
        "3": {**BARE, "timestamps": [40.0, 28.5]},  # the wrong way round, as a few official ones
        "4": {**BARE, "timestamps": [7.0, 7.0]},
        "5": {**BARE, "timestamps": [1.0]},
    }
    videos = {"v_wash": {"duration": 41.5, "segments": segments}, "v_none": {"segments": {"0": GIRLS}}}
    root = build(tmp_path, videos, {"validation": ["v_wash", "v_none"]})
    first, second, third = dataset = anet.load(root, "val")
    assert first.segment == Segment(0.0, 28.22, 41.5, number=0, count=6, width=720)
    assert second.segment == Segment(28.5, 40.0, 41.5, number=3, count=6, width=720)
    assert third.segment is None  # the file has no duration
    assert reasons(dataset) == [
        "v_wash, segment 4: the segment from 7 to 7 s of 41.5 s is empty",
        'v_wash, segment 5: "timestamps" is [1.0]. Expected 2 numbers',
    ]
    assert place_in_video(first) == pytest.approx((0, 6, 0, 28.22 / 41.5))
    for number in range(1, 11):
        path = first.frames[number - 1]
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (360, 400), (9, 9, 9)).save(path)  # half as wide as the frames of the boxes
    assert first.image_size() == (720, 800)  # the height may be more than 720
    assert first.open(3).size == (720, 800)
    clip = first.clip()
    assert {image.size for image in clip.images} == {(720, 800)}
    assert clip.times == pytest.approx([28.22 * (k + 0.5) / 10 for k in range(10)])


def test_a_video_file_is_used_where_a_segment_has_no_frames(tmp_path):
    pytest.importorskip("av")
    videos = {"v_wash": {"duration": 4.0, "segments": {"0": {**GIRLS, "timestamps": [1.0, 3.0]}}}}
    root = build(tmp_path, videos, {"validation": ["v_wash"]})
    (root / "videos").mkdir()
    write_clip(root / "videos" / "v_wash.mp4", (grey(60 * k, (64, 48)) for k in range(4)), rate=1)
    (sample,) = anet.load(root, "val")
    assert sample.frames == ()
    assert sample.segment.path == root / "videos" / "v_wash.mp4"
    clip = sample.clip()
    assert {image.size for image in clip.images} == {(720, 540)}
    levels = [round(float(np.asarray(image).mean()) / 60) for image in clip.images]
    assert levels == [1] * 5 + [2] * 5  # 1.1 to 1.9 s, 2.1 to 2.9 s
    assert not [lack for lack in inspect(root).missing if lack.file.startswith("frames")]
