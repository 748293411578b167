"""``deixis ground``: boxes of phrases, as a table, as JSON and as pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from deixis import cli
from deixis.calibration import Calibration
from small_models import VOCABULARY, save_noise, small_captioner, small_fusion, small_matcher

ASKED = ["a dog", "a red ball"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A photograph, a matcher for which the two phrases have different scores, and two fusion models."""
    root = tmp_path_factory.mktemp("ground")
    save_noise(root / "photo.png")
    matcher = small_matcher(VOCABULARY)
    matcher.calibration = Calibration(9.0)
    matcher.save_pretrained(root / "matcher")
    small_fusion(["a dog and a red ball"], "pixels").save_pretrained(root / "pixels")
    small_fusion(["a dog and a red ball"], "cells", pixels=False).save_pretrained(root / "cells")
    return root


def order(folder: Path, *more: str, model: str = "matcher") -> list[str]:
    return ["ground", str(folder / "photo.png"), *more, "--model", str(folder / model)]


def records(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_line_of_json_for_each_phrase(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(order(folder, *ASKED, "--json")) == 0
    found = records(capsys)
    assert [one["phrase"] for one in found] == ASKED
    assert {one["image"] for one in found} == {str(folder / "photo.png")}
    assert {one["model"] for one in found} == {"matcher"}
    assert all(one["model_hash"] and one["schema"] == 3 for one in found)
    assert set(found[0]) == {"image", "phrase", "box", "point", "score", "model", "heat", "model_hash", "schema"}


def test_a_table_marks_phrases_that_are_probably_absent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(order(folder, *ASKED, "--json")) == 0
    scores = {str(one["phrase"]): float(str(one["score"])) for one in records(capsys)}
    assert cli.run(order(folder, *ASKED)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    header, *rows = out.splitlines()
    assert header.split() == ["phrase", "score", "x1", "y1", "x2", "y2"]
    for text, row in zip(ASKED, rows, strict=True):
        assert row.startswith(text)
        assert f"{scores[text]:.2f}" in row
        assert ("probably absent" in row) == (scores[text] < 0.5)


def test_a_caption_is_grounded_by_its_noun_phrases(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(order(folder, "--caption", "A dog runs after a red ball.", "--json")) == 0
    assert [one["phrase"] for one in records(capsys)] == ASKED


def test_min_score_leaves_phrases_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(order(folder, *ASKED, "--json")) == 0
    scores = {one["phrase"]: float(str(one["score"])) for one in records(capsys)}
    low, high = sorted(scores, key=lambda text: scores[text])
    assert scores[low] < scores[high]
    limit = (scores[low] + scores[high]) / 2
    assert cli.run(order(folder, *ASKED, "--json", "--min-score", str(limit))) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["phrase"] for line in out.splitlines()] == [high]
    assert f"left out, with a score below {limit:g}: {low} ({scores[low]:.2f})" in err


def test_pictures_of_boxes_and_of_heat(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    boxes, heat = tmp_path / "boxes.png", tmp_path / "heat.png"
    assert cli.run(order(folder, *ASKED, "--draw", str(boxes), "--heat", str(heat))) == 0
    err = capsys.readouterr().err
    for file in (boxes, heat):
        assert f"drawn: {file}" in err
        with Image.open(file) as picture:
            assert picture.width >= 60


def test_maps_of_several_models_side_by_side(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heat, others = tmp_path / "heat.svg", [str(folder / "cells"), str(folder / "matcher")]
    assert cli.run(order(folder, *ASKED, "--heat", str(heat), "--against", *others, model="pixels")) == 0
    drawn = heat.read_text()
    for name in ("pixels", "cells", "matcher"):
        assert drawn.count(f"{name}, score") == len(ASKED)
    assert cli.run(order(folder, *ASKED, "--against", *others)) == 2
    assert "Name its file with --heat" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "rules", "others"),
    [
        ("matcher", ["attention", "vote", "heat"], ["alpha", "threshold"]),
        ("cells", ["heat", "alpha", "threshold"], ["attention", "vote"]),
        ("pixels", ["threshold"], ["heat", "alpha", "attention", "vote"]),
    ],
)
def test_box_rules_of_each_kind_of_model(
    folder: Path, capsys: pytest.CaptureFixture[str], model: str, rules: list[str], others: list[str]
) -> None:
    for rule in rules:
        assert cli.run(order(folder, *ASKED, "--place", rule, "--json", model=model)) == 0
        for one in records(capsys):
            (x1, y1, x2, y2), (x, y) = one["box"], one["point"]  # type: ignore[misc]
            assert x1 <= x <= x2
            assert y1 <= y <= y2
    for rule in others:
        assert cli.run(order(folder, *ASKED, "--place", rule, model=model)) == 1
        assert f"Its --place is {' or '.join(rules)}, not {rule}." in capsys.readouterr().err


def test_a_box_rule_changes_the_boxes_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for rule in ("heat", "threshold"):
        assert cli.run(order(folder, *ASKED, "--place", rule, "--json", model="cells")) == 0
        found[rule] = records(capsys)
    for by_heat, by_threshold in zip(found["heat"], found["threshold"], strict=True):
        assert {name for name in by_heat if by_heat[name] != by_threshold[name]} <= {"box", "point"}
    assert [one["box"] for one in found["heat"]] != [one["box"] for one in found["threshold"]]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ([], 2, "--caption"),
        (["a dog", "--caption", "a dog runs"], 2, "--caption"),
        (["a dog", " "], 2, "a phrase is empty"),
        (["..."], 1, "the phrase '...' has no words"),
        (["--caption", "running fast"], 1, "there is no noun phrase in 'running fast'"),
        (["a dog", "--draw", "nowhere/x.png"], 1, "nowhere/x.png cannot be written"),
    ],
)
def test_errors(folder: Path, capsys: pytest.CaptureFixture[str], args: list[str], code: int, said: str) -> None:
    assert cli.run(order(folder, *args)) == code
    assert said in capsys.readouterr().err


def test_an_unreadable_photograph_is_an_error_before_the_model_is_loaded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("deixis.pipelines.models.load_grounder", lambda *_: pytest.fail("loaded"))
    (tmp_path / "photo.png").write_bytes(b"nothing")
    assert cli.run(["ground", str(tmp_path / "photo.png"), "a dog"]) == 1
    assert "cannot be read as an image" in capsys.readouterr().err


def test_a_picture_of_words_in_several_models(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_captioner(name="writer").save_pretrained(tmp_path / "writer")
    words, models = tmp_path / "words.svg", [str(tmp_path / "writer"), str(folder / "matcher")]
    asked = ["--caption", "a dog and a ball", "--words", str(words), "--against", *models]
    assert cli.run(order(folder, *asked, model="matcher")) == 0
    drawn = words.read_text()
    assert all(text in drawn for text in ("writer", "matcher", "dog:", "ball:"))
    capsys.readouterr()
    assert cli.run(order(folder, "a dog", "--words", str(words), model="matcher")) == 2
    assert "Give it with --caption" in capsys.readouterr().err
