"""Teachers and reward models: matchers that a captioner learns with, from folders or trained first."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis import DeixisError
from deixis.boxes import iou
from deixis.data.scenes import make_scene
from deixis.language.parse import parse
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_regions
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.recipes import SCAN_RECIPES, ScanRecipe
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.recipes import UPDOWN_RECIPES, UpDownRecipe, with_cycle, with_reward, with_teacher
from deixis.runs import teachers
from deixis.runs.run import InitFrom, run_recipe
from deixis.runs.teachers import TranslatedMatcher
from deixis.training.data import TrainingData
from deixis.vision.extractor import named_extractor


@pytest.fixture(scope="module")
def data() -> TrainingData:
    """Eight made pictures and their features by the tiny network."""
    eyes = named_extractor("tiny", "grid")
    samples = [make_scene(0, i, size=96) for i in range(8)]
    regions = {s.image_id: eyes.extract(s.open()) for s in samples}
    return TrainingData(samples[:6], samples[6:], regions, eyes.to_json(), "scenes")


@pytest.fixture(scope="module")
def matcher(data: TrainingData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """POS-SCAN, hardly trained, with a vocabulary of its own."""
    recipe = SCAN_RECIPES["pos-scan-small"]
    recipe = replace(
        recipe, model=replace(recipe.model, words=6, embed=8), phases=(replace(recipe.phases[0], epochs=1),)
    )
    return run_recipe(recipe, data, tmp_path_factory.mktemp("matcher"))


UPDOWN, DISTRIBUTED = UPDOWN_RECIPES["updown-small"], UPDOWN_RECIPES["distributed-attention-small"]


def quick(recipe: UpDownRecipe) -> UpDownRecipe:
    model = replace(recipe.model, words=8, hidden=12, attention=6)
    return replace(recipe, model=model, phases=tuple(replace(p, epochs=1) for p in recipe.phases), min_count=1)


def losses(run: Path) -> list[dict[str, float]]:
    return [json.loads(line)["losses"] for line in (run / "log.jsonl").read_text().splitlines()]


def test_a_matcher_takes_the_word_ids_of_the_captioner(data: TrainingData, matcher: Path) -> None:
    """The same answer as the matcher gives in its own words, and nouns by what words mostly are."""
    grounder = ScanGrounder.from_pretrained(matcher, backend="torch")
    caption = data.training[0].captions[0]
    grammar = parse([caption.text])
    ours = Vocabulary.build([["zebra", *caption.tokens]], minimum=1)
    assert ours.words != grounder.vocabulary.words
    translated = TranslatedMatcher(grounder, ours, grammar)
    regions = data.regions[data.training[0].image_id]
    words = torch.tensor(ours.encode(caption.tokens)).view(1, 1, -1)
    looks = translated.attention(pad_regions([regions]), words)
    expected = grounder.align(grounder.encode([regions])[0], grammar)[0][0]
    torch.testing.assert_close(looks[0, 0, :-1], torch.from_numpy(expected))  # without the end
    score = translated.match(pad_regions([regions]), words)
    assert score.item() == pytest.approx(grounder.scores([regions], [caption.text]).item(), abs=1e-5)
    assert not any(parameter.requires_grad for parameter in translated.matcher.parameters())


def test_a_sharper_target_and_votes(data: TrainingData, matcher: Path) -> None:
    """The teacher's attention with another temperature, and the shares of the votes of its regions."""
    caption = data.training[0].captions[0]
    grammar = parse([caption.text])
    vocabulary = Vocabulary.build([caption.tokens], minimum=1)
    regions = pad_regions([data.regions[data.training[0].image_id]])
    words = torch.tensor(vocabulary.encode(caption.tokens)).view(1, 1, -1)

    def attention(**options: Any) -> Tensor:
        grounder = ScanGrounder.from_pretrained(matcher, backend="torch")
        return TranslatedMatcher(grounder, vocabulary, grammar, **options).attention(regions, words)

    plain, sharp = attention(), attention(temperature=27.0)
    cubed = plain.double() ** 3  # softmax(27 s) is softmax(9 s) ** 3, normalised
    torch.testing.assert_close(sharp.double(), cubed / cubed.sum(-1, keepdim=True), atol=1e-5, rtol=1e-3)
    voted = attention(target="vote")
    boxes, weights = regions.boxes[0].double().numpy(), plain[0, 0, 0].double().numpy()
    counts = np.sqrt(iou(boxes, boxes)).T @ np.sqrt(weights)
    np.testing.assert_allclose(voted[0, 0, 0].numpy(), counts / counts.sum(), atol=1e-5)


def test_the_teacher_is_in_no_model(data: TrainingData, matcher: Path, tmp_path: Path) -> None:
    run_recipe(quick(with_teacher(UPDOWN, "pos-scan")), data, tmp_path, init=InitFrom(teacher=matcher))
    assert losses(tmp_path)[0]["distil"] > 0
    plain = run_recipe(quick(UPDOWN), data, tmp_path / "plain")
    taught = Captioner.from_pretrained(tmp_path).network.state_dict()
    untaught = Captioner.from_pretrained(plain)
    assert set(taught) == set(untaught.network.state_dict())
    assert untaught.ood is not None
    assert not untaught.ood.is_ood(data.regions[data.training[0].image_id])
    assert str(matcher) in (tmp_path / "README.md").read_text()


def test_a_matcher_that_is_not_given_is_trained_first(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A teacher and, by another recipe, a reward model; the second time they are found."""

    def tiny(recipe: ScanRecipe) -> ScanRecipe:
        phases = (replace(recipe.phases[0], epochs=1),)
        return replace(recipe, model=replace(recipe.model, words=6, embed=8), phases=phases)

    small = {name: tiny(recipe) for name, recipe in SCAN_RECIPES.items() if name.endswith("-small")}
    monkeypatch.setattr(teachers, "SCAN_RECIPES", small)
    recipe = quick(with_reward(with_cycle(with_teacher(DISTRIBUTED, "pos-scan")), "scan"))
    recipe = replace(recipe, self_critical=replace(recipe.self_critical, consistency=0.5))
    run_recipe(recipe, data, tmp_path)
    assert ScanGrounder.from_pretrained(tmp_path / "teacher").network.config.count == "nouns"
    assert ScanGrounder.from_pretrained(tmp_path / "reward-model").network.config.count == "all"
    first, second, third = losses(tmp_path)
    assert set(first) == {"words", "distil"}
    assert set(second) == {"decode", "reconstruct", "distil"}
    assert {"reward-cider", "reward-match", "reward-consistency"} < set(third)
    assert 0 < third["reward-consistency"] < 1
    before = (tmp_path / "teacher" / "weights.safetensors").stat().st_mtime_ns
    run_recipe(recipe, data, tmp_path)
    assert (tmp_path / "teacher" / "weights.safetensors").stat().st_mtime_ns == before


def test_one_matcher_may_be_teacher_and_reward_model(data: TrainingData, matcher: Path, tmp_path: Path) -> None:
    recipe = quick(with_reward(with_teacher(UPDOWN, "pos-scan"), "pos-scan"))
    run_recipe(recipe, data, tmp_path, init=InitFrom(teacher=matcher))
    assert not (tmp_path / "reward-model").exists()
    assert "reward-match" in losses(tmp_path)[1]


def test_a_run_may_begin_from_a_captioner(data: TrainingData, tmp_path: Path) -> None:
    """Only the self-critical phase is run, from those weights and with those words."""
    start = run_recipe(replace(quick(UPDOWN), min_count=3), data, tmp_path / "start")
    recipe = quick(with_reward(UPDOWN))
    frozen = replace(recipe, phases=tuple(replace(p, lr=1e-30) for p in recipe.phases))
    run_recipe(frozen, data, tmp_path / "run", init=InitFrom(model=start))
    assert len(losses(tmp_path / "run")) == 1
    first, second = (Captioner.from_pretrained(tmp_path / name, backend="torch") for name in ("start", "run"))
    assert first.vocabulary == second.vocabulary
    weights: dict[str, Tensor] = second.network.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in first.network.state_dict().items())


def test_what_does_not_fit_is_told(data: TrainingData, matcher: Path, tmp_path: Path) -> None:
    start = run_recipe(quick(UPDOWN), data, tmp_path / "start")
    others = replace(data, extractor={**data.extractor, "name": "other eyes"})
    critic = quick(with_reward(UPDOWN))
    with pytest.raises(DeixisError, match="other eyes"):
        run_recipe(quick(with_teacher(UPDOWN, "pos-scan")), others, tmp_path / "a", init=InitFrom(teacher=matcher))
    with pytest.raises(DeixisError, match="other eyes"):
        run_recipe(critic, others, tmp_path / "b", init=InitFrom(model=start))
    wider = replace(critic, model=replace(critic.model, hidden=16))
    with pytest.raises(DeixisError, match=r"hidden \(kept 12, asked 16\)"):
        run_recipe(wider, data, tmp_path / "c", init=InitFrom(model=start))
    with pytest.raises(DeixisError, match="no phase of this run uses --teacher"):
        run_recipe(quick(UPDOWN), data, tmp_path / "d", init=InitFrom(teacher=matcher))
    with pytest.raises(DeixisError, match="another --teacher"):
        run_recipe(quick(with_teacher(UPDOWN, "scan")), data, tmp_path / "g", init=InitFrom(teacher=matcher))
    with pytest.raises(DeixisError, match="Remove --init-from"):
        run_recipe(SCAN_RECIPES["scan-small"], data, tmp_path / "e", init=InitFrom(model=start))
    with pytest.raises(DeixisError, match="matcher"):
        run_recipe(quick(with_teacher(UPDOWN, "scan")), data, tmp_path / "f", init=InitFrom(teacher=start))
