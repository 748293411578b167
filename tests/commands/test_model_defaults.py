"""``--model`` may be left out where the package has the default model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis import cli
from deixis.pipelines import models
from small_models import small_matcher


def test_ground_uses_the_default_grounder_once_the_package_has_it(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "PACKAGE", tmp_path / "package")
    order = ["ground", str(photos / "0.png"), "a dog", "--json"]
    assert cli.run(order) == 1
    assert "Give --model the folder of a trained model" in capsys.readouterr().err
    small_matcher(name=models.DEFAULT_GROUNDER).save_pretrained(tmp_path / "package" / models.DEFAULT_GROUNDER)
    assert cli.run(order) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "deixis-base-grounder"


def test_a_model_of_another_kind_is_an_error(photos: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["ground", str(photos / "0.png"), "a dog", "--model", str(model)]) == 1
    assert f"{model} writes captions; use deixis caption." in capsys.readouterr().err
    assert cli.run(["caption", str(photos / "0.png"), "--model", "deixis-base-grounder"]) == 1
    assert "deixis-base-grounder grounds phrases; use deixis ground." in capsys.readouterr().err
    assert cli.run(["caption", str(photos / "0.png"), "--model", "deixis-bas"]) == 1
    assert "Did you mean deixis-base?" in capsys.readouterr().err
