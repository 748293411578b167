"""Training grounders: they learn without boxes, can be killed at any step, and every recipe takes a step."""

import json
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis import DeixisError, Regions
from deixis.data import Caption, Entity, Sample
from deixis.language.queries import phrase_queries
from deixis.language.tokenise import tokens
from deixis.methods.reir import inference, names
from deixis.methods.reir import phrases as phrase_module
from deixis.methods.reir import train as training
from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.recipes import REIR_RECIPES, ReirRecipe
from deixis.methods.reir.train import make_examples, merge_images
from deixis.runs.run import run_recipe
from deixis.training.callbacks import Callbacks, Step
from deixis.training.data import TrainingData
from deixis.training.recipe import Phase, Schedule
from deixis.types import Labels, Phrase

THINGS = ("dog", "cat", "ball", "car", "tree", "house", "boat", "horse")
EXTRACTOR = {"name": "made", "description": {"backbone": {}, "proposals": {}}}


@pytest.fixture(autouse=True)
def made_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text encoder has its own test: here every text has a direction of its own, the same each time."""

    def vectors(texts: list[str]) -> np.ndarray:
        rows = [np.random.default_rng(zlib.crc32(text.split()[-1].encode())).random(384) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(-1, 384) / 12

    names._table.cache_clear()
    for module in (names, inference, phrase_module, training):
        monkeypatch.setattr(module, "text_vectors", vectors)


def sample(image: str, things: list[int], boxes: np.ndarray) -> Sample:
    captions = []
    for first, word, second in ((things[0], "on", things[1]), (things[1], "under", things[0])):
        text = f"a {THINGS[first]} {word} a {THINGS[second]}"
        marked = tuple(
            Phrase(f"a {THINGS[t]}", start, start + 2, entity=str(t)) for t, start in ((first, 0), (second, 3))
        )
        captions.append(Caption(text, tuple(tokens(text)), marked))
    entities = tuple(Entity(str(t), box[None]) for t, box in zip(things, boxes, strict=True))
    return Sample(image, tuple(captions), size=(100, 100), entities=entities)


def world(n: int, seed: int = 0) -> tuple[list[Sample], dict[str, Regions]]:
    """Each image shows two things among noise: a good box of each and three that overlap it, called by their name."""
    random = np.random.default_rng(seed)
    samples, regions = [], {}
    for i in range(n):
        things = random.choice(len(THINGS), 2, replace=False).tolist()
        low = random.random((16, 2)) * 60
        boxes = np.concatenate([low, low + 20], 1)
        features = random.normal(0, 0.3, (16, len(THINGS)))
        names = random.integers(0, len(THINGS), (16, 2))
        truth = []
        for t, thing in enumerate(things):
            corner = random.random(2) * 50
            truth.append(np.concatenate([corner, corner + 35]))
            for k in range(4):
                boxes[4 * t + k] = truth[-1] + (0 if k == 0 else random.uniform(-6, 6, 4))
                features[4 * t + k, thing] += 3 if k == 0 else 2
                names[4 * t + k, 0] = thing
        order = random.permutation(16)
        labels = Labels(names[order], np.full((16, 2), 0.4), THINGS)
        image = f"{seed}-{i}"
        samples.append(sample(image, things, np.array(truth)))
        regions[image] = Regions(
            boxes[order].astype(np.float32),
            features[order].astype(np.float32),
            (100, 100),
            None,
            labels,
            extractor="made",
        )
    return samples, regions


def training_data(training_images: int = 20, validation: int = 6) -> TrainingData:
    train, regions = world(training_images)
    val, more = world(validation, seed=1)
    return TrainingData(train, val, {**regions, **more}, EXTRACTOR, "made")


def tiny(name: str = "reir-small", epochs: int = 1, **changes: object) -> ReirRecipe:
    recipe = REIR_RECIPES[name]
    model = replace(recipe.model, words=8, width=24, hidden=16, dropout=0.1, whiten=min(6, recipe.model.whiten))
    relations = replace(recipe.relations, min_count=1)
    changes = {"batch_images": 8, "min_count": 1, "relations": relations, **changes}
    return replace(recipe, model=model, phases=(Phase(epochs=epochs),), **changes)


@pytest.mark.parametrize("name", REIR_RECIPES)
def test_every_recipe_takes_a_step_and_comes_back(tmp_path: Path, name: str) -> None:
    taught = replace(REIR_RECIPES[name].self_taught, warmup=0.0)
    run_recipe(tiny(name, self_taught=taught), training_data(8, 3), tmp_path)
    losses = json.loads((tmp_path / "log.jsonl").read_text())["losses"]
    model = REIR_RECIPES[name].model
    assert ("boxes" in losses) == (model.regress != "none")
    assert ("relations" in losses) == (REIR_RECIPES[name].relations.weight > 0)
    assert ("reconstruct_fine" in losses) == model.two_stages
    assert all(np.isfinite(list(losses.values())))
    photo = world(1, seed=1)[1]["1-0"]
    (found,) = ReirGrounder.from_pretrained(tmp_path).ground(photo, phrase_queries(["a dog"]))
    assert 0 <= found.box[0] <= found.box[2] <= 100
    card = (tmp_path / "README.md").read_text()
    assert "selected by accuracy on boxes of the validation set" in card
    assert "no boxes" not in card
    assert set(losses) <= set(REIR_RECIPES[name].loss_terms)  # each is explained


class Killed(Exception):
    """Stands for whatever ends a process."""


def dies_at(step: int) -> Callbacks:
    def die(report: Step) -> None:
        if report.step == step:
            raise Killed

    return Callbacks(step=die)


def test_a_run_that_was_killed_ends_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, data = tiny(epochs=2), training_data()
    run_recipe(recipe, data, tmp_path / "whole")
    real = training.train
    monkeypatch.setattr(training, "train", lambda *args, **named: real(*args, **named, save_every=0))
    for step in (2, 4):
        with pytest.raises(Killed):
            run_recipe(recipe, data, tmp_path / "killed", dies_at(step))
    run_recipe(recipe, data, tmp_path / "killed")
    logs = [(tmp_path / name / "log.jsonl").read_text() for name in ("whole", "killed")]
    assert logs[0] == logs[1]
    whole, killed = (ReirGrounder.from_pretrained(tmp_path / name, "torch").network for name in ("whole", "killed"))
    for one, other in zip(whole.state_dict().values(), killed.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_it_learns_where_things_are_and_what_is_not_there(tmp_path: Path) -> None:
    recipe = tiny(epochs=16, schedule=Schedule(lr=1e-2, decay=0.93, decay_every=1, clip_norm=1.0), batch_images=16)
    model = replace(recipe.model, names="none", similarity="network", context=False, whiten=0)
    recipe = replace(recipe, model=model)
    data = training_data(96, 40)
    run_recipe(recipe, data, tmp_path)
    first, *_, last = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert last["losses"]["ranking"] < 0.8 * first["losses"]["ranking"]
    metrics = json.loads((tmp_path / "metrics.json").read_text())["validation"]
    assert metrics["accuracy"] > 0.8
    assert metrics["AUC"] > 0.9
    grounder = ReirGrounder.from_pretrained(tmp_path)
    hits = scores = absent = 0.0
    samples, regions = world(30, seed=2)
    for one in samples:
        shown = [phrase.text for phrase in one.captions[0].phrases]
        other = next(f"a {thing}" for thing in THINGS if f"a {thing}" not in shown)
        *found, missed = grounder.ground(regions[one.image_id], phrase_queries([*shown, other]))
        scores, absent = scores + np.mean([f.score for f in found]), absent + missed.score
        for entity, answer in zip(one.entities, found, strict=True):
            x1, y1, x2, y2 = entity.boxes[0]
            hits += x1 < answer.pointing()[0] < x2 and y1 < answer.pointing()[1] < y2
    assert hits / 60 > 0.8
    assert scores / 30 > 0.7 > 0.3 > absent / 30


def test_weak_supervision_stays_weak(tmp_path: Path) -> None:
    """Without the boxes of the training images the weights are the same."""
    data = training_data(12, 4)
    blind = [replace(one, entities=tuple(replace(e, boxes=e.boxes[:0]) for e in one.entities)) for one in data.training]
    for name, each in (("boxes", data), ("none", replace(data, training=blind))):
        run_recipe(tiny(), each, tmp_path / name)
    one, other = ((tmp_path / name / "weights.safetensors").read_bytes() for name in ("boxes", "none"))
    assert one == other


def test_own_pairs_have_no_boxes_and_no_marks(tmp_path: Path) -> None:
    data = training_data(10, 4)

    def plain(one: Sample) -> Sample:
        return replace(one, captions=tuple(replace(c, phrases=()) for c in one.captions), entities=())

    pairs = replace(data, training=[plain(s) for s in data.training], validation=[plain(s) for s in data.validation])
    assert make_examples(pairs.training, 40) == make_examples(data.training, 40)  # the parser finds the same phrases
    with pytest.raises(DeixisError, match="--monitor"):
        run_recipe(tiny(), pairs, tmp_path / "a")
    run_recipe(tiny(monitor="AUC"), pairs, tmp_path / "b")
    assert "photographs with captions, no boxes" in (tmp_path / "b" / "README.md").read_text()
    assert set(json.loads((tmp_path / "b" / "metrics.json").read_text())["validation"]) == {"AUC"}


def test_a_batch_of_pairs_has_each_image_once() -> None:
    data = training_data(8, 3)
    images = make_examples(data.training, 20)
    pairs = make_examples(data.training, 20, pairs=True)
    assert len(pairs) == sum(len(example.descriptions) for example in images)
    assert merge_images(pairs) == images
