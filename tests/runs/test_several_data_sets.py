"""Training on several data sets: ids, stores, weights, one vocabulary, and what cannot be scored."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis import cli
from deixis.data import Sample
from deixis.data.sample import Caption, Entity
from deixis.data.scenes import make_scene
from deixis.errors import DeixisError
from deixis.images import load_image
from deixis.methods.albef.network import AlbefConfig
from deixis.methods.albef.recipes import ALBEF_RECIPES
from deixis.methods.reir.recipes import REIR_RECIPES
from deixis.methods.scan.recipes import SCAN_RECIPES
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.recipes import UPDOWN_RECIPES
from deixis.methods.updown.train import Validation
from deixis.runs.run import run_recipe
from deixis.training.callbacks import Callbacks, Step
from deixis.training.data import TrainingData
from deixis.training.parts import Part, apportion, weighted_order
from deixis.training.recipe import Phase, Recipe
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, FeatureStore, StoreWriter

EYES = named_extractor("tiny", "grid", boxes=12, grid=4)


def write_pairs(root: Path, train: int, val: int, captions: int, seed: int) -> None:
    """Write a folder of made pictures with a number of captions each; file names are the same in every folder."""
    root.mkdir(parents=True)
    lines = []
    for split, count in (("train", train), ("val", val)):
        for index in range(count):
            sample = make_scene(seed, index, size=64, split=split)
            sample.open().save(root / f"{split}-{index}.png")
            lines += [
                json.dumps({"image": f"{split}-{index}.png", "caption": c.text, "split": split})
                for c in sample.captions[:captions]
            ]
    (root / "captions.jsonl").write_text("\n".join(lines) + "\n")


def write_store(path: Path, root: Path) -> None:
    with StoreWriter(path, Contents(EYES.name, EYES.description, EYES.backbone.classes)) as store:
        for file in sorted(root.glob("*.png")):
            store.add(file.name, EYES.extract(load_image(file)))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data sets with the same file names: 8 images with five captions, 4 with one and no validation split."""
    root = tmp_path_factory.mktemp("several")
    write_pairs(root / "five", 8, 3, 5, seed=0)
    write_pairs(root / "one", 4, 0, 1, seed=7)
    for name in ("five", "one"):
        write_store(root / f"{name}.store", root / name)
    return root


def joined(world: Path, weights: tuple[float, ...] = ()) -> TrainingData:
    stores = [FeatureStore(world / f"{name}.store") for name in ("five", "one")]
    return TrainingData.from_folders([world / "five", world / "one"], stores, weights)


def test_ids_are_qualified_and_regions_are_found(world: Path) -> None:
    data = joined(world)
    assert [s.image_id for s in data.training][7:9] == ["five/train-7.png", "one/train-0.png"]
    assert len({s.image_id for s in data.training}) == 12
    assert [len(s.captions) for s in data.training][7:9] == [5, 1]
    for name in ("five", "one"):
        expected = FeatureStore(world / f"{name}.store")["train-1.png"]
        np.testing.assert_array_equal(data.regions[f"{name}/train-1.png"].features, expected.features)
    assert "one/val-0.png" not in data.regions
    assert "train-1.png" not in data.regions
    assert len(data.regions) == 11 + 4 == len(list(data.regions))
    assert data.source == "five+one"
    assert data.notes == (f"{world / 'one'} has no split 'val': it is used for training only.",)
    assert [s.image_id for s in data.validation] == [f"five/val-{n}.png" for n in range(3)]


def test_one_data_set_keeps_its_ids(world: Path) -> None:
    data = TrainingData.from_folder(world / "five", FeatureStore(world / "five.store"))
    assert (data.training[0].image_id, data.source) == ("train-0.png", "pairs")
    assert data.order(["train-0.png"]) is None
    assert data.describe() == "pairs, 8 training and 3 validation images"


def test_equal_folder_names_are_numbered(world: Path, tmp_path: Path) -> None:
    (tmp_path / "five").symlink_to(world / "one")  # the name of the folder itself counts
    write_pairs(tmp_path / "more" / "five", 1, 0, 1, seed=3)
    write_store(tmp_path / "more.store", tmp_path / "more" / "five")
    stores = [FeatureStore(world / "five.store"), FeatureStore(tmp_path / "more.store")]
    data = TrainingData.from_folders([world / "five", tmp_path / "more" / "five"], stores)
    assert data.source == "five-1+five-2"


def test_options_that_do_not_belong_together_are_named(world: Path, tmp_path: Path) -> None:
    roots, store = [world / "five", world / "one"], FeatureStore(world / "five.store")
    with pytest.raises(DeixisError, match="3 stores for 2 data sets"):
        TrainingData.from_folders(roots, [store] * 3)
    with pytest.raises(DeixisError, match="1 numbers for 2 data sets"):
        TrainingData.from_folders(roots, [store, store], [1.0])
    with pytest.raises(DeixisError, match="must be greater than 0"):
        TrainingData.from_folders(roots, [store, store], [1.0, 0.0])
    with pytest.raises(DeixisError, match="twice"):
        TrainingData.from_folders([roots[0], roots[0]], [store])
    with pytest.raises(DeixisError, match=r"both have an image train-0\.png, and share the feature store"):
        TrainingData.from_folders(roots, [store])
    other = named_extractor("tiny", "grid", boxes=5)
    with StoreWriter(tmp_path / "s", Contents(other.name, other.description, other.backbone.classes)) as writer:
        writer.add("train-0.png", other.extract(make_scene(0, 0, size=64).open()))
    with pytest.raises(DeixisError, match="Extract all with the same settings"):
        TrainingData.from_folders(roots, [store, FeatureStore(tmp_path / "s")])


def test_one_store_covers_several_data_sets(world: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    write_pairs(more, 2, 1, 1, seed=9)
    for file in list(more.glob("*.png")):
        file.rename(more / f"more-{file.name}")
    (more / "captions.jsonl").write_text((more / "captions.jsonl").read_text().replace('"image": "', '"image": "more-'))
    with StoreWriter(tmp_path / "s", Contents(EYES.name, EYES.description, EYES.backbone.classes)) as writer:
        for root in (world / "five", more):
            for file in sorted(root.glob("*.png")):
                writer.add(file.name, EYES.extract(make_scene(0, 0, size=64).open()))
    data = TrainingData.from_folders([world / "five", more], [FeatureStore(tmp_path / "s")]).usable()
    assert (len(data.training), len(data.validation)) == (10, 4)


def test_validation_on_another_data_set(world: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "apart", 0, 2, 1, seed=5)
    write_store(tmp_path / "apart.store", tmp_path / "apart")
    stores = [
        FeatureStore(world / "five.store"),
        FeatureStore(world / "one.store"),
        FeatureStore(tmp_path / "apart.store"),
    ]
    data = TrainingData.from_folders([world / "five", world / "one"], stores, val_root=tmp_path / "apart").usable()
    assert [s.image_id for s in data.validation] == ["apart/val-0.png", "apart/val-1.png"]
    assert data.describe().endswith("one (pairs): 4 training images; 2 validation images of pairs")
    assert data.notes == ()


# Weights ------------------------------------------------------------------------------------------------------------


def test_numbers_are_apportioned_by_the_largest_remainders() -> None:
    assert apportion(10, np.array([1.0, 1.0, 1.0])) == [4, 3, 3]
    assert apportion(7, np.array([0.5, 0.25, 0.25])) == [3, 2, 2]  # 3.5, 1.75, 1.75
    assert apportion(5, np.array([0.0, 2.0])) == [0, 5]


def test_weights_are_shares_of_an_epoch_and_every_example_is_used_equally_often() -> None:
    parts = [Part("a", "pairs", "a", 3.0), Part("b", "pairs", "b", 1.0)]
    images = [f"a/{n}" for n in range(4)] + [f"b/{n}" for n in range(12)]
    order = weighted_order(parts, images)
    assert order is not None
    used: Counter[int] = Counter()
    for epoch in range(3):
        rows = order(0, epoch)
        assert len(rows) == 16
        assert sum(row < 4 for row in rows) == 12  # three quarters
        np.testing.assert_array_equal(rows, order(0, epoch))  # resumed runs have the same order
        used.update(rows.tolist())
    assert {used[row] for row in range(4)} == {9}
    assert {used[row] for row in range(4, 16)} == {1}
    assert not np.array_equal(order(0, 0), order(1, 0))


def test_without_weights_every_example_occurs_once() -> None:
    assert weighted_order([Part("a", "pairs", "a"), Part("b", "pairs", "b")], ["a/1"]) is None


# Runs ---------------------------------------------------------------------------------------------------------------


def recipes() -> dict[str, Recipe]:
    updown, scan, reir, albef = (
        UPDOWN_RECIPES["updown-small"],
        SCAN_RECIPES["pos-scan-small"],
        replace(REIR_RECIPES["grounder-reconstruction-small"], monitor="AUC"),
        ALBEF_RECIPES["albef-small"],
    )
    sizes = {"words": 8, "hidden": 12, "attention": 6}
    small = AlbefConfig(
        vocabulary=0, hidden=24, heads=2, feed=32, text_layers=1, fusion_layers=1, positions=24, patch=0, features=16,
        side=4, image_hidden=24, image_heads=2, image_feed=32, image_layers=1, shared=12, map_layer=0,
    )  # fmt: skip
    phases = (Phase(epochs=2),)
    albef = replace(albef, phases=(replace(albef.phases[0], epochs=2),), min_count=1, text="fresh", batch_images=5)
    return {
        "updown": replace(updown, model=replace(updown.model, **sizes), phases=phases, min_count=1, batch_images=5),
        "scan": replace(scan, model=replace(scan.model, words=8, embed=12), phases=phases, min_count=1, batch_images=8),
        "reir": replace(
            reir, model=replace(reir.model, words=8, width=24, hidden=16), phases=phases, min_count=1, batch_images=5
        ),
        "albef": replace(albef, model=small),
        "albef on pixels": replace(albef, model=replace(small, patch=16, features=0)),
    }


class Killed(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.parametrize("method", list(recipes()))
def test_every_method_learns_from_several_data_sets_and_resumes(method: str, world: Path, tmp_path: Path) -> None:
    recipe, data = recipes()[method], joined(world, (1.0, 2.0))
    run_recipe(recipe, data, tmp_path / "whole")

    def die(report: Step) -> None:
        if report.step == 4:
            raise Killed

    with pytest.raises(Killed):
        run_recipe(recipe, data, tmp_path / "killed", Callbacks(step=die))
    run_recipe(recipe, data, tmp_path / "killed")
    for file in ("weights.safetensors", "log.jsonl"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "killed" / file).read_bytes()
    card = (tmp_path / "whole" / "README.md").read_text()
    assert "- Data: five (pairs): 8 training and 3 validation images, weight 1; one (pairs): 4 training and 0" in card
    assert "weight 2" in card


def test_the_vocabulary_is_shared(world: Path, tmp_path: Path) -> None:
    run_recipe(recipes()["updown"], joined(world), tmp_path)
    words = set(Captioner.from_pretrained(tmp_path).vocabulary.words)
    for name in ("five", "one"):
        lines = (world / name / "captions.jsonl").read_text().splitlines()
        texts = [line["caption"] for line in map(json.loads, lines) if line["split"] == "train"]
        assert {word for text in texts for word in text.lower().strip(".").replace(",", "").split()} <= words


def test_the_verb_takes_several_data_sets(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--model.words", "8", "--model.hidden", "12", "--model.attention", "6", "--phases.0.epochs", "1"]
    args = ["train", "updown-small", "--data", str(world / "five"), str(world / "one"), "--features"]
    args += [str(world / "five.store"), str(world / "one.store"), "--data-weights", "1", "3", "--min-count", "1"]
    assert cli.run([*args, *sizes, "--out", str(tmp_path / "run")]) == 0
    assert "has no split 'val': it is used for training only." in capsys.readouterr().err
    assert torch.isfinite(Captioner.from_pretrained(tmp_path / "run", backend="torch").network.embed.weight).all()


# Boxes without phrases ------------------------------------------------------------------------------------------------


def boxed(image_id: str) -> Sample:
    """A sample as COCO has it: captions, and boxes that no phrase refers to."""
    entity = Entity("1", np.array([[1.0, 2.0, 30.0, 40.0]]), label="dog")
    return Sample(image_id, (Caption("a dog runs", ("a", "dog", "runs")),), size=(64, 64), entities=(entity,))


def test_boxes_without_phrases_are_left_out_and_told_once(tmp_path: Path) -> None:
    samples = [boxed(str(number)) for number in range(6)]
    regions = {s.image_id: EYES.extract(make_scene(0, int(s.image_id), size=64).open()) for s in samples}
    data = TrainingData(samples[:4], samples[4:], regions, EYES.to_json(), "coco")
    said: list[str] = []
    run_recipe(recipes()["updown"], data, tmp_path, Callbacks(message=said.append))
    assert [line for line in said if "left out" in line] == [
        "coco: validation has boxes, but no phrases for them. F1_all and F1_loc are left out."
    ]
    assert set(json.loads((tmp_path / "metrics.json").read_text())["validation"]) == {"CIDEr", "BLEU-4"}


def test_phrases_without_classes_are_left_out() -> None:
    scene = make_scene(0, 0, size=64)  # it has phrases with boxes
    data = TrainingData([boxed("1")], [scene], {}, EYES.to_json(), "coco")
    validation = Validation(data)
    assert validation._boxed == ()
    assert validation.notes == [
        "coco: the training captions have no phrases to find classes in. F1_all and F1_loc are left out."
    ]


def karpathy(root: Path, splits: dict[str, list[int]]) -> Path:
    """Write a data set in Karpathy's layout: images of these numbers, one caption each, no image files."""
    root.mkdir()
    images = [
        {
            "cocoid": number,
            "filename": f"{number}.jpg",
            "filepath": "train2017",
            "split": split,
            "sentences": [{"raw": "a dog", "tokens": ["a", "dog"]}],
        }
        for split, numbers in splits.items()
        for number in numbers
    ]
    (root / "dataset_coco.json").write_text(json.dumps({"images": images, "dataset": "coco"}))
    return root


def test_data_check_tells_images_that_another_data_set_trains_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = karpathy(tmp_path / "a", {"train": [1, 2], "val": [3], "test": [4, 5]})
    b = karpathy(tmp_path / "b", {"train": [2, 4, 5, 6]})
    assert cli.run(["data", "check", str(a), str(b), "--json"]) == 0
    printed = capsys.readouterr()
    assert [report["dataset"] for report in json.loads(printed.out)] == ["coco", "coco"]
    assert f"warning: 2 images of {a} (test) are in the training split of {b}." in printed.err
    assert f"images of {a} (val)" not in printed.err
