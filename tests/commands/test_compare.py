"""``deixis compare`` on files that ``save_scores`` wrote."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.cli import run
from deixis.metrics.bleu import bleu
from deixis.metrics.retrieval import retrieval
from deixis.metrics.score import mean_score, save_scores

IDS = [str(number) for number in range(60)]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    generator = np.random.default_rng(0)
    values = generator.random(60)
    similarities = generator.normal(size=(60, 60)) + 2 * np.eye(60)
    references = {image: [list("abcdefg")] for image in IDS}
    captions = {"a": list("abcd"), "b": list("abcdef")}
    for name, shift in (("a", 0.0), ("b", 0.2)):
        scores = [
            mean_score("accuracy", IDS, values + shift * generator.random(60), "iou:.5"),
            *bleu(dict.fromkeys(IDS, captions[name]), references),
            *retrieval(similarities + shift * generator.normal(size=(60, 60)), IDS, captions_per_image=1),
        ]
        if name == "b":
            scores.append(mean_score("extra", IDS, values, "x"))
        save_scores(tmp_path / f"{name}.json", scores, {"predictions": name})
    return str(tmp_path / "a.json"), str(tmp_path / "b.json")


def test_a_table_for_people(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *files, "--n", "500"]) == 0
    out, err = capsys.readouterr()
    row = next(line.split() for line in out.splitlines() if line.startswith("accuracy"))
    assert float(row[2]) - float(row[1]) == pytest.approx(float(row[3]), abs=2e-4)
    assert row[-1] == "*"
    assert any(line.startswith("t2i_median_rank ") for line in out.splitlines())
    assert "only in" in err
    assert "extra" in err
    assert "15 tests: about 0.8 false positives are expected" in err


def test_json_for_programs(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *files, "--n", "500", "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document = json.loads(out)
    assert len(document["scores"]) == 15
    score = document["scores"]["accuracy"]
    low, high = score["difference_interval"]
    assert low <= score["difference"] <= high
    assert score["difference"] == pytest.approx(score["b"] - score["a"])
    assert score["p"] == pytest.approx(1 / 501)
    assert (score["items"], score["signature"]) == (60, "iou:.5")

    assert run(["compare", *files, "--n", "500", "--json", "--quiet"]) == 0
    assert capsys.readouterr().out == out
    assert run(["compare", *files, "--n", "500", "--json", "--quiet", "--seed", "1"]) == 0
    assert capsys.readouterr().out != out


def test_what_cannot_be_compared_exits_with_one(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_scores(tmp_path / "other.json", [mean_score("other", ["1"], [1.0], "x")], {})
    assert run(["compare", files[0], str(tmp_path / "other.json")]) == 1
    assert "no metric in common" in capsys.readouterr().err
    save_scores(tmp_path / "other.json", [mean_score("accuracy", IDS, np.ones(60), "iou:.7")], {})
    assert run(["compare", files[0], str(tmp_path / "other.json")]) == 1
    assert "iou:.7" in capsys.readouterr().err
    assert run(["compare", files[0], str(tmp_path / "none.json")]) == 1
    assert "none.json does not exist" in capsys.readouterr().err
    assert run(["compare", *files, "--n", "5"]) == 2
    assert "--n is 5" in capsys.readouterr().err
