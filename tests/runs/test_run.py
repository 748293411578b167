"""From a folder of pictures with captions to a captioner, through the verbs that people use."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deixis import DeixisError, cli
from deixis.data.scenes import make_scene
from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.recipes import UPDOWN_RECIPES, UpDownRecipe
from deixis.methods.updown.train import class_names, object_classes, prepare
from deixis.runs.run import run_recipe
from deixis.training.callbacks import Callbacks
from deixis.training.data import TrainingData
from deixis.vision.extractor import named_extractor
from deixis.vision.store import Contents, FeatureStore, StoreWriter


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Eight made pictures as one's own data set, and its features by the tiny network."""
    root = tmp_path_factory.mktemp("own")
    eyes = named_extractor("tiny", "grid")
    lines = []
    with StoreWriter(root / "store", Contents(eyes.name, eyes.description, eyes.backbone.classes)) as store:
        for split, index in [("train", i) for i in range(6)] + [("val", i) for i in range(2)]:
            sample = make_scene(0, index, size=96, split=split)
            name = f"{split}-{index}.png"
            (root / "data").mkdir(exist_ok=True)
            sample.open().save(root / "data" / name)
            store.add(name, eyes.extract(sample.open()))
            lines += [json.dumps({"image": name, "caption": c.text, "split": split}) for c in sample.captions]
    (root / "data" / "captions.jsonl").write_text("\n".join(lines) + "\n")
    return root / "data", root / "store"


def quick(recipe: UpDownRecipe) -> UpDownRecipe:
    model = replace(recipe.model, words=8, hidden=12, attention=6)
    return replace(recipe, model=model, phases=tuple(replace(p, epochs=1) for p in recipe.phases), min_count=1)


def test_the_verb_trains_several_seeds_and_takes_changes(
    folder: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, store = folder
    sizes = ["--model.words", "8", "--model.hidden", "12", "--model.attention", "6", "--model.branches", "2"]
    where = ["--data", str(data), "--features", str(store), "--out", str(tmp_path / "run"), "--seeds", "2"]
    phases = ["--phases.0.epochs", "1"]
    assert cli.run(["train", "updown-small", *where, *sizes, *phases, "--min-count", "1"]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["CIDEr"]["seeds"] == 2
    for seed in (0, 1):
        model = Captioner.from_pretrained(tmp_path / "run" / f"seed-{seed}")
        assert model.network.config.branches == 2
        recipe = json.loads((tmp_path / "run" / f"seed-{seed}" / "recipe.json").read_text())
        assert recipe["seed"] == seed
        card = (tmp_path / "run" / f"seed-{seed}" / "README.md").read_text()
        assert "no boxes" in card
        assert json.loads((tmp_path / "run" / f"seed-{seed}" / "metrics.json").read_text())["best_epoch"] == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "± " in said.err
    assert "epoch 1/1: CIDEr" in said.err
    assert said.err.count("words: cross-entropy of the caption's words") == 2  # once for each seed
    assert "None" not in said.err


def test_a_finished_run_of_version_01_is_not_trained_again(
    folder: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, store = folder
    sizes = ["--model.words", "8", "--model.hidden", "12", "--model.attention", "6", "--phases.0.epochs", "1"]
    args = ["train", "updown-small", "--data", str(data), "--features", str(store), "--out", str(tmp_path), *sizes]
    assert cli.run(args) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    old = json.dumps({"epoch": metrics["best_epoch"] - 1, "validation": metrics["validation"]})
    (tmp_path / "metrics.json").write_text(old)
    capsys.readouterr()
    assert cli.run(args) == 0
    assert (tmp_path / "metrics.json").read_text() == old
    assert "best epoch 1, CIDEr" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cyclical-zero-loss-small", "distributed-attention-small"])
def test_recipes_run_from_a_folder(folder: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    data, store = folder
    recipe = quick(UPDOWN_RECIPES[name])
    run_recipe(recipe, TrainingData.from_folder(data, FeatureStore(store)), tmp_path)
    captioner = Captioner.from_pretrained(tmp_path)
    assert captioner.generation.branches is None
    ((caption, *_),) = captioner.decode([FeatureStore(store)["val-0.png"]])
    assert len(caption.words) <= recipe.max_words


def test_weak_supervision_stays_weak(folder: tuple[Path, Path], tmp_path: Path) -> None:
    """Scenes have boxes, but only a supervised recipe is given any; pairs have none to give."""
    data, store = folder
    found = TrainingData.from_folder(data, FeatureStore(store))
    with pytest.raises(DeixisError, match="boxes"):
        run_recipe(quick(UPDOWN_RECIPES["supervised-small"]), found, tmp_path)


def test_supervision_takes_the_boxes_of_head_nouns(tmp_path: Path) -> None:
    eyes = named_extractor("tiny", "grid")
    samples = [make_scene(0, i, size=96) for i in range(3)]
    regions = {s.image_id: eyes.extract(s.open()) for s in samples}
    extractor = eyes.to_json()
    data = TrainingData(samples, samples, regions, extractor, "scenes")
    run_recipe(quick(UPDOWN_RECIPES["supervised-small"]), data, tmp_path)
    line = json.loads((tmp_path / "log.jsonl").read_text())
    assert line["losses"]["attention"] > 0
    assert set(line["scores"]) == {"CIDEr", "BLEU-4", "F1_all", "F1_loc"}  # validation images have boxes


def test_region_classes_are_learnt_from_boxes(tmp_path: Path) -> None:
    eyes = named_extractor("tiny", "grid")
    samples = [make_scene(0, i, size=96) for i in range(6)]
    regions = {s.image_id: eyes.extract(s.open()) for s in samples}
    data = TrainingData(samples, samples, regions, eyes.to_json(), "scenes")
    recipe = quick(UPDOWN_RECIPES["gvd-supervised-small"])
    run_recipe(recipe, data, tmp_path)
    losses = json.loads((tmp_path / "log.jsonl").read_text())["losses"]
    assert min(losses["attention"], losses["classes"], losses["grounding"]) > 0
    names = class_names(recipe, data)
    assert names[0] == "__background__"
    assert Captioner.from_pretrained(tmp_path).network.config.classes == len(names)
    examples = prepare(
        recipe, samples, Vocabulary.build(c.tokens for s in samples for c in s.captions), names, object_classes(data)
    )
    labels = {target.label for example in examples for target in example.targets or ()}
    assert max(labels) >= 1
    for example, sample in zip(examples, samples, strict=True):
        for target in example.targets or ():
            phrases = sample.captions[target.caption].phrases
            classes = {
                p.types[0] for p in phrases if p.start <= target.word < p.end
            }  # scenes have classes of their own
            assert {names[target.label]} == classes


def test_a_run_stopped_in_the_first_phase_speaks_with_the_trained_branch_only(
    folder: tuple[Path, Path], tmp_path: Path
) -> None:
    data, store = folder
    recipe = quick(UPDOWN_RECIPES["distributed-attention-small"])
    found = TrainingData.from_folder(data, FeatureStore(store))

    class Stopped(Exception): ...

    def stop(epoch: int, scores: object, better: bool) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        run_recipe(recipe, found, tmp_path, Callbacks(validated=stop))
    model = Captioner.from_pretrained(tmp_path)
    assert (model.network.config.branches, model.generation.branches) == (4, 1)
    ((caption, *_),) = model.decode([FeatureStore(store)["val-0.png"]])
    assert caption.trace.attention.shape[1] == 1
    run_recipe(recipe, found, tmp_path)
    assert Captioner.from_pretrained(tmp_path).generation.branches is None


def test_features_that_do_not_belong_are_told(folder: tuple[Path, Path], tmp_path: Path) -> None:
    data, _ = folder
    eyes = named_extractor("tiny", "grid")
    with StoreWriter(tmp_path / "other", Contents(eyes.name, eyes.description, eyes.backbone.classes)) as store:
        store.add("somebody-else", eyes.extract(make_scene(0, 0, size=96).open()))
    found = TrainingData.from_folder(data, FeatureStore(tmp_path / "other"))
    with pytest.raises(DeixisError, match="deixis features"):
        run_recipe(quick(UPDOWN_RECIPES["updown-small"]), found, tmp_path)
