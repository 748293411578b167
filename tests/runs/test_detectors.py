"""Regions of better detectors: true boxes with their object words, and features of a classifier tuned on them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis import boxes as geometry
from deixis import cli
from deixis.data import load
from deixis.data.scenes import make_scenes
from deixis.errors import DeixisError
from deixis.runs.detectors import Boxes, TrueBoxes, targets, tune
from deixis.types import Regions
from deixis.vision.extractor import named_extractor
from deixis.vision.head import ClassHead
from deixis.vision.store import Contents, FeatureStore, StoreWriter

SIZES = {"model.words": 8, "model.hidden": 12, "model.attention": 6, "model.location": 4, "model.grid": 0}
SIZES |= {"min-count": 1, "phases.0.epochs": 1, "batch-images": 5, "max-words": 8}
SMALL = ["--device", "cpu", *(part for name, value in SIZES.items() for part in (f"--{name}", str(value)))]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("features") / "scenes.store"
    extractor = named_extractor("tiny", "grid", 12)
    with StoreWriter(path, Contents(extractor.name, extractor.description)) as writer:
        for split, n in (("train", 10), ("val", 2), ("test", 2)):
            for sample in make_scenes(n, 0, split):
                writer.add(sample.image_id, extractor.extract(sample.open()))
    return path


def run(*args: object) -> None:
    assert cli.run([str(arg) for arg in args]) == 0, args


def test_a_perfect_detector_has_the_true_boxes_and_their_words(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "perfect.store"
    run("features", "--from", store, "--layout", "perfect-detector", "--data", "scenes:10", "-o", out, "--quiet")
    made = FeatureStore(out)
    assert "truth" in made.extractor
    for split in ("train", "test"):
        for sample in load(Path("scenes:10"), split):
            found = made[sample.image_id]
            unions = [geometry.union(entity.boxes) for entity in sample.entities if len(entity.boxes)]
            for box in found.boxes:
                assert any(np.allclose(box, union, atol=1e-3) for union in unions)
            np.testing.assert_allclose(found.features.astype(float).sum(1), 1, atol=2e-3)
            np.testing.assert_array_equal(found.class_probs[:, 1:], found.features)
            assert not found.class_probs[:, 0].any()
    # a thing that all captions call a dog
    dogs = []
    for sample in load(Path("scenes:10"), "train"):
        heads = defaultdict(set)
        for phrase in (phrase for caption in sample.captions for phrase in caption.phrases):
            heads[phrase.entity].add(phrase.text.split()[-1])
        dogs += [(sample, sample.entity(name)) for name, words in heads.items() if words == {"dog"}]
    sample, entity = dogs[0]
    found = made[sample.image_id]
    row = int(np.abs(found.boxes - geometry.union(entity.boxes)).sum(1).argmin())
    # no word is frequent enough in so few scenes: the classes are the types of phrases
    assert found.class_names[int(found.class_probs[row].argmax())] == "animals"


@pytest.mark.slow
@pytest.mark.usefixtures("without_java")
@pytest.mark.parametrize("layout", ["perfect-detector", "biased-detector"])
def test_rows_of_a_detector(layout: str, store: Path, tmp_path: Path) -> None:
    """Import, train with and without boxes, also without class similarity, and score."""
    out = tmp_path / "made.store"
    options = ["--hidden", "6", "--epochs", "2"] if layout == "biased-detector" else []
    run("features", "--from", store, "--layout", layout, "--data", "scenes:10", "-o", out, *options, "--quiet")
    rows = {"cyclical-baseline-small": [], "gvd-small": ["--model.classes", "0"], "cyclical-supervised-small": []}
    for recipe, changes in rows.items():
        model = tmp_path / recipe
        common = ["--data", "scenes:10", "--features", out, "--quiet"]
        run("train", recipe, *common, "--out", model, *SMALL, "--model.fc7", "6", *changes)
        config = json.loads((model / "config.json").read_text())["decoder"]
        names = FeatureStore(out)[next(iter(FeatureStore(out)))].class_names
        wanted = {"cyclical-supervised-small": len(names), "gvd-small": 0}
        assert config["classes"] == wanted.get(recipe, len(names) if layout == "biased-detector" else 64)
        run("eval", model, *common, "--grounder", "none", "--shown", "0", "--out", tmp_path / f"{recipe}.eval")


def test_a_region_has_the_class_of_its_best_box_in_its_frame() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 8], [50, 50, 60, 60.0]])
    own = Boxes(np.array([[0, 0, 10, 10], [0, 0, 10, 8.5]]), np.array([[1, 0], [0.4, 0.6]], np.float32))
    regions = Regions(boxes, np.zeros((3, 2)), (100, 100))
    assert targets(regions, own).tolist() == [1, 2, 0]
    clip = Regions(boxes, np.zeros((3, 2)), (100, 100), frames=np.array([0, 1, 1]))
    assert targets(clip, Boxes(own.boxes, own.words, np.array([1, 1]))).tolist() == [0, 2, 0]


def test_the_classifier_learns_the_words_of_the_training_boxes(tmp_path: Path) -> None:
    """Features tell the two classes apart; a head of the store is where the classifier begins."""
    random = np.random.default_rng(0)
    images, path = {}, tmp_path / "toy.store"
    with StoreWriter(path, Contents("toy", {})) as writer:
        for number in range(40):
            kinds = random.integers(0, 3, 6)
            boxes = np.stack([[20.0 * i, 0, 20.0 * i + 10, 10] for i in range(6)])
            features = (np.eye(3)[kinds] + 0.1 * random.normal(size=(6, 3))).astype(np.float32)
            writer.add(str(number), Regions(boxes, features, (200, 20), extractor="toy"))
            real = kinds > 0
            images[str(number)] = Boxes(boxes[real], np.eye(2, dtype=np.float32)[kinds[real] - 1])
        head = ClassHead(
            np.eye(3, dtype=np.float32), np.zeros(3, np.float32), np.zeros((3, 3), np.float32),
            np.array([0, 1, 0], np.float32), ("__background__", "cat", "dog"),
        )  # fmt: skip
        head.save(path)
    true = TrueBoxes("toy", ("cat", "dog"), images, tuple(str(n) for n in range(30)))
    begun = tune(FeatureStore(path), true, 0)
    np.testing.assert_array_equal(begun.fc7.weight.detach(), head.fc7_weight)
    np.testing.assert_array_equal(begun.classify.bias.detach(), head.class_bias)
    (path / "head.safetensors").unlink()
    network = tune(FeatureStore(path), true, 1500, hidden=8)
    right = []
    for number in range(30, 40):  # images that it has not seen
        regions = FeatureStore(path)[str(number)]
        with torch.inference_mode():
            said = network(torch.from_numpy(regions.features.astype(np.float32))).argmax(1).numpy()
        right += (said == targets(regions, images[str(number)])).tolist() if len(images[str(number)].boxes) else []
    assert np.mean(right) > 0.95


def test_what_is_missing_is_named(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["features", "--from", str(store), "--layout", "perfect-detector", "-o", str(tmp_path / "x")]
    assert cli.run(args) != 0
    assert "needs --data" in capsys.readouterr().err
    with pytest.raises(DeixisError, match="no split 'learn'"):
        TrueBoxes.read(Path("scenes:10"), train="learn")
