"""``deixis study``: the results, and what is refused."""

import json
import signal
import subprocess
import sys
import urllib.request

import pytest
from PIL import Image

from deixis import cli
from deixis.study.database import Plan, StudyDatabase
from deixis.study.pairs import Pair
from deixis.types import GroundedCaption, Grounding


@pytest.fixture
def database(tmp_path):
    """A study of ten photographs with three words each."""
    box_a, box_b = (0.0, 0.0, 9.0, 9.0), (20.0, 0.0, 30.0, 9.0)
    pairs = [Pair(f"{i // 3}.jpg", f"word{i % 3}", 60, 40, box_a, box_b) for i in range(30)]
    return StudyDatabase.create_or_open(tmp_path / "study.sqlite", Plan("da", "updown", images_each=4), pairs)


def test_results_from_the_command_line(database, capsys):
    assert cli.run(["study", "--results", str(database.path)]) == 0
    assert "has no ratings yet" in capsys.readouterr().err
    for name in ("Ann", "Bob"):
        rater = database.enter(name)
        for _ in range(12):
            database.rate(rater, database.status(rater).turn.item, "equal" if name == "Ann" else "left")
    assert cli.run(["study", "--results", str(database.path), "--json"]) == 0
    said = capsys.readouterr()
    results = json.loads(said.out)
    assert (results["a"], results["b"], results["words_in_study"]) == ("da", "updown", 30)
    assert results["results"]["equal"] == 0.5
    assert results["results"]["agreement"]["ambiguous"] == 1
    assert cli.run(["study", "--results", str(database.path)]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "100.0% ambiguous" in said.out
    assert "Ann (12 of 12), Bob (12 of 12)" in said.out


def predictions(folder, name, model, sentence="a dog", size=(60, 40)):
    words = tuple(sentence.split())
    found = (Grounding(words[-1], (0.0, 0.0, 9.0, 9.0), 0.5, len(words) - 1, len(words)),)
    value = GroundedCaption(words, found, image="1", width=size[0], height=size[1], model=model)
    (folder / name).write_text(json.dumps(value.to_json()))
    return str(folder / name)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sentence": "a cat"}, "no common word with boxes"),
        ({"size": (40, 60)}, "1.jpg has 60 x 40 pixels. Expected 40 x 60"),
    ],
)
def test_predictions_that_do_not_belong_together(tmp_path, capsys, more, reason):
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (60, 40)).save(tmp_path / "photos" / "1.jpg")
    a = predictions(tmp_path, "a.jsonl", "da", **({"size": more["size"]} if "size" in more else {}))
    b = predictions(tmp_path, "b.jsonl", "updown", **more)
    out = tmp_path / "s.sqlite"
    assert cli.run(["study", a, b, "--images", str(tmp_path / "photos"), "--out", str(out)]) == 1
    assert reason in capsys.readouterr().err.replace("\n", " ")
    assert not out.exists()


@pytest.mark.parametrize(
    ("args", "code", "reason"),
    [
        (["a.jsonl", "--images", "."], 2, "two files of predictions"),
        (["a.jsonl", "b.jsonl"], 2, "--images"),
        (["a.jsonl", "b.jsonl", "--images", ".", "--raters-each", "0"], 2, "at least 1"),
        (["a.jsonl", "--results", "s.sqlite"], 2, "Leave them out"),
        (["--results", "none.sqlite"], 1, "does not exist"),
    ],
)
def test_wrong_use_is_explained(capsys, args, code, reason):
    assert cli.run(["study", *args]) == code
    assert reason in capsys.readouterr().err


def test_a_study_is_served_until_a_signal(tmp_path):
    pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (60, 40)).save(tmp_path / "photos" / "1.jpg")
    files = [predictions(tmp_path, f"{model}.jsonl", model) for model in ("da", "updown")]
    options = ["--images", str(tmp_path / "photos"), "--out", str(tmp_path / "s.sqlite"), "--port", "0", "--json"]
    command = [sys.executable, "-m", "deixis.cli", "study", *files, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            ready = json.loads(run.stdout.readline())
            assert ready["study"] == str(tmp_path / "s.sqlite")
            with urllib.request.urlopen(ready["url"], timeout=60) as answer:
                assert "<html" in answer.read().decode()
            run.send_signal(signal.SIGTERM)
            assert run.wait(60) == 0
        finally:
            run.kill()
        said = run.stderr.read()
    assert "1 words of 1 photographs, da against updown" in said
    assert f"ready: {ready['url']}" in said
    assert "--results" in said
    assert StudyDatabase(tmp_path / "s.sqlite").words() == 1
