"""``deixis doctor``: a line for everything, and exit code 1 where captioning would fail."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from deixis import DeixisError, cli, installation
from deixis.device import choose
from deixis.metrics import java
from deixis.pipelines import models as pretrained


def findings(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    return {record["name"]: record for record in map(json.loads, capsys.readouterr().out.splitlines())}


def test_here_everything_that_captioning_needs_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "--json"]) == 0
    found = findings(capsys)
    assert all(record["ok"] for record in found.values() if record["needed"])
    assert f"--device auto is {choose()}" in str(found["device"]["text"])
    assert {"torch", "train", "backbone", "backbone of version 1", "deixis-8k", "disk", "Java", "text weights"} <= set(
        found
    )


def test_a_missing_captioner_is_an_error_and_a_missing_extra_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for look in ("_torch", "_selective_search", "_backbone"):  # slow, and seen above
        monkeypatch.setattr(installation, look, lambda: "fine")
    monkeypatch.setattr(installation, "_captioner", lambda: "fine")
    monkeypatch.setattr(installation.shutil, "which", lambda name: None)
    assert cli.run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "optional Java" in out
    assert "Install a Java runtime" in out
    monkeypatch.undo()
    for look in ("_torch", "_selective_search", "_backbone"):
        monkeypatch.setattr(installation, look, lambda: "fine")
    monkeypatch.setattr(pretrained, "PACKAGE", tmp_path)
    assert cli.run(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("missing  deixis-8k") and "does not come with this version" in line for line in lines)


def test_doctor_and_score_give_the_same_reason_for_a_missing_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    captions, references = {"1": ["a", "dog"]}, {"1": [["a", "dog"]]}
    (tmp_path / "spice" / "lib").mkdir(parents=True)
    monkeypatch.setattr(java, "_package", lambda: tmp_path)
    monkeypatch.setattr(java.shutil, "which", lambda name: "/usr/bin/java")
    found = installation.attempt("SPICE", installation._spice)
    assert not found.ok
    assert "stanford-corenlp-3.6.0.jar" in found.text
    with pytest.raises(java.JavaError, match=re.escape(found.text)):
        java.spice(captions, references)
    for name in java.SPICE_PARSER:
        (tmp_path / "spice" / "lib" / name).touch()
    assert installation.attempt("SPICE", installation._spice).ok
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    for name, check, metric in (
        ("METEOR", installation._meteor, java.meteor),
        ("SPICE", installation._spice, java.spice),
    ):
        found = installation.attempt(name, check)
        assert found.text == f"{name} is a Java program, and 'java' is not on the PATH. Install a Java runtime."
        with pytest.raises(java.JavaError, match=re.escape(found.text)):
            metric(captions, references)


def test_little_disk_and_other_faults_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "MIN_FREE", 10**18)
    found = installation.attempt("disk", installation._disk, needed=True)
    assert not found.ok
    assert "Free disk space" in found.text
    assert installation.attempt("x", lambda: 1 / 0).text == "ZeroDivisionError: division by zero. Reinstall deixis."  # type: ignore[arg-type, return-value]
    with pytest.raises(DeixisError, match="pip install no-such-package"):
        installation._installed("no-such-package", "no_such_package")
