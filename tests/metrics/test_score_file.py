"""Scores go to a file and come back unchanged; a file that does not add up is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.metrics.score import Score, load_scores, make_score, mean_score, save_scores, signature


def two_scores() -> list[Score]:
    ids = ("1", "2", "photo é")
    rate = make_score("rate", ids, [0.5, 0.25, 0.0], [[1, 2], [0.25, 1], [0, 0]], "mean", signature(split="test"))
    return [rate, mean_score("mean", ids, [1.0, np.nan, 0.1], signature(split="test", iou=">.5"))]


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    scores = two_scores()
    save_scores(path, scores, {"reference": "x", "seed": 3})
    back, meta = load_scores(path)
    assert meta == {"reference": "x", "seed": 3}
    assert list(back) == ["rate", "mean"]
    for score in scores:
        again = back[score.name]
        assert (again.value, again.signature, again.ids, again.rule) == (
            score.value,
            score.signature,
            score.ids,
            score.rule,
        )
        np.testing.assert_array_equal(again.items, score.items)
        np.testing.assert_array_equal(again.stats, score.stats)
    assert len(json.loads(path.read_text())["ids"]) == 1  # shared by both scores
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_mean_leaves_out_items_without_a_value() -> None:
    score = two_scores()[1]
    assert score.value == pytest.approx(0.55)
    assert str(score).startswith("mean = 0.5500 | split:test|iou:>.5|v")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("value", 0.9, "does not follow"),
        ("places", [0, 1, 0, 2], "do not fit"),
        ("places", [-1, 1, 0, 1], "do not fit"),
        ("starts", [0, 3, 2, 4], "do not fit"),
        ("values", [1, 2, 1], "do not fit"),
        ("values", ["x", 2, 1, 1], "sound"),
        ("items", [0.5], "do not fit"),
        ("columns", 2**40, "too large"),
        ("ids", 4, "sound"),
        ("ids", -1, "list of ids"),
        ("rule", "magic", "does not know"),
        ("name", "mean", "occurs twice"),
        ("name", None, "not a string"),
    ],
)
def test_a_tampered_file_is_refused_and_named(tmp_path: Path, field: str, value: object, reason: str) -> None:
    path = tmp_path / "a.json"
    save_scores(path, two_scores(), {})
    document = json.loads(path.read_text())
    document["scores"][0][field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DeixisError, match=reason) as caught:
        load_scores(path)
    assert "a.json" in str(caught.value)


@pytest.mark.parametrize("text", ["{}", "[1]", "{", '{"format": "deixis-scores-1"}', ""])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DeixisError, match=r"a\.json"):
        load_scores(path)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="deixis score"):
        load_scores(tmp_path / "none.json")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="cannot be written"):
        save_scores(tmp_path / "no" / "a.json", two_scores(), {})
