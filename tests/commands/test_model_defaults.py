"""``--model`` may be left out where the package has the model: its folder being there is all that is needed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis import cli
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.pipelines import load as pretrained
from deixis.vision.extractor import named_extractor


def put_finder(folder: Path) -> None:
    """A small matcher in a folder."""
    torch.manual_seed(0)
    eyes = named_extractor("tiny", "grid")
    vocabulary = Vocabulary.build([["a", "dog", "runs", "ball", "and", "red"]], minimum=1)
    width = eyes.extract(np.zeros((40, 60, 3), dtype=np.uint8)).features.shape[1]
    matcher = ScanNet(ScanConfig(len(vocabulary), width, words=6, embed=8))
    extractor = eyes.to_json()
    ScanGrounder(matcher, vocabulary, extractor, folder.name).save_pretrained(folder)


def test_ground_uses_the_finder_of_the_package_once_it_is_there(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pretrained, "PACKAGE", tmp_path / "package")
    order = ["ground", str(photos / "0.png"), "a dog", "--json"]
    assert cli.run(order) == 1
    assert "give --model the folder of one that was trained" in capsys.readouterr().err
    put_finder(tmp_path / "package" / pretrained.FINDER)
    assert cli.run(order) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "deixis-8k-grounder"


def test_a_model_of_another_kind_is_told(photos: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["ground", str(photos / "0.png"), "a dog", "--model", str(model)]) == 1
    assert "does not hold a matcher or grounder or fusion" in capsys.readouterr().err
    assert cli.run(["caption", str(photos / "0.png"), "--model", "deixis-8"]) == 1
    assert "Did you mean deixis-8k?" in capsys.readouterr().err
