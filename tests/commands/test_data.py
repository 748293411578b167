"""``deixis data check`` and ``deixis data show``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis import data
from deixis.cli import run

PACK = Path(
    os.environ.get("DEIXIS_FLICKR30K_ENTITIES")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "flickr30k-entities-8k"
)
needs_pack = pytest.mark.skipif(
    not PACK.is_dir(), reason="no Flickr30k Entities here; DEIXIS_FLICKR30K_ENTITIES names its folder"
)

CAPTION = "[/EN#1/people A man] walks [/EN#2/animals his dog] in [/EN#0/notvisual time] ."
XML = """<annotation>
<size><width>90</width><height>60</height></size>
<object><name>1</name><bndbox><xmin>11</xmin><ymin>6</ymin><xmax>40</xmax><ymax>55</ymax></bndbox></object>
<object><name>2</name><bndbox><xmin>51</xmin><ymin>31</ymin><xmax>80</xmax><ymax>55</ymax></bndbox></object>
</annotation>"""


SMALL = (
    "warning: val: 2 images are too few to choose a model by its validation scores. "
    "Use at least 20 validation images.\n"
)


@pytest.fixture
def flickr(tmp_path: Path) -> Path:
    """Three training images without boxes, two validation images with two boxes each, all with pictures."""
    root = tmp_path / "flickr"
    for folder in ("Sentences", "Annotations", "flickr30k-images"):
        (root / folder).mkdir(parents=True)
    for split, ids in {"train": "123", "val": "45", "test": ""}.items():
        (root / f"{split}.txt").write_text("\n".join(ids))
        for image_id in ids:
            (root / "Sentences" / f"{image_id}.txt").write_text(f"{CAPTION}\n" * 5)
            Image.new("RGB", (90, 60), "#808080").save(root / "flickr30k-images" / f"{image_id}.jpg")
            if split == "val":
                (root / "Annotations" / f"{image_id}.xml").write_text(XML)
    (root / "UNRELATED_CAPTIONS").touch()
    return root


def check(root: Path, capsys) -> tuple[dict, str]:
    assert run(["data", "check", str(root), "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def test_json_has_the_agreed_shape(flickr, capsys):
    report, talk = check(flickr, capsys)
    assert report == {
        "dataset": "flickr30k_entities",
        "splits": {
            "train": {"images": 3, "captions": 15, "phrases": 45, "boxed_images": 0, "boxes": 0},
            "val": {"images": 2, "captions": 10, "phrases": 30, "boxed_images": 2, "boxes": 4},
            "test": {"images": 0, "captions": 0, "phrases": 0, "boxed_images": 0, "boxes": 0},
        },
        "skipped": [],
        "missing": [],
    }
    assert talk == SMALL


def test_people_get_a_table(flickr, capsys):
    assert run(["data", "check", str(flickr)]) == 0
    captured = capsys.readouterr()
    assert captured.err == SMALL
    assert ["val", "2", "10", "30", "2", "4"] in [line.split() for line in captured.out.splitlines()]
    assert "skipped records: 0" in captured.out
    assert "missing: nothing" in captured.out
    assert run(["data", "check", str(flickr), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_validation_split_that_is_large_enough_gives_no_warning(tmp_path, capsys):
    rows = [f"{number}.jpg,a dog,val" for number in range(20)]
    for count, warned in ((19, True), (20, False)):
        (tmp_path / "captions.csv").write_text("\n".join(["image,caption,split", "x.jpg,a cat,train", *rows[:count]]))
        _, talk = check(tmp_path, capsys)
        assert ("val: 19 images are too few to choose a model" in talk) == warned


def test_a_missing_file_says_what_it_is_for_and_where_it_comes_from(flickr, capsys):
    (flickr / "UNRELATED_CAPTIONS").unlink()
    (flickr / "test.txt").unlink()
    report, _ = check(flickr, capsys)
    assert list(report["splits"]) == ["train", "val"]
    assert [(entry["file"], entry["required"], entry["count"]) for entry in report["missing"]] == [
        ("test.txt", True, 1),
        ("UNRELATED_CAPTIONS", False, 1),
    ]
    run(["data", "check", str(flickr)])
    talk = capsys.readouterr().out
    assert "test.txt: the image ids of the test split; required." in talk
    assert "From the authors of Flickr30k Entities" in talk


def test_absent_images_are_counted_not_listed(flickr, capsys):
    for name in ("1.jpg", "3.jpg", "5.jpg"):
        (flickr / "flickr30k-images" / name).unlink()
    report, _ = check(flickr, capsys)
    (lack,) = report["missing"]
    assert (lack["file"], lack["count"]) == ("flickr30k-images", 3)
    assert lack["examples"] == [f"flickr30k-images/{name}.jpg" for name in "135"]
    assert lack["purpose"] == "the photographs"
    for path in (flickr / "flickr30k-images").iterdir():
        path.unlink()
    (flickr / "flickr30k-images").rmdir()
    report, _ = check(flickr, capsys)
    assert [(entry["file"], entry["count"]) for entry in report["missing"]] == [("flickr30k-images", 5)]
    assert report["splits"]["val"]["boxes"] == 4


def test_skipped_records_are_counted_and_named(flickr, capsys):
    (flickr / "Sentences" / "2.txt").write_text(f"{CAPTION}\n" * 4 + "[/EN#1/people A man\n")
    (flickr / "Annotations" / "4.xml").write_text("<annotation>\n<object></annotation>")
    (flickr / "UNRELATED_CAPTIONS").write_text("what is this\n")  # read for every split, told once
    report, _ = check(flickr, capsys)
    assert [(entry["file"], entry["line"]) for entry in report["skipped"]] == [
        ("UNRELATED_CAPTIONS", 1),
        ("Sentences/2.txt", 5),
        ("Annotations/4.xml", 2),
    ]
    assert report["splits"]["train"]["captions"] == 14
    assert report["splits"]["val"]["boxed_images"] == 1
    run(["data", "check", str(flickr)])
    talk = capsys.readouterr().out
    assert "skipped records: 3" in talk
    assert "Annotations/4.xml, line 2: not well-formed XML" in talk


def test_many_skipped_records_do_not_flood_the_screen(flickr, capsys):
    (flickr / "train.txt").write_text("\n".join(["1"] * 51))
    run(["data", "check", str(flickr)])
    talk = capsys.readouterr().out
    assert talk.count("duplicate image 1") == 10
    assert "and 40 more; --json lists them all" in talk
    report, _ = check(flickr, capsys)
    assert len(report["skipped"]) == 50


def test_a_split_that_cannot_be_read_does_not_hide_the_others(tmp_path, capsys):
    images = [{"id": 1, "file_name": "1.jpg", "width": 5, "height": 5}]
    good = {"images": images, "annotations": [{"image_id": 1, "caption": "a dog"}]}
    (tmp_path / "captions_train2014.json").write_text('{"images": [\n')
    (tmp_path / "captions_val2014.json").write_text(json.dumps(good))
    report, _ = check(tmp_path, capsys)
    assert report["dataset"] == "coco"
    assert report["splits"]["val2014"]["captions"] == 1
    assert "train2014" not in report["splits"]
    assert [(entry["file"], entry["line"]) for entry in report["skipped"]] == [("captions_train2014.json", 2)]
    lacks = {entry["file"]: entry["count"] for entry in report["missing"]}
    assert lacks["val2014"] == 1
    assert "annotations/instances_val2014.json" in lacks


def test_pictures_that_do_not_fit_their_boxes_are_warned_of(flickr, capsys):
    Image.new("RGB", (45, 30)).save(flickr / "flickr30k-images" / "4.jpg")
    (flickr / "flickr30k-images" / "5.jpg").write_bytes(b"not a picture")
    report, talk = check(flickr, capsys)
    assert report["skipped"] == []
    assert "val: 1 of 2 checked images do not have the annotated size" in talk
    assert "4.jpg has 45 x 30 pixels, its annotation has 90 x 60" in talk
    assert "val: 1 of 2 checked images cannot be read" in talk


def test_a_users_own_folder(tmp_path, capsys):
    (tmp_path / "captions.csv").write_text("image,caption\na.jpg,a dog\nsub/b.jpg,a cat\n../c.jpg,a cow\n")
    report, _ = check(tmp_path, capsys)
    assert report["dataset"] == "pairs"
    assert sum(counts["images"] for counts in report["splits"].values()) == 2
    assert [entry["line"] for entry in report["skipped"]] == [4]
    (lack,) = report["missing"]
    assert (lack["file"], lack["count"], lack["examples"]) == (".", 2, ["a.jpg", "sub/b.jpg"])


def test_an_unknown_folder_is_told_what_each_data_set_looks_like(flickr, tmp_path, capsys):
    assert run(["data", "check", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    for name in data.LOADERS:
        assert f"\n  {name} " in captured.err
    assert f"{flickr} (flickr30k_entities)?" in captured.err
    assert run(["data", "check", str(flickr / "Sentences")]) == 1
    assert f"Did you mean {flickr}" in capsys.readouterr().err
    assert run(["data", "check", str(tmp_path / "nowhere")]) == 1
    assert "nowhere is not a folder" in capsys.readouterr().err


def test_checking_needs_no_torch_and_no_spacy(flickr):
    code = (
        "import sys; from deixis.cli import run; code = run(sys.argv[1:]);"
        "heavy = {'torch', 'spacy', 'cv2', 'matplotlib'} & set(sys.modules); sys.exit(code or (2 if heavy else 0))"
    )
    command = [sys.executable, "-c", code, "data", "check", str(flickr), "--json"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


# The contact sheet --------------------------------------------------------------------------------------------------


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def has(colour: str, area: np.ndarray) -> bool:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return bool((np.abs(area - rgb).max(-1) <= 2).sum() > 20)


def test_the_sheet_shows_boxes_and_phrases_in_matching_colours(flickr, tmp_path, capsys):
    from deixis.show.draw import colour

    out = tmp_path / "sheet.png"
    assert run(["data", "show", str(flickr), "--n", "1", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 of the 2 images of val" in captured.err
    sheet = pixels(out)
    grey = np.abs(sheet - 128).max(-1) <= 2
    bottom = int(np.flatnonzero(grey.any(1)).max())  # where the picture ends and the captions begin
    for index in (0, 1):
        assert has(colour(index), sheet[:bottom])
        assert has(colour(index), sheet[bottom + 1 :])
    assert not has(colour(2), sheet)


def test_samples_without_a_picture_are_passed_by(flickr, tmp_path, capsys):
    (flickr / "flickr30k-images" / "4.jpg").unlink()
    out = tmp_path / "sheet.png"
    assert run(["data", "show", str(flickr), "--out", str(out)]) == 0
    assert "1 of the 2 images" in capsys.readouterr().err
    (flickr / "flickr30k-images" / "5.jpg").unlink()
    assert run(["data", "show", str(flickr), "--out", str(out)]) == 1
    assert "No image of val can be drawn" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--n", "0"], 2, "at least 1"),
        (["--split", "dev"], 1, "Available: train, val, test"),
        (["--out", "nowhere/sheet.png"], 1, "nowhere/sheet.png cannot be written"),
        (["--out", "sheet.words"], 1, "sheet.words cannot be written"),
        (["--split", "test"], 1, "the split is empty"),
    ],
)
def test_what_cannot_be_drawn_is_said(flickr, capsys, monkeypatch, tmp_path, options, code, says):
    monkeypatch.chdir(tmp_path)
    assert run(["data", "show", str(flickr), *options]) == code
    assert says in capsys.readouterr().err


# The real files -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_pack
def test_the_pack_is_counted_in_full(capsys):
    report, talk = check(PACK, capsys)
    splits = report["splits"]
    assert {split: counts["images"] for split, counts in splits.items()} == {"train": 7455, "val": 351, "test": 185}
    assert all(counts["captions"] == 5 * counts["images"] for counts in splits.values())
    assert [splits[split]["boxed_images"] for split in ("train", "val", "test")] == [0, 110, 185]
    assert report["skipped"] == []
    assert not any(entry["required"] for entry in report["missing"])
    assert "warning" not in talk
