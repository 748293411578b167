"""``deixis check``: probabilities of a caption's noun phrases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import cli
from deixis.pipelines.ground import ground
from deixis.pipelines.models import load_grounder
from deixis.pipelines.photo import Photo
from small_models import save_noise, small_fusion

CAPTION = "A man riding a red bike."


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_noise(tmp_path_factory.mktemp("photo") / "photo.png")


@pytest.fixture(scope="module")
def model(photo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights, for which one of the caption's two phrases is absent."""
    fusion = small_fusion([CAPTION], "tiny")
    scores = torch.tensor([one.score for one in ground(Photo(photo), CAPTION, fusion)], dtype=torch.float64)
    fusion.network.match.bias.data[1] -= scores.logit().mean()
    folder = tmp_path_factory.mktemp("model")
    fusion.save_pretrained(folder)
    return folder


def test_json_on_stdout(model: Path, photo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", str(photo), CAPTION, "--model", str(model), "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["image"] == str(photo)
    assert found["words"] == ["a", "man", "riding", "a", "red", "bike"]
    assert [g["word"] for g in found["groundings"]] == ["a man", "a red bike"]
    assert all(np.shape(g["heat"]["grid"]) == (2, 2) for g in found["groundings"])
    low = [g["word"] for g in found["groundings"] if g["score"] < 0.5]
    assert found["doubtful"] == low
    assert 0 < found["match"] < 1
    assert err == ""


def test_absent_phrases_are_marked_without_colour_too(
    model: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["check", str(photo), CAPTION, "--model", str(model), "--draw", str(tmp_path / "out.png")]) == 0
    out, err = capsys.readouterr()
    assert err == f"drawn: {tmp_path / 'out.png'}\n"
    scores = {g.text: g.score for g in ground(Photo(photo), CAPTION, load_grounder(model))}
    assert min(scores.values()) < 0.5 < max(scores.values())  # one of each, or this test shows nothing
    for text, score in scores.items():
        assert (f"?{text}?" in out) == (score < 0.5)
        assert f"{score:4.0%}  {text}{'  probably absent' if score < 0.5 else ''}\n" in out
    assert "the whole caption" in out
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.width > 500


def test_what_goes_wrong_is_told(model: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", str(photo), CAPTION, "--model", str(tmp_path)]) == 1
    assert "is not a model folder: it has no config.json" in capsys.readouterr().err
    assert cli.run(["check", str(photo), CAPTION, "--model", str(model), "--draw", str(tmp_path / "out.nothing")]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("caption", ["", "..."])
def test_a_caption_without_words_is_an_error(
    model: Path, photo: Path, capsys: pytest.CaptureFixture[str], caption: str
) -> None:
    assert cli.run(["check", str(photo), caption, "--model", str(model)]) == 1
    assert "the caption has no words" in capsys.readouterr().err


def test_the_model_also_grounds_phrases(model: Path, photo: Path) -> None:
    grounder = load_grounder(model)
    assert grounder.name == "tiny"
    assert [g.text for g in ground(Photo(photo), ["a man", "a bike"], grounder)] == ["a man", "a bike"]


def test_heat_maps_of_found_phrases_are_drawn(
    model: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heat = tmp_path / "heat.png"
    assert cli.run(["ground", str(photo), "a man", "a bike", "--model", str(model), "--heat", str(heat), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["phrase"] for line in lines] == ["a man", "a bike"]
    assert all("heat" in line for line in lines)
    with Image.open(heat) as drawn:
        assert drawn.width > 500
