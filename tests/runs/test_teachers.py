"""Teachers and judges: matchers that a captioner learns with, from folders or trained on the way."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from deixis import DeixisError, cli
from deixis.data.scenes import make_scene
from deixis.language.parse import parse
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import pad_regions
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.model import Captioner
from deixis.runs import teachers as guides
from deixis.runs.recipes import CAPTIONERS, MATCHERS, UpDownRecipe
from deixis.runs.run import Given, Material, run_recipe
from deixis.runs.teachers import Guide
from deixis.vision.extractor import named_extractor


@pytest.fixture(scope="module")
def material() -> Material:
    """Eight made pictures and their features by the tiny network."""
    eyes = named_extractor("tiny", "grid")
    samples = [make_scene(0, i, size=96) for i in range(8)]
    regions = {s.image_id: eyes.extract(s.open()) for s in samples}
    return Material(samples[:6], samples[6:], regions, eyes.to_json(), "scenes")


@pytest.fixture(scope="module")
def matcher(material: Material, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """POS-SCAN, hardly trained, with a vocabulary of its own."""
    recipe = MATCHERS["pos-scan-small"]
    recipe = replace(
        recipe, model=replace(recipe.model, words=6, embed=8), phases=(replace(recipe.phases[0], epochs=1),)
    )
    return run_recipe(recipe, material, tmp_path_factory.mktemp("matcher"))


def quick(name: str) -> UpDownRecipe:
    recipe = CAPTIONERS[name]
    model = replace(recipe.model, words=8, hidden=12, attention=6)
    return replace(recipe, model=model, phases=tuple(replace(p, epochs=1) for p in recipe.phases), minimum=1)


def losses(run: Path) -> list[dict[str, float]]:
    return [json.loads(line)["losses"] for line in (run / "log.jsonl").read_text().splitlines()]


def test_a_guide_understands_the_captioners_words(material: Material, matcher: Path) -> None:
    """The same answer as the matcher gives in its own words, and nouns by what words mostly are."""
    aligner = ScanGrounder.from_pretrained(matcher)
    caption = material.training[0].captions[0]
    grammar = parse([caption.text])
    ours = Vocabulary.build([["zebra", *caption.tokens]], minimum=1)
    assert ours.words != aligner.vocabulary.words
    guide = Guide(aligner, ours, grammar)
    regions = material.regions[material.training[0].image_id]
    words = torch.tensor(ours.encode(caption.tokens)).view(1, 1, -1)
    looks = guide.attend(pad_regions([regions]), words)
    expected = aligner.align(regions, grammar)[0][0]
    torch.testing.assert_close(looks[0, 0, :-1], torch.from_numpy(expected))  # without the end
    score = guide.match(pad_regions([regions]), words)
    assert score.item() == pytest.approx(aligner.score(regions, caption.text), abs=1e-5)
    assert not any(parameter.requires_grad for parameter in guide.matcher.parameters())


def test_the_teacher_is_in_no_model(material: Material, matcher: Path, tmp_path: Path) -> None:
    run_recipe(quick("updown+pos-scan-small"), material, tmp_path, given=Given(teacher=matcher))
    assert losses(tmp_path)[0]["distil"] > 0
    plain = run_recipe(quick("updown-small"), material, tmp_path / "plain")
    taught = Captioner.from_pretrained(tmp_path).decoder.state_dict()
    untaught = Captioner.from_pretrained(plain)
    assert set(taught) == set(untaught.decoder.state_dict())
    assert untaught.familiar is not None
    assert not untaught.familiar.is_strange(material.regions[material.training[0].image_id])
    assert str(matcher) in (tmp_path / "README.md").read_text()


def test_a_matcher_that_is_not_given_is_trained_first(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A teacher and, by another recipe, a judge; the second time they are found."""
    trained = []

    def find(name: str) -> object:
        trained.append(name)
        recipe = MATCHERS[name]
        phases = (replace(recipe.phases[0], epochs=1),)
        return replace(recipe, model=replace(recipe.model, words=6, embed=8), phases=phases)

    monkeypatch.setattr(guides, "find", find)
    recipe = quick("distributed-attention+pos-scan+cycle+scst-scan-small")
    recipe = replace(recipe, critic=replace(recipe.critic, consistency=0.5))
    run_recipe(recipe, material, tmp_path)
    assert trained == ["pos-scan-small", "scan-small"]
    assert ScanGrounder.from_pretrained(tmp_path / "teacher").matcher.config.count == "nouns"
    assert ScanGrounder.from_pretrained(tmp_path / "judge").matcher.config.count == "all"
    first, second, third = losses(tmp_path)
    assert set(first) == {"words", "distil"}
    assert set(second) == {"decode", "reconstruct", "distil"}
    assert {"reward-cider", "reward-match", "reward-consistency"} < set(third)
    assert 0 < third["reward-consistency"] < 1
    before = (tmp_path / "teacher" / "weights.safetensors").stat().st_mtime_ns
    run_recipe(recipe, material, tmp_path)
    assert (tmp_path / "teacher" / "weights.safetensors").stat().st_mtime_ns == before


def test_one_matcher_may_teach_and_judge(material: Material, matcher: Path, tmp_path: Path) -> None:
    run_recipe(quick("updown+pos-scan+scst-pos-scan-small"), material, tmp_path, given=Given(teacher=matcher))
    assert not (tmp_path / "judge").exists()
    assert "reward-match" in losses(tmp_path)[1]


def test_a_run_may_begin_from_a_captioner(material: Material, tmp_path: Path) -> None:
    """Only the self-critical phase is run, from those weights and with those words."""
    start = run_recipe(replace(quick("updown-small"), minimum=3), material, tmp_path / "start")
    recipe = quick("updown+scst-cider-small")
    frozen = replace(recipe, phases=tuple(replace(p, rate=1e-30) for p in recipe.phases))
    run_recipe(frozen, material, tmp_path / "run", given=Given(start=start))
    assert len(losses(tmp_path / "run")) == 1
    first, second = (Captioner.from_pretrained(tmp_path / name) for name in ("start", "run"))
    assert first.vocabulary == second.vocabulary
    weights: dict[str, Tensor] = second.decoder.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in first.decoder.state_dict().items())


def test_what_does_not_fit_is_told(material: Material, matcher: Path, tmp_path: Path) -> None:
    start = run_recipe(quick("updown-small"), material, tmp_path / "start")
    others = replace(material, extractor={**material.extractor, "name": "other eyes"})
    critic = quick("updown+scst-cider-small")
    with pytest.raises(DeixisError, match="other eyes"):
        run_recipe(quick("updown+pos-scan-small"), others, tmp_path / "a", given=Given(teacher=matcher))
    with pytest.raises(DeixisError, match="other eyes"):
        run_recipe(critic, others, tmp_path / "b", given=Given(start=start))
    wider = replace(critic, model=replace(critic.model, hidden=16))
    with pytest.raises(DeixisError, match="hidden 12 and not 16"):
        run_recipe(wider, material, tmp_path / "c", given=Given(start=start))
    with pytest.raises(DeixisError, match="no teacher"):
        run_recipe(quick("updown-small"), material, tmp_path / "d", given=Given(teacher=matcher))
    with pytest.raises(DeixisError, match="another --teacher"):
        run_recipe(quick("updown+scan-small"), material, tmp_path / "g", given=Given(teacher=matcher))
    with pytest.raises(DeixisError, match="no captioner"):
        run_recipe(MATCHERS["scan-small"], material, tmp_path / "e", given=Given(start=start))
    with pytest.raises(DeixisError, match="matcher"):
        run_recipe(quick("updown+scan-small"), material, tmp_path / "f", given=Given(teacher=start))


def test_help_tells_what_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["train", "--help"]) == 0
    said = capsys.readouterr().out
    assert "+pos-scan" in said
    assert "distributed-attention+pos-scan+cycle-small" in CAPTIONERS
    assert "distributed-attention+pos-scan+cycle-small" in said
