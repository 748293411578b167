"""``deixis check`` as people use it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from deixis.pipelines.load import load_finder
from PIL import Image

from deixis import cli
from deixis.language.wordpiece import WordPieces
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.network import AlbefNet

CAPTION = "A man riding a red bike."


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("photo") / "photo.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(file)
    return file


@pytest.fixture(scope="module")
def model(photo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights, made to doubt one of the caption's two phrases and not the other."""
    pieces = WordPieces.build([CAPTION], 1)
    sizes = {"hidden": 8, "heads": 2, "feed": 8, "positions": 16, "text_layers": 1, "fusion_layers": 1}
    eyes = {"patch": 8, "side": 2, "image_hidden": 8, "image_heads": 2, "image_feed": 8, "image_layers": 1}
    torch.manual_seed(0)
    network = AlbefNet(AlbefConfig(vocabulary=len(pieces), **sizes, **eyes, shared=4, map_layer=0))
    network.match.weight.data.normal_()
    pointer = AlbefGrounder(network, pieces, None, "tiny")
    scores = torch.tensor([found.score for found in pointer.ground(photo, CAPTION)], dtype=torch.float64)
    network.match.bias.data[1] -= scores.logit().mean()
    folder = tmp_path_factory.mktemp("model")
    pointer.save_pretrained(folder)
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


def test_doubtful_words_are_marked_without_colour_too(
    model: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["check", str(photo), CAPTION, "--model", str(model), "--draw", str(tmp_path / "out.png")]) == 0
    out, err = capsys.readouterr()
    assert err == f"drawn: {tmp_path / 'out.png'}\n"
    scores = {g.text: g.score for g in AlbefGrounder.from_pretrained(model).ground(photo, CAPTION)}
    assert min(scores.values()) < 0.5 < max(scores.values())  # one of each, or this test shows nothing
    for text, score in scores.items():
        assert (f"?{text}?" in out) == (score < 0.5)
        assert f"{score:4.0%}  {text}" in out
    assert "the whole caption" in out
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.width > 500


def test_what_goes_wrong_is_told(model: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", str(photo), CAPTION, "--model", str(tmp_path)]) == 1
    assert "config.json is not there" in capsys.readouterr().err
    assert cli.run(["check", str(photo), CAPTION, "--model", str(model), "--draw", str(tmp_path / "out.nothing")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_the_model_also_finds_phrases(model: Path, photo: Path) -> None:
    finder = load_finder(model)
    assert finder.name == "tiny"
    assert [g.text for g in finder.ground(photo, ["a man", "a bike"])] == ["a man", "a bike"]


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
