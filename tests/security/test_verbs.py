"""Every verb of the command line, with file names that are not UTF-8, have markup or control a terminal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile import HOSTILE, World

from deixis import cli
from deixis.errors import display_name

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def predictions(world: World) -> Path:
    """Captions of the data set's photographs."""
    path = world.root / "predictions.jsonl"
    box = {"word": "dog", "start": 1, "end": 2, "box": [1.0, 2.0, 30.0, 20.0], "score": 0.5}
    record = {"width": 60, "height": 40, "caption": "a dog", "words": ["a", "dog"], "groundings": [box], "model": "[m]"}
    path.write_text("".join(json.dumps({"image": f"[b]{n}.png", **record}) + "\n" for n in (3, 7)))
    return path


def scores(world: World) -> Path:
    path = world.root / "scores.json"
    if not path.exists():
        assert cli.run(["score", str(predictions(world)), "--reference", str(world.data), "--out", str(path)]) == 0
    return path


def trained(world: World) -> list[str]:
    small = ["--model.words", "8", "--model.hidden", "12", "--model.attention", "6", "--phases.0.epochs", "1"]
    where = ["--data", str(world.data), "--features", str(world.store), "--out", str(world.root / "run")]
    return ["updown-small", *where, *small, "--min-count", "1", "--threads", "1"]


def run_folder(world: World) -> Path:
    if not (world.root / "run" / "log.jsonl").exists():
        assert cli.run(["train", *trained(world)]) == 0
    return world.root / "run"


def table_folder(world: World) -> Path:
    folder = world.root / "table"
    folder.mkdir(exist_ok=True)
    (folder / "table.toml").write_text("[rows\n")
    return folder


ARGUMENTS: dict[str, Callable[[World], list[str]]] = {
    "caption": lambda w: [str(w.photos), "--model", str(w.captioner), "--out", str(w.root / "c.jsonl"), "--json"],
    "data check": lambda w: [str(w.data)],
    "data show": lambda w: [str(w.data), "--out", str(w.root / "sheet.png")],
    "features": lambda w: [
        *(str(w.photos), "-o", str(w.root / "more"), "--backbone", "tiny", "--proposals", "grid", "--processes", "1"),
        *("--json", "--verify"),
    ],
    "regions": lambda w: [
        *(str(w.photo), "--backbone", "tiny", "--proposals", "grid", "--draw", str(w.root / "regions.svg"))
    ],
    "proposals": lambda w: [str(w.data), "--proposals", "grid", "--processes", "1"],
    "train": trained,
    "search": lambda w: [str(w.store), "a [dog]", "--model", str(w.grounder)],
    "ground": lambda w: [str(w.photo), "a [dog]", "--model", str(w.grounder), "--draw", str(w.root / "g.png")],
    "import": lambda w: ["scan", str(w.photo), "--out", str(w.root / "imported")],
    "eval": lambda w: [str(w.captioner), "--data", str(w.data), "--features", str(w.store)],
    "check": lambda w: [str(w.photo), "a [dog]", "--model", str(w.grounder)],
    "score": lambda w: [str(predictions(w)), "--reference", str(w.data), "--html", str(w.root / "s.html")],
    "compare": lambda w: [str(scores(w)), str(scores(w)), "--n", "100"],
    "table": lambda w: [str(table_folder(w)), "--only-report"],
    "serve": lambda w: ["--model", str(w.captioner), "--port", "0"],
    "export": lambda w: [str(predictions(w)), "--to", "csv", "--out", str(w.root / "e.csv"), "--images", str(w.data)],
    "report": lambda w: [str(run_folder(w)), "--out", str(w.root / "report.html")],
    "study": lambda w: [
        *(str(predictions(w)), str(predictions(w)), "--images", str(w.data), "--out", str(w.root / "study.sqlite")),
        *("--port", "0"),
    ],
    "models": lambda w: [str(w.root)],
    "doctor": lambda w: [],
    "demo": lambda w: ["--model", str(w.captioner), "--out", str(w.root / "demo")],
    "cache clear": lambda w: [],
}
FAIL = {"proposals", "table", "import"}
"""Verbs that end with an error here: no boxes, a table that is not TOML, weights that are a picture.
The error names the file."""


def test_no_verb_is_left_out() -> None:
    assert ARGUMENTS.keys() == cli.VERBS.keys()


@pytest.mark.parametrize("verb", list(cli.VERBS))
def test_hostile_names_are_no_failure(
    verb: str,
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    if verb == "demo":
        pytest.importorskip("skimage", reason="scikit-image, whose photographs the demo shows, is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("deixis.serve.run.run_app", lambda *args, **kwargs: None)
    arguments = ARGUMENTS[verb](world)
    capsys.readouterr()
    code = cli.run([*verb.split(), *arguments])
    printed = capsys.readouterr()  # the streams of the test refuse surrogates, as a terminal does
    assert code == (1 if verb in FAIL else 0), printed.err
    assert "unexpected error" not in printed.err
    assert not CONTROL.search(printed.out + printed.err)
    if verb in FAIL:
        assert display_name(HOSTILE) in printed.err


def test_an_interrupted_folder_run_resumes(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "captions.jsonl"
    command = ["caption", str(world.photos), "--model", str(world.captioner), "--out", str(out), "--processes", "1"]
    assert cli.run(command) == 0
    before = out.read_bytes()
    assert cli.run(command) == 0
    assert out.read_bytes() == before
    assert "2 of 2 photographs are already captioned" in capsys.readouterr().err


def test_json_gives_names_back(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["ground", str(world.photo), "a dog", "--model", str(world.grounder), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.isprintable() or printed.strip().isprintable()
    assert os.fsencode(json.loads(printed)["image"]) == os.fsencode(world.photo)
