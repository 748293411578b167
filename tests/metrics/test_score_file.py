"""Scores go to a file and come back unchanged; a file that does not add up is refused."""

import importlib
import json
import pkgutil
from pathlib import Path

import numpy as np
import pytest

from deixis import metrics
from deixis.errors import DeixisError
from deixis.metrics.bleu import bleu
from deixis.metrics.score import (
    MODULES_WITH_RULES,
    RULES,
    Score,
    load_scores,
    make_score,
    mean_score,
    pack_scores,
    save_scores,
    signature,
    unpack_scores,
)


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


def test_a_packed_file_is_the_same_whenever_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    save_scores(first, two_scores(), {"seed": 3})
    monkeypatch.setattr("time.time", lambda: 0.0)
    save_scores(second, two_scores(), {"seed": 3})
    assert first.read_bytes() == second.read_bytes()
    back, meta = load_scores(first)
    assert meta == {"seed": 3}
    assert back["rate"].value == two_scores()[0].value


def test_packed_text_gives_the_scores_back_and_damage_is_refused(tmp_path: Path) -> None:
    text = pack_scores(two_scores())
    assert text == pack_scores(two_scores())
    back = unpack_scores(text, tmp_path / "a.jsonl")
    for score in two_scores():
        assert (back[score.name].value, back[score.name].signature) == (score.value, score.signature)
        np.testing.assert_array_equal(back[score.name].stats, score.stats)
    for damaged in (text[:-8], "no base64", pack_scores([])[::-1]):
        with pytest.raises(DeixisError, match=r"a\.jsonl: invalid compressed scores"):
            unpack_scores(damaged, tmp_path / "a.jsonl")


def test_mean_leaves_out_items_without_a_value() -> None:
    score = two_scores()[1]
    assert score.value == pytest.approx(0.55)
    assert str(score).startswith("mean = 0.5500 | split:test|iou:>.5|v")


@pytest.mark.parametrize(
    ("part", "field", "value", "reason"),
    [
        ("scores", "value", 0.9, "the value of rate does not match its items"),
        ("scores", "items", [0.5], "the statistics of rate do not match its items"),
        ("scores", "ids", 4, "invalid score file"),
        ("scores", "ids", -1, "invalid index of ids"),
        ("scores", "table", -1, "invalid index of ids or table"),
        ("scores", "table", 1, "the value of rate does not match its items"),
        ("scores", "rule", "magic", "does not exist in this version"),
        ("scores", "name", "mean", "occurs twice"),
        ("scores", "name", None, "not a string"),
        ("tables", "places", [0, 1, 0, 2], "a table is inconsistent"),
        ("tables", "places", [-1, 1, 0, 1], "a table is inconsistent"),
        ("tables", "starts", [0, 3, 2, 4], "a table is inconsistent"),
        ("tables", "starts", [], "invalid score file"),
        ("tables", "starts", [0, 2, 4], "the statistics of rate do not match its items"),
        ("tables", "values", [1, 2, 1], "a table is inconsistent"),
        ("tables", "values", ["x", 2, 1, 1], "invalid score file"),
        ("tables", "columns", 2**40, "too large"),
    ],
)
def test_a_tampered_file_is_refused_and_named(
    tmp_path: Path, part: str, field: str, value: object, reason: str
) -> None:
    path = tmp_path / "a.json"
    save_scores(path, two_scores(), {})
    document = json.loads(path.read_text())
    document[part][0][field] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DeixisError, match=reason) as caught:
        load_scores(path)
    assert "a.json" in str(caught.value)


def test_scores_of_one_table_share_it_in_the_file(tmp_path: Path) -> None:
    references = {"1": [["a", "dog", "runs", "here"]], "2": [["a", "cat"]]}
    scores = bleu({"1": ["a", "dog"], "2": ["cat"]}, references)
    save_scores(tmp_path / "a.json", scores, {})
    assert len(json.loads((tmp_path / "a.json").read_text())["tables"]) == 1
    back = load_scores(tmp_path / "a.json")[0]
    assert {name: score.value for name, score in back.items()} == {score.name: score.value for score in scores}
    assert len({id(score.stats) for score in back.values()}) == 1


def test_every_rule_is_known_to_the_reader_of_score_files() -> None:
    for module in pkgutil.iter_modules(metrics.__path__):
        importlib.import_module(f"deixis.metrics.{module.name}")
    homes = {getattr(rule, "func", rule).__module__ for rule in RULES.values()}
    assert homes == {"deixis.metrics.score", *(f"deixis.metrics.{module}" for module in MODULES_WITH_RULES)}


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
