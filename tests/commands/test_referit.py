"""ReferItGame by command with its official files: features, training of ReIR, evaluation."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.cli import run

PARTITION = "refclef:berkeley"
EXPRESSIONS = {
    "train": (["the sky", "blue sky above", "a man in a hat"], ["a dog", "the dog near the tree", "grass"]),
    "val": (["a house", "the man"], ["the road on the left"]),
    "test": (["the sea", "a boat on the sea"], ["a woman"]),
}
TINY = ["--model.words", "8", "--model.width", "12", "--model.hidden", "8", "--model.whiten", "6", "--min-count", "1"]


@pytest.fixture
def referit(tmp_path: Path) -> Path:
    """Two images for each split, in the official layout of the ReferIt distribution."""
    root, made = tmp_path / "refer", np.random.default_rng(0)
    photos = root / "images" / "saiapr_tc-12"
    photos.mkdir(parents=True)
    (root / "refclef").mkdir()
    images, annotations, refs = [], [], []
    for split, several in EXPRESSIONS.items():
        for texts in several:
            number = len(images) + 1
            Image.fromarray(made.integers(0, 255, (36, 48, 3), dtype=np.uint8)).save(photos / f"{number}.jpg")
            images.append({"id": number, "file_name": f"{number}.jpg", "width": 48, "height": 36})
            annotation = {"id": f"{number}_1", "image_id": number, "category_id": 0, "bbox": [4, 6, 20, 18]}
            annotations.append(annotation)
            sentences = [{"sent": text, "raw": text, "tokens": text.split()} for text in texts]
            ref = {"ref_id": number, "ann_id": annotation["id"], "image_id": number, "split": split}
            refs.append({**ref, "sentences": sentences})
    content = {"images": images, "annotations": annotations, "categories": [{"id": 0, "name": "thing"}]}
    (root / "refclef" / "instances.json").write_text(json.dumps(content))
    (root / "refclef" / "refs(berkeley).p").write_bytes(pickle.dumps(refs, 2))
    return root


def test_files_to_scores(referit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, model = str(tmp_path / "refclef.store"), str(tmp_path / "reir")
    extractor = ["--backbone", "tiny", "--proposals", "grid", "--boxes", "6", "--grid", "4", "--processes", "1"]
    for split in EXPRESSIONS:
        args = ["features", str(referit), "--split", f"{PARTITION}:{split}", *extractor, "-o", store, "--quiet"]
        assert run(args) == 0
    common = ["--data", str(referit), "--features", store]
    splits = ["--train-split", f"{PARTITION}:train", "--val-split", f"{PARTITION}:val"]
    steps = ["--phases.0.epochs", "1", "--batch-images", "2", "--self-taught.warmup", "0", "--device", "cpu"]
    assert run(["train", "reir-small", *common, *splits, *TINY, *steps, "--out", model, "--quiet"]) == 0
    losses = json.loads((tmp_path / "reir" / "log.jsonl").read_text().splitlines()[-1])["losses"]
    assert losses.keys() >= {"reconstruct", "reconstruct_fine", "ranking", "boxes"}
    capsys.readouterr()
    asked = [*common, "--split", f"{PARTITION}:test", "--out", str(tmp_path / "eval")]
    assert run(["eval", model, *asked, "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    scores = told["scores"]
    assert scores["accuracy"]["signature"].startswith("data:refer|split:refclef:berkeley:test|")
    assert {"pointing", "pointing_centre", "mean_iou", "accuracy_at_0.8"} <= scores.keys()
    assert "object class" in told["absent"]["words"]  # three captions name nothing three times
    (file,) = (tmp_path / "eval").rglob("phrases.jsonl")
    asked_for = [json.loads(line)["phrase"] for line in file.read_text().splitlines()]
    assert sorted(asked_for) == ["a boat on the sea", "a woman", "the sea"]
