"""``deixis models``: what is on this machine, from the package and from folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from deixis import cli
from deixis.pipelines.models import model_names


def listed(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, dict[str, object]]:
    assert cli.run(["models", *args, "--json"]) == 0
    return {record["model"]: record for record in map(json.loads, capsys.readouterr().out.splitlines())}


def test_models_of_the_package_of_runs_and_of_folders_are_listed_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(model, tmp_path / "runs" / "mine" / "seed-1")
    shutil.copytree(model, tmp_path / "other")
    (tmp_path / "other" / "weights.safetensors").unlink()  # training has only begun
    (tmp_path / "runs" / "something").mkdir()
    (tmp_path / "runs" / "something" / "config.json").write_text('{"kind": "no model"}')
    (tmp_path / "runs" / "damaged").mkdir()
    (tmp_path / "runs" / "damaged" / "config.json").write_text("{")
    found = listed(capsys, "other", "runs/mine/seed-1")
    assert list(found) == [*model_names(), "other", "runs/mine/seed-1"]
    mine = found["runs/mine/seed-1"]
    assert (mine["kind"], mine["recipe"], mine["split"]) == ("captioner", "a-recipe", "validation")
    assert mine["supervision"] == "photographs with captions, no boxes"
    assert mine["scores"] == {"CIDEr": 0.5, "F1_all": 0.02}
    assert mine["bytes"] == (model / "weights.safetensors").stat().st_size
    assert found["other"]["bytes"] == 0
    shipped = found["deixis-base"]
    assert shipped["split"] == "test"
    assert isinstance(shipped["scores"], dict)
    assert shipped["scores"]["CIDEr"] > 0


def test_people_get_a_table(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.run(["models", str(model)]) == 0
    out = capsys.readouterr().out
    assert "deixis-base" in out
    assert "validation: CIDEr 0.500, F1_all 0.020" in out
    monkeypatch.delenv("COLUMNS")  # a pipe: nothing is cut off
    assert cli.run(["models", str(model)]) == 0
    assert any(str(model) in line and "F1_all 0.020" in line for line in capsys.readouterr().out.splitlines())
    assert cli.run(["models", str(tmp_path / "nothing")]) == 1
    assert "nothing is not a folder" in capsys.readouterr().err
