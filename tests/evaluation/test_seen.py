"""Scoring on training images is refused, and several splits are scored as one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from deixis import cli
from deixis.data.scenes import make_scene
from deixis.errors import DeixisError
from deixis.metrics.references import read_reference
from deixis.training.seen import SEEN, image_key, seen_images
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, StoreWriter


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set of one's own with its features, and a captioner that was trained on it."""
    root, eyes, lines = tmp_path_factory.mktemp("seen"), named_extractor("tiny", "grid"), []
    (root / "data").mkdir()
    with StoreWriter(root / "store", Contents(eyes.name, eyes.description, eyes.backbone.classes)) as store:
        for split, count in (("train", 3), ("val", 2), ("test", 1)):
            for index in range(count):
                name, image = f"{split}-{index}.png", make_scene(0, index, size=64, split=split).open()
                image.save(root / "data" / name)
                store.add(name, eyes.extract(image))
                lines.append(json.dumps({"image": name, "caption": "a dog runs", "split": split}))
    (root / "data" / "captions.jsonl").write_text("\n".join(lines) + "\n")
    sizes = ["--model.words", "8", "--model.hidden", "12", "--model.attention", "6", "--phases.0.epochs", "1"]
    where = ["--data", str(root / "data"), "--features", str(root / "store"), "--out", str(root / "run")]
    assert cli.run(["train", "updown-small", *where, *sizes, "--min-count", "1", "--quiet"]) == 0
    return root


def evaluate(world: Path, *more: str) -> int:
    where = ["--data", str(world / "data"), "--features", str(world / "store"), "--out", str(world / "eval")]
    return cli.run(["eval", str(world / "run"), *where, "--json", *more])


@pytest.fixture(autouse=True)
def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deixis.metrics.java.shutil.which", lambda name: None)


def test_training_images_are_refused_unless_allowed(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(world, "--split", "train") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{world / 'run'} was trained on 3 of the 3 images of {world / 'data'} (train), such as train-0.png." in (
        printed.err
    )
    assert "add --allow-seen" in printed.err
    assert evaluate(world, "--split", "train", "--allow-seen") == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert all("|seen:3" in score["signature"] for score in scores.values())


def test_several_splits_are_scored_as_one(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(world, "--split", "val", "test") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["split"] == "val+test"
    assert all("|split:val+test|" in score["signature"] for score in found["scores"].values())
    assert not any("seen" in score["signature"] for score in found["scores"].values())
    predictions = world / "eval" / "captions.jsonl"
    assert (
        cli.run(["score", str(predictions), "--reference", str(world / "data"), "--split", "val", "test", "--json"])
        == 0
    )
    again = json.loads(capsys.readouterr().out)
    assert len(predictions.read_text().splitlines()) == 3
    for name in ("CIDEr", "BLEU-4"):
        assert found["scores"][name]["value"] == pytest.approx(again["scores"][name]["value"])


def test_a_split_that_is_not_there_is_named(world: Path) -> None:
    with pytest.raises(DeixisError, match="no split 'x'"):
        read_reference(world / "data", ("val", "x"))
    with pytest.raises(DeixisError, match="no split is given"):
        read_reference(world / "data", ())


def test_images_are_qualified_by_their_data_set(tmp_path: Path) -> None:
    """COCO's ids are the same in every selection of it; file names are not."""
    keys = [image_key("coco", "a", "1"), image_key("pairs", "a", "1.png")]
    (tmp_path / SEEN).write_text(json.dumps({"images": keys}))
    assert seen_images([tmp_path], "coco", Path("b"), ["1", "2"]) == ["1"]
    assert seen_images([tmp_path], "flickr30k_entities", Path("a"), ["1"]) == []
    assert seen_images([tmp_path], "pairs", Path("somewhere/a"), ["1.png"]) == ["1.png"]
    assert seen_images([tmp_path], "pairs", Path("b"), ["1.png"]) == []
    assert seen_images([tmp_path / "none"], "coco", Path("a"), ["1"]) == []
    (tmp_path / SEEN).write_text("[" * sys.getrecursionlimit() * 10)
    with pytest.raises(DeixisError, match="Restore or delete the file"):
        seen_images([tmp_path], "coco", Path("b"), ["1"])
