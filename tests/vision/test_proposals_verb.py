"""``deixis proposals``: recall as a user meets it, and how it is counted."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis import boxes as geometry
from deixis import data
from deixis.cli import run
from deixis.data.sample import Caption, Entity, Sample
from deixis.types import Phrase
from deixis.vision import proposals
from deixis.vision.proposals.recall import Targets, best_overlaps, recall, targets

PACK = Path(
    os.environ.get("DEIXIS_FLICKR30K_ENTITIES")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "flickr30k-entities-8k"
)
needs_pack = pytest.mark.skipif(
    not PACK.is_dir(), reason="no Flickr30k Entities here; DEIXIS_FLICKR30K_ENTITIES names its folder"
)

# How it is counted -------------------------------------------------------------------------------------------------


def sample() -> Sample:
    entities = (
        Entity("dogs", np.array([[0, 0, 10, 10], [20, 0, 30, 10.0]])),
        Entity("hat", np.array([[5, 5, 9, 9.0]])),
        Entity("unseen", np.zeros((0, 4))),
        Entity("unnamed", np.array([[1, 1, 2, 2.0]])),
    )
    phrases = [
        [Phrase("dogs", 0, 1, entity="dogs", types=("animals",)), Phrase("sky", 1, 2, entity="unseen")],
        [Phrase("two dogs", 0, 2, entity="dogs", types=("animals", "other")), Phrase("it", 2, 3)],
        [Phrase("hat", 0, 1, entity="hat", types=("clothing",))],
    ]
    return Sample("1", tuple(Caption("", (), tuple(each)) for each in phrases), entities=entities)


def test_every_phrase_with_a_box_counts_and_several_boxes_are_one():
    wanted = targets(sample())
    assert wanted.boxes.tolist() == [[0, 0, 30, 10], [0, 0, 30, 10], [5, 5, 9, 9]]
    assert wanted.types == (("animals",), ("animals", "other"), ("clothing",))
    assert wanted.first.tolist() == [True, False, True]
    assert len(targets(Sample("2", ()))) == 0


def test_overlap_is_that_of_the_closest_of_the_first_boxes():
    wanted = Targets(np.array([[0, 0, 10, 10.0]]), (("x",),), np.array([True]))
    boxes = np.array([[0, 0, 100, 100], [0, 0, 10, 20], [0, 0, 5, 5], [0, 0, 10, 10.0]])
    assert best_overlaps(wanted, boxes, (1, 2, 3, 4, 200)).tolist() == [[0.01, 0.5, 0.5, 1, 1]]


def test_recall_includes_the_threshold_and_averages_over_ten():
    found = recall(np.array([[0.5], [0.72], [1.0], [0.2]]), (10,))
    assert found.total == 4
    assert found.recall == {"10": {"0.5": 0.75, "0.7": 0.5}}
    # reached at .5 ... .95: 1, 5 (up to .7), 10 and 0 of ten thresholds
    assert found.average["10"] == pytest.approx((1 + 5 + 10 + 0) / 40)


# The verb -----------------------------------------------------------------------------------------------------------

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
    assert "not one of the 3 images could be used" in capsys.readouterr().err


def test_wrong_use_is_explained(flickr, capsys):
    def complaint(*arguments: str, code: int = 1) -> str:
        assert run(["proposals", str(flickr), "--split", "val", *arguments]) == code
        return capsys.readouterr().err

    assert "no proposals called 'nonsense'; choose selective-search" in complaint("--proposals", "nonsense")
    assert "at least 1" in complaint("--counts", "0", code=2)
    assert run(["proposals", str(flickr), "--split", "train"]) == 1
    assert "has no phrase with a box" in capsys.readouterr().err


# On photographs -----------------------------------------------------------------------------------------------------


@needs_pack
def test_the_default_reaches_what_plain_selective_search_does_not():
    """On 30 test photographs; plain selective search and the whole image reach .77 of the phrases with 100 boxes."""
    drawn = [(each, wanted) for each in data.load(PACK, "test").samples[:30] if len(wanted := targets(each))]
    overlaps = []
    for each, wanted in drawn:
        found = proposals.default().propose(np.asarray(each.open()))
        assert len(found) == 100
        assert geometry.iou(found.boxes, found.boxes)[np.triu_indices(100, 1)].max() < 0.99
        overlaps.append(best_overlaps(wanted, found.boxes, (100,)))
    assert recall(np.concatenate(overlaps), (100,)).recall["100"]["0.5"] >= 0.8
