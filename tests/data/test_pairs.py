"""A user's own folder: three kinds of captions file, splits, and rows that cannot be used."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis import cli
from deixis.data import pairs
from deixis.data.reading import BadFile
from deixis.data.sample import Segment
from deixis.errors import DeixisError
from small_clips import write_clip

ROWS = [("a.jpg", "A dog runs.", "train"), ("b.jpg", "Two cats, asleep", "val"), ("a.jpg", "The dog", "train")]


def write(root: Path, kind: str, rows=ROWS, split=True) -> Path:
    names = ("image", "caption", "split") if split else ("image", "caption")
    if kind == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=False))) for row in rows]
    else:
        comma = "," if kind == "csv" else "\t"
        lines = [comma.join(f'"{cell}"' for cell in row[: len(names)]) for row in [names, *rows]]
    (root / f"captions.{kind}").write_text("\n".join(lines) + "\n")
    return root


def reasons(dataset) -> list[tuple[int | None, str]]:
    return [(entry.line, entry.reason) for entry in dataset.skipped]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv"])
def test_each_kind_of_file_gives_the_same_samples(tmp_path, kind):
    root = write(tmp_path, kind)
    assert pairs.recognise(root)
    assert pairs.splits(root) == ("train", "val")
    (train,), (val,) = pairs.load(root, "train"), pairs.load(root, "val")
    assert (train.image_id, train.path) == ("a.jpg", root / "a.jpg")
    assert [caption.text for caption in train.captions] == ["A dog runs.", "The dog"]
    assert train.captions[0].tokens == ("a", "dog", "runs")
    assert val.captions[0].text == "Two cats, asleep"
    assert train.entities == ()


def test_byte_order_mark_windows_line_ends_and_quoted_newlines(tmp_path):
    text = 'Caption,Image\r\n"one\r\ntwo, ""three""",a.jpg\r\n\r\nfour,b.jpg\r\n'
    (tmp_path / "captions.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    found = {s.image_id: s.captions[0] for split in pairs.splits(tmp_path) for s in pairs.load(tmp_path, split)}
    assert found["a.jpg"].text == 'one\ntwo, "three"'
    assert found["a.jpg"].tokens == ("one", "two", "three")
    assert found["b.jpg"].text == "four"


def test_bad_rows_are_named_and_the_others_stay(tmp_path):
    (tmp_path / "secret.jpg").touch()
    root = tmp_path / "root"
    root.mkdir()
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    rows = [
        {"image": "a.jpg", "caption": "fine"},
        {"image": "a.jpg", "caption": "  "},
        {"image": "", "caption": "x"},
        {"caption": "x"},
        {"image": "a.jpg", "caption": 3},
        {"image": "../secret.jpg", "caption": "x"},
        {"image": "/etc/passwd", "caption": "x"},
        {"image": "link.jpg", "caption": "x"},
        {"image": "n" * 300, "caption": "x"},
    ]
    lines = [json.dumps(row) for row in rows]
    lines.insert(1, '{"image": "a.jpg", "caption"')
    (root / "captions.jsonl").write_text("\n".join(lines))
    split = pairs.assign("a.jpg")
    dataset = pairs.load(root, split)
    assert [caption.text for caption in dataset[0].captions] == ["fine"]
    assert reasons(dataset) == [
        (2, "not valid JSON (expecting ':' delimiter at column 29)"),
        (3, '"caption" is empty'),
        (4, '"image" is empty'),
        (5, 'the field "image" is missing'),
        (6, '"caption" is 3. Expected a string'),
        (7, "the path '../secret.jpg' contains '..' or a null character"),
        (8, "the path '/etc/passwd' is outside the folder"),
        (9, "the path 'link.jpg' is outside the folder"),
        (10, f"'{'n' * 40}' is not a valid path (File name too long)"),
    ]


def test_a_missing_column_is_named(tmp_path):
    (tmp_path / "captions.csv").write_text("file,caption\na.jpg,x\n")
    with pytest.raises(BadFile, match=r"captions\.csv, line 1: missing column: image \(its columns: file, caption\)"):
        pairs.load(tmp_path, "train")
    (tmp_path / "captions.csv").write_text("image;caption\na.jpg;x\n")
    with pytest.raises(BadFile, match="missing column: image, caption"):
        pairs.splits(tmp_path)


def test_the_same_image_and_the_same_caption_are_merged(tmp_path):
    rows = [("a.jpg", "x", "train"), ("./a.jpg", "x", "train"), (str(tmp_path / "a.jpg"), "y", "train")]
    (sample,) = pairs.load(write(tmp_path, "csv", rows), "train")
    assert sample.image_id == "a.jpg"
    assert [caption.text for caption in sample.captions] == ["x", "y"]


def test_pictures_may_lie_in_an_images_folder(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").touch()
    dataset = pairs.load(write(tmp_path, "csv"), "train")
    assert dataset[0].path == tmp_path / "images" / "a.jpg"


def test_an_image_is_never_in_two_splits(tmp_path):
    rows = [*ROWS, ("a.jpg", "late", "val"), ("c.jpg", "nowhere", ""), ("b.jpg", "inherits", "")]
    root = write(tmp_path, "tsv", rows)
    train, val = pairs.load(root, "train"), pairs.load(root, "val")
    assert [sample.image_id for sample in train] == ["a.jpg"]
    assert [caption.text for caption in val[0].captions] == ["Two cats, asleep", "inherits"]
    assert reasons(train) == [
        (5, "a.jpg is in two splits: train (line 2) and val"),
        (6, "c.jpg has no split"),
    ]
    assert train.skipped == val.skipped
    with pytest.raises(DeixisError, match=r"no split 'test'\. Available: train, val"):
        pairs.load(root, "test")


def test_own_names_of_splits(tmp_path):
    rows = [("a.jpg", "x", "winter"), ("b.jpg", "x", "test"), ("c.jpg", "x", "autumn")]
    assert pairs.splits(write(tmp_path, "csv", rows)) == ("test", "autumn", "winter")


def test_splits_by_seed_are_stable_when_rows_are_added(tmp_path):
    rows = [(f"{n}.jpg", f"caption {n}") for n in range(300)]
    few = write(tmp_path, "csv", rows[:150], split=False)
    before = {s.image_id: split for split in pairs.splits(few) for s in pairs.load(few, split)}
    write(tmp_path, "csv", list(reversed(rows)), split=False)
    after = {s.image_id: split for split in pairs.splits(few) for s in pairs.load(few, split)}
    assert len(before) == 150
    assert len(after) == 300
    assert before.items() <= after.items()
    counts = {split: list(after.values()).count(split) for split in pairs.FRACTIONS}
    assert 210 <= counts["train"] <= 265
    assert min(counts.values()) >= 12
    other = {s.image_id: split for split in pairs.splits(few) for s in pairs.load(few, split, seed=1)}
    assert other != after


@given(st.text(min_size=1), st.integers())
def test_shares_of_nothing_are_never_drawn(name, seed):
    assert pairs.assign(name, seed, {"train": 1.0, "val": 0.0}) == "train"
    assert pairs.assign(name, seed, {"train": 0.0, "val": 2.0}) == "val"


def test_shares_must_make_sense():
    for shares in ({}, {"train": 0.0}, {"train": 1.0, "val": -0.5}):
        with pytest.raises(DeixisError, match="Invalid fractions of the splits"):
            pairs.assign("a.jpg", 0, shares)


def test_one_captions_file_is_meant(tmp_path):
    assert not pairs.recognise(tmp_path)
    with pytest.raises(DeixisError, match=r"Add one with the columns image \(or clip\) and caption"):
        pairs.splits(tmp_path)
    write(tmp_path, "csv")
    write(tmp_path, "jsonl")
    with pytest.raises(DeixisError, match=r"both captions\.jsonl and captions\.csv"):
        pairs.load(tmp_path, "train")


CLIPS = """clip,start,end,caption,split
kitchen.mp4,0,12.5,a man washes a pan,train
kitchen.mp4,12.5,30,he dries it with a towel,train
kitchen.mp4,0,12.5,someone cleans a pan,train
party.mp4,,,children dance,val
walk,3,,a dog walks,val
"""


def test_clips_with_segments(tmp_path):
    (tmp_path / "captions.csv").write_text(CLIPS)
    (tmp_path / "walk").mkdir()
    for number in range(1, 11):
        (tmp_path / "walk" / f"{number:02d}.jpg").touch()
    first, second = pairs.load(tmp_path, "train")
    assert (first.image_id, second.image_id) == ("kitchen.mp4#0-12.5", "kitchen.mp4#12.5-30")
    assert [caption.text for caption in first.captions] == ["a man washes a pan", "someone cleans a pan"]
    assert first.segment == Segment(0.0, 12.5, math.inf, tmp_path / "kitchen.mp4")
    assert (first.path, first.frames, first.is_video) == (None, (), True)
    whole, walk = pairs.load(tmp_path, "val")
    assert (whole.image_id, whole.segment.start, whole.segment.end) == ("party.mp4", 0.0, math.inf)
    assert walk.image_id == "walk#3-end"
    assert [path.name for path in walk.frames] == [f"{number:02d}.jpg" for number in range(1, 11)]


def test_segments_of_a_clip_are_in_one_split(tmp_path):
    rows = [f"{clip}.mp4,{start},{start + 1},words {start}" for clip in "abcdefghij" for start in range(5)]
    (tmp_path / "captions.csv").write_text("\n".join(["clip,start,end,caption", *rows]) + "\n")
    places = {}
    for split in pairs.splits(tmp_path):
        for sample in pairs.load(tmp_path, split):
            places.setdefault(sample.image_id.split("#")[0], set()).add(split)
    assert len(places) == 10
    assert all(len(found) == 1 for found in places.values())


def test_wrong_segments_are_named(tmp_path):
    rows = ["a.mp4,5,3,x", "a.mp4,nan,3,x", "a.mp4,-1,3,x", "a.mp4,0,inf,x", "a.mp4,soon,,x", "a.mp4,0,3,fine"]
    (tmp_path / "captions.csv").write_text("\n".join(["clip,start,end,caption", *rows]) + "\n")
    (split,) = {s for s in pairs.splits(tmp_path) if len(pairs.load(tmp_path, s))}
    assert reasons(pairs.load(tmp_path, split)) == [
        (2, "the segment from 5 to 3 s is empty. Expected start < end"),
        (3, "\"start\" is 'nan'. Expected seconds"),
        (4, "the segment from -1 to 3 s is empty. Expected start < end"),
        (5, "\"end\" is 'inf'. Expected seconds"),
        (6, "\"start\" is 'soon'. Expected seconds"),
    ]


def run(*args):
    assert cli.run([str(arg) for arg in args]) == 0, args


@pytest.mark.slow
def test_a_captioner_is_trained_on_own_clips(tmp_path, capsys):
    """Clips and a CSV of segments: features, training, and a sentence for another clip."""
    pytest.importorskip("av")
    folder = tmp_path / "clips"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        frames = [random.integers(0, 255, (40, 60, 3), dtype=np.uint8) for _ in range(8)]
        write_clip(folder / f"{name}.mp4", frames, rate=2)
    rows = ["a.mp4,0,2,a dog runs,train", "a.mp4,2,4,the dog sleeps,train", "b.mp4,,,a cat,val", "c.mp4,0,3,it,test"]
    (folder / "captions.csv").write_text("\n".join(["clip,start,end,caption,split", *rows]) + "\n")
    store, model = tmp_path / "store", tmp_path / "model"
    tiny = ["--backbone", "tiny", "--proposals", "grid", "--boxes", "5", "--processes", "1"]
    run("features", folder, "-o", store, *tiny, "--quiet")
    sizes = {"model.words": 8, "model.hidden": 12, "model.attention": 6, "model.location": 4, "model.fc7": 6}
    sizes |= {"min-count": 1, "batch-images": 2, "phases.0.epochs": 1, "max-words": 6}
    options = [part for name, value in sizes.items() for part in (f"--{name}", value)]
    run("train", "gvd-video-small", "--data", folder, "--features", store, "--out", model, *options, "--quiet")
    capsys.readouterr()
    run("caption", folder / "c.mp4", "--model", model, "--quiet", "--json")
    record = json.loads(capsys.readouterr().out)
    assert len(record["times"]) == 10
    assert set(record["words"]) <= {"a", "dog", "runs", "the", "sleeps"}
