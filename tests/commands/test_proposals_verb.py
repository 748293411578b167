"""``deixis proposals``: recall as a table, a chart and JSON."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.cli import run

XML = """<annotation>
<size><width>120</width><height>90</height></size>
<object><name>1</name><bndbox><xmin>{}</xmin><ymin>21</ymin><xmax>{}</xmax><ymax>60</ymax></bndbox></object>
<object><name>2</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>120</xmax><ymax>90</ymax></bndbox></object>
</annotation>"""
CAPTION = "[/EN#1/clothing A red coat] in [/EN#2/scene a park] in [/EN#0/notvisual time] ."


@pytest.fixture
def flickr(tmp_path: Path) -> Path:
    """A red square on a grey ground, in a different place in each of three validation images; no boxes in training."""
    root = tmp_path / "flickr"
    for folder in ("Sentences", "Annotations", "flickr30k-images"):
        (root / folder).mkdir(parents=True)
    for split, ids in {"train": "9", "val": "123"}.items():
        (root / f"{split}.txt").write_text("\n".join(ids))
        for image_id in ids:
            (root / "Sentences" / f"{image_id}.txt").write_text(f"{CAPTION}\n" * 5)
            left = 15 * int(image_id) % 60
            pixels = np.full((90, 120, 3), 110, np.uint8)
            pixels[20:60, left : left + 50] = (200, 30, 20)
            Image.fromarray(pixels).save(root / "flickr30k-images" / f"{image_id}.jpg", quality=95)
            if split == "val":
                (root / "Annotations" / f"{image_id}.xml").write_text(XML.format(left + 1, left + 50))
    return root


def measure(capsys, *arguments: str) -> dict:
    assert run(["proposals", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_the_agreed_shape(flickr, capsys):
    found = measure(capsys, str(flickr), "--split", "val", "--processes", "1")
    assert set(found["recall"]) == set(found["average_recall"]) == {"10", "36", "50", "100", "200"}
    assert found["recall"]["100"] == {"0.5": 1.0, "0.7": 1.0}
    assert found["supervision"] == found["proposals"]["supervision"] == "none"
    assert (found["images"], found["phrases"], found["entities"], found["split"]) == (3, 30, 6, "val")
    assert found["by_type"]["clothing"]["phrases"] == 15
    assert found["by_type"]["scene"]["recall"]["10"]["0.7"] == 1.0
    assert found["left_out"] == []


def test_a_box_that_misses_shows(flickr, tmp_path, capsys):
    boxes = tmp_path / "boxes.npz"
    np.savez(boxes, **{"1": [[15, 20, 65, 60]], "2": [[0, 0, 5, 5]], "3": [[45, 20, 90, 60]]})
    arguments = (str(flickr), "--split", "val", "--proposals", str(boxes), "--counts", "1", "2", "--processes", "1")
    found = measure(capsys, *arguments)
    assert found["by_type"]["clothing"]["recall"]["1"]["0.5"] == 0.0
    assert found["by_type"]["clothing"]["recall"]["2"]["0.5"] == pytest.approx(2 / 3)
    # the third box has an IoU of .9: it is reached at nine of the ten thresholds
    assert found["by_type"]["clothing"]["average_recall"]["2"] == pytest.approx((1 + 0 + 0.9) / 3)
    assert found["recall"]["2"]["0.5"] == pytest.approx(5 / 6)
    assert found["boxes_per_image"] == 2


def test_the_true_boxes_reach_everything_and_processes_change_nothing(flickr, capsys):
    one = measure(capsys, str(flickr), "--split", "val", "--proposals", "truth", "--processes", "1")
    two = measure(capsys, str(flickr), "--split", "val", "--proposals", "truth", "--processes", "2")
    assert one == two
    assert one["average_recall"]["10"] == 1.0
    assert "true boxes of flickr30k_entities" in one["supervision"]


def test_people_get_a_table_and_a_chart(flickr, tmp_path, capsys):
    chart = tmp_path / "recall.png"
    command = ["proposals", str(flickr), "--split", "val", "--proposals", "grid", "--processes", "1"]
    assert run([*command, "--chart", str(chart)]) == 0
    told = capsys.readouterr()
    assert told.err == f"drawn: {chart}\n"
    for words in ("recall of grid", "IoU 0.5", "average recall", "clothing", "supervision: none"):
        assert words in told.out
    with Image.open(chart) as picture:
        assert min(picture.size) > 400
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 50


def test_a_chart_that_cannot_be_written_is_named(flickr, tmp_path, capsys):
    command = ["proposals", str(flickr), "--split", "val", "--proposals", "grid", "--processes", "1", "--chart"]
    for chart in (tmp_path / "nowhere" / "recall.png", tmp_path / "recall.docx"):
        assert run([*command, str(chart)]) == 1
        assert f"{chart} cannot be written" in capsys.readouterr().err


def test_an_image_that_cannot_be_read_is_named_and_left_out(flickr, capsys):
    (flickr / "flickr30k-images" / "2.jpg").write_bytes(b"no picture")
    found = measure(capsys, str(flickr), "--split", "val", "--proposals", "grid", "--processes", "1")
    assert (found["images"], found["phrases"]) == (2, 20)
    assert len(found["left_out"]) == 1
    assert "2.jpg" in found["left_out"][0]
    for image_id in "13":
        (flickr / "flickr30k-images" / f"{image_id}.jpg").unlink()
    assert run(["proposals", str(flickr), "--split", "val", "--proposals", "grid", "--processes", "1"]) == 1
    assert "None of the 3 images could be used" in capsys.readouterr().err


def test_wrong_use_is_explained(flickr, capsys):
    def complaint(*arguments: str, code: int = 1) -> str:
        assert run(["proposals", str(flickr), "--split", "val", *arguments]) == code
        return capsys.readouterr().err

    assert "unknown proposals 'nonsense'. Use selective-search" in complaint("--proposals", "nonsense")
    assert "at least 1" in complaint("--counts", "0", code=2)
    assert run(["proposals", str(flickr), "--split", "train"]) == 1
    assert "has no phrase with a box" in capsys.readouterr().err
