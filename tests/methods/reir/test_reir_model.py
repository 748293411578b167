"""The grounder that people call, and its verb."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import DeixisError, cli
from deixis.boxes import contains
from deixis.calibration import Calibration, auc, fit
from deixis.language.vocabulary import Vocabulary
from deixis.localize.points import centre_of_maximum
from deixis.methods.reir.model import ReirGrounder, alone
from deixis.methods.reir.network import Matched, ReirConfig, ReirNet
from deixis.pipelines.load import load_finder
from deixis.vision.extractor import named_extractor

VOCABULARY = Vocabulary.build([["a", "man", "dog", "in", "red", "hat", "on", "the"]], minimum=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A grounder that has learnt nothing, and a photograph."""
    root = tmp_path_factory.mktemp("grounder")
    eyes = named_extractor("tiny", "grid", 20)
    pixels = np.random.default_rng(0).integers(0, 255, (60, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(root / "photo.png")
    features = eyes.extract(pixels).features.shape[1]
    torch.manual_seed(0)
    sizes = {"words": 6, "width": 8, "hidden": 8, "names": "none"}
    refiner = ReirNet(ReirConfig(vocabulary=len(VOCABULARY), features=features, **sizes))
    extractor = eyes.to_json()
    ReirGrounder(refiner, VOCABULARY, extractor, "a name", Calibration(0.5, 0.25)).save_pretrained(root / "model")
    return root / "model", root / "photo.png"


def test_phrases_of_a_list_are_looked_for_one_by_one(folder: tuple[Path, Path]) -> None:
    grounder = ReirGrounder.from_pretrained(folder[0])
    both = grounder.ground(folder[1], ["A man in a red hat!", "the dog"])
    assert [one.text for one in both] == ["A man in a red hat!", "the dog"]
    assert [(one.start, one.end) for one in both] == [(0, 6), (0, 2)]
    (single,) = grounder.ground(str(folder[1]), ["the dog"])
    np.testing.assert_allclose(single.box, both[1].box, atol=1e-3)
    for one in both:
        x1, y1, x2, y2 = one.box
        assert 0 <= x1 < x2 <= 90
        assert 0 <= y1 < y2 <= 60
        assert 0 < one.score < 1
        assert one.heat is not None
        assert one.heat.size == (90, 60)
        assert one.point == centre_of_maximum(one.heat)
    assert grounder.ground(folder[1], []) == []


def test_the_heat_is_that_of_the_coarse_attention(folder: tuple[Path, Path]) -> None:
    """Wherever the attention is put, there the grounder points."""
    grounder = ReirGrounder.from_pretrained(folder[0])
    regions = grounder.eyes.look(folder[1])
    real = grounder.refiner.forward
    for best in (1, 7, 15):
        alone = torch.zeros(len(regions))
        alone[best] = 1

        def forward(*args: object, alone: torch.Tensor = alone) -> Matched:
            matched = real(*args)
            return replace(matched, attention=alone.expand_as(matched.attention))

        grounder.refiner.forward = forward
        (found,) = grounder.ground(regions, ["the dog"])
        assert contains(regions.boxes[best], found.pointing())


def test_the_phrases_of_a_caption_are_found_and_related(folder: tuple[Path, Path]) -> None:
    grounder = ReirGrounder.from_pretrained(folder[0])
    seen = []
    real = grounder.refiner.forward
    grounder.refiner.forward = lambda *args: seen.append(args[1].related) or real(*args)
    found = grounder.ground(folder[1], "A man in a red hat.")
    assert [(one.text, one.start, one.end) for one in found] == [("a man", 0, 2), ("a red hat", 3, 6)]
    assert seen[0].tolist() == [[[False, True], [True, False]]]
    with pytest.raises(DeixisError, match="no noun phrase"):
        grounder.ground(folder[1], "quickly")
    with pytest.raises(DeixisError, match="no words"):
        alone(", .")


def test_it_comes_back_as_it_was(folder: tuple[Path, Path]) -> None:
    grounder = load_finder(folder[0])
    assert isinstance(grounder, ReirGrounder)
    assert grounder.calibration == Calibration(0.5, 0.25)
    assert grounder.name == "a name"


def test_other_models_are_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, "kind": "captioner"}))
    with pytest.raises(DeixisError, match="does not hold a matcher or grounder"):
        load_finder(tmp_path)
    with pytest.raises(DeixisError, match="not a folder"):
        load_finder(tmp_path / "nothing")


def test_the_verb(folder: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, photo = map(str, folder)
    drawn = tmp_path / "found.png"
    assert cli.run(["ground", photo, "a man", "the dog", "--model", model, "--json", "--draw", str(drawn)]) == 0
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert [line["phrase"] for line in lines] == ["a man", "the dog"]
    assert {line["image"] for line in lines} == {photo}
    assert set(lines[0]) == {"image", "phrase", "box", "point", "score", "model", "heat"}
    assert Image.open(drawn).size[0] >= 90
    assert cli.run(["ground", photo, "--caption", "a man in a red hat", "--model", model]) == 0
    said = capsys.readouterr()
    assert [line.split("  ")[0] for line in said.out.splitlines()] == ["phrase", "a man", "a red hat"]
    assert said.err == ""
    assert cli.run(["ground", photo, "a man", "--model", model, "--least", "1.1", "--json"]) == 0
    assert capsys.readouterr().out == ""


def test_the_verb_says_what_is_wrong(folder: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    model, photo = map(str, folder)
    assert cli.run(["ground", photo, "--model", model]) == 2
    assert "--caption" in capsys.readouterr().err
    assert cli.run(["ground", photo, "a dog", "--model", photo]) == 1
    assert "it is not a folder, and the package has" in capsys.readouterr().err
    assert cli.run(["ground", photo, "a dog", "--model", model, "--draw", "nowhere/x.png"]) == 1
    assert "nowhere/x.png cannot be written" in capsys.readouterr().err


# Calibration --------------------------------------------------------------------------------------------------------


def test_calibration_finds_the_curve_behind_the_numbers() -> None:
    random = np.random.default_rng(0)
    evidence = random.normal(2, 3, 40_000)
    chance = 1 / (1 + np.exp(-(0.8 * evidence - 1.5)))
    there = random.random(len(evidence)) < chance
    curve = fit(evidence[there], evidence[~there])
    assert curve.slope == pytest.approx(0.8, abs=0.05)
    # both sides are taken to be as likely as each other: the offset moves by the log of their ratio
    assert curve.offset == pytest.approx(-1.5 - np.log(there.sum() / (~there).sum()), abs=0.1)
    assert curve(-1e6) == 0
    assert curve(1e6) == 1


def test_calibration_where_there_is_little_to_learn() -> None:
    apart = fit([1.0, 2.0], [-1.0, -2.0])
    assert np.isfinite(apart.slope)
    assert apart(1.5) > 0.9 > 0.1 > apart(-1.5)
    assert fit([], [1.0]) == Calibration()
    assert fit([1.0, 1.0], [2.0, 3.0]) == Calibration()  # evidence against
    assert Calibration()(7.0) == 0.5


def test_auc_by_hand() -> None:
    assert auc([3, 2], [1, 0]) == 1
    assert auc([0], [1, 2]) == 0
    assert auc([1, 1], [1]) == 0.5
    assert auc([3, 1], [2, 0]) == 0.75
    with pytest.raises(ValueError, match="nothing"):
        auc([], [1])
