"""Training a matcher: it learns who is who from pairs alone, can be killed, and every recipe takes a step."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis import DeixisError, Regions
from deixis.data.sample import Caption, Sample
from deixis.language.parse import parse
from deixis.language.queries import caption_query, phrase_queries
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.recipes import SCAN_RECIPES, ScanRecipe
from deixis.methods.scan.train import Network, collate, make_pairs, recalls
from deixis.runs.run import run_recipe
from deixis.training.callbacks import Callbacks, Step
from deixis.training.data import TrainingData
from deixis.training.recipe import Schedule
from deixis.vision.extractor import named_extractor

THINGS = ("dog", "cat", "ball", "car", "tree", "boat", "horse", "chair")
EYES = named_extractor("tiny", "grid")


def world(n: int, seed: int = 0) -> tuple[list[Sample], dict[str, Regions]]:
    """Images of two things somewhere in a row of regions, with two captions that name them."""
    random = np.random.default_rng(seed)
    samples, regions = [], {}
    for i in range(n):
        a, b = random.choice(len(THINGS), 2, replace=False)
        places = random.choice(5, 2, replace=False)
        features = random.normal(0, 0.1, (5, len(THINGS))).astype(np.float32)
        features[places, [a, b]] += 1
        boxes = np.stack([[10 * k, 0, 10 * k + 10, 10] for k in range(5)]).astype(np.float32)
        texts = (f"a {THINGS[a]} near a {THINGS[b]}", f"there is a {THINGS[b]} and a {THINGS[a]}")
        captions = tuple(Caption(text, tuple(text.split())) for text in texts)
        name = f"{seed}-{i}"
        samples.append(Sample(name, captions, size=(50, 10)))
        regions[name] = Regions(boxes, features, (50, 10), extractor=EYES.name)
    return samples, regions


def training_data(training_images: int = 60) -> TrainingData:
    training, seen = world(training_images)
    validation, more = world(12, seed=1)
    extractor = EYES.to_json()
    return TrainingData(training, validation, seen | more, extractor, "a made world")


def tiny(name: str = "scan-small", epochs: int = 6, **changes: object) -> ScanRecipe:
    recipe = SCAN_RECIPES[name]
    return replace(
        recipe,
        model=replace(recipe.model, words=12, embed=24),
        phases=tuple(replace(phase, epochs=epochs, lr=0.0) for phase in recipe.phases),
        schedule=Schedule(lr=2e-2, decay=0.9, decay_every=2, clip_norm=2.0),
        batch_images=20,
        min_count=1,
        **changes,
    )


def hits(grounder: ScanGrounder, samples: Sequence[Sample], regions: dict[str, Regions]) -> float:
    """The share of nouns whose box holds the thing: the region with the feature of that name."""
    right = []
    for sample in samples:
        seen = regions[sample.image_id]
        (parsed,) = parse([sample.captions[0].text])
        for found in grounder.ground(grounder.encode([seen])[0], [caption_query(parsed)]):
            truth = seen.boxes[seen.features[:, THINGS.index(found.text.removeprefix("a "))].argmax()]
            right.append(found.box == tuple(truth))
            assert found.point is not None
            assert (truth[0] <= found.point[0] < truth[2]) == right[-1]
    return float(np.mean(right))


@pytest.mark.parametrize("name", ["scan-small", "pos-scan-small"])
def test_it_learns_to_find_and_to_point_from_pairs_alone(name: str, tmp_path: Path) -> None:
    made = training_data(240)  # with a quarter of them, what a seed learns of eight words is luck
    run_recipe(tiny(name, epochs=8), made, tmp_path)
    grounder = ScanGrounder.from_pretrained(tmp_path, backend="torch")
    assert grounder.name == name
    pairs = make_pairs(made.validation, grounder.vocabulary, grounder.network.config.count, 20)
    scores = recalls(grounder.network, pairs, made.regions)
    assert scores["t2i_R@1"] > 0.7  # 1/12 by chance
    assert scores["recall_sum"] == pytest.approx(sum(v for k, v in scores.items() if "R@" in k))
    assert hits(grounder, made.validation, dict(made.regions)) > 0.8  # 1/5 by chance
    here, there = (made.regions[sample.image_id] for sample in made.validation[:2])
    words = set(made.validation[0].captions[0].tokens) - set(made.validation[1].captions[0].tokens)
    things = [f"a {word}" for word in words if word in THINGS]
    queries = phrase_queries(things)
    found = [grounder.ground(photo, queries) for photo in grounder.encode([here, there])]
    sure, unsure = (np.mean([grounding.score for grounding in each]) for each in found)
    assert unsure < 0.5 < sure
    assert "no boxes" in (tmp_path / "README.md").read_text()


class Killed(Exception):
    """Stands for whatever ends a process."""


def test_a_killed_run_ends_with_the_very_same_weights(tmp_path: Path) -> None:
    recipe, made = tiny("pos-scan-small", epochs=1), training_data()
    run_recipe(recipe, made, tmp_path / "whole")

    def die(report: Step) -> None:
        if report.step == 8:  # in the second epoch
            raise Killed

    with pytest.raises(Killed):
        run_recipe(recipe, made, tmp_path / "killed", Callbacks(step=die))
    run_recipe(recipe, made, tmp_path / "killed")
    for file in ("weights.safetensors", "metrics.json", "log.jsonl"):
        assert (tmp_path / "whole" / file).read_bytes() == (tmp_path / "killed" / file).read_bytes()


@pytest.mark.parametrize("name", SCAN_RECIPES)
def test_every_recipe_takes_a_step(name: str) -> None:
    recipe = tiny(name)
    samples, regions = world(6)
    vocabulary = Vocabulary.build((c.tokens for s in samples for c in s.captions), 1)
    network = Network(recipe, replace(recipe.model, vocabulary=len(vocabulary), features=len(THINGS)))
    pairs = make_pairs(samples, vocabulary, recipe.model.count, recipe.max_words)
    for phase in recipe.phases:
        ((name, loss),) = network(phase, collate(pairs, regions), 0.5).items()
        assert name in recipe.loss_terms
        loss.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())


def test_an_unknown_loss_is_refused() -> None:
    recipe = tiny()
    with pytest.raises(DeixisError, match="hardest, all"):
        Network(replace(recipe, phases=(replace(recipe.phases[0], loss="cycle"),)), recipe.model)


def test_pairs_and_batches() -> None:
    samples, regions = world(2)
    vocabulary = Vocabulary.build((c.tokens for s in samples for c in s.captions), 1)
    pairs = make_pairs(samples, vocabulary, "nouns", max_words=4)
    assert [pair.image_id for pair in pairs] == ["0-0", "0-0", "0-1", "0-1"]
    first = samples[0].captions[0].tokens[:4]
    assert pairs[0].words == tuple(vocabulary.encode(first))
    assert pairs[0].counts == (False, False, True, False, False, False)  # "a THING near a", between bos and eos
    batch = collate([pairs[3], pairs[0], pairs[2]], regions)
    assert batch.owner.tolist() == [0, 1, 0]
    assert len(batch.regions.features) == 2
    torch.testing.assert_close(batch.regions.features[0], torch.from_numpy(regions["0-1"].features))
    assert make_pairs(samples, vocabulary, "all", 4)[0].counts == (True,) * 6
