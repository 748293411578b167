"""Verdicts on claims: the rule, preconditions, seeds in common, the page, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deixis import DeixisError, cli
from deixis.evaluation.claims import decide, judge, read_claims, write_verdicts
from deixis.evaluation.tables.describe import Experiment, Run, read_experiment
from deixis.evaluation.tables.kept import KeptRun, keep_run, read_kept
from deixis.metrics.score import mean_score, pack_scores

TOML = """
[rows.old]
recipe = "reir-baseline-small"
seeds = [0, 1]

[rows.new]
recipe = "reir-small"
seeds = [0, 1, 2]

[rows.centre]
control = "whole-image"

[[tables]]
name = "boxes"
title = "Boxes"
baseline = "old"
rows = ["old", "new", "centre"]
columns = [{ score = "accuracy" }, { score = "pointing" }]
"""
CLAIM = """
[[claims]]
text = "it is better"
row = "new"
than = "old"
score = "accuracy"
effect = 20
least_seeds = 1
"""


@pytest.mark.parametrize(
    ("interval", "met", "verdict"),
    [
        ((0.01, 0.1), True, "held, smaller effect"),
        ((0.01, 0.3), True, "held"),
        ((0.3, 0.4), True, "held"),
        ((-0.1, 0.1), True, "refuted"),
        ((-0.4, -0.3), True, "refuted"),
        ((-0.1, 0.3), True, "undecided"),  # the interval has the effect of the paper
        ((0.3, 0.4), False, "precondition not met"),
    ],
)
def test_the_rule(interval: tuple[float, float], met: bool, verdict: str) -> None:
    assert decide(interval, 0.2, met) == verdict


def experiment(folder: Path, claims: str = CLAIM) -> Experiment:
    (folder / "table.toml").write_text(TOML)
    (folder / "claims.toml").write_text(claims)
    return read_experiment(folder)


def keep(made: Experiment, row: str, seed: int | None, accuracy: float, pointing: float = 0.5) -> None:
    run = Run(made.rows[row], seed)
    values = {"accuracy": accuracy, "pointing": pointing}
    images = [str(number) for number in range(100)]
    scores = [mean_score(name, images, [n < 100 * value for n in range(100)], name) for name, value in values.items()]
    kept: dict[str, Any] = {split: {s.signature: {s.name: s.value} for s in scores} for split in ("val", "test")}
    packed = {split: pack_scores(scores) for split in ("val", "test")}
    keep_run(made, KeptRun(run.name, made.settings(run), "", "eyes", "none", 0.0, 0.0, kept, [], packed))


def test_rows_are_compared_over_the_seeds_that_both_have(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    (claim,) = read_claims(made)
    assert judge(made, claim, read_kept(made)) is None
    for seed, accuracy in enumerate((0.7, 0.9, 0.1)):
        keep(made, "new", seed, accuracy)
    keep(made, "old", 0, 0.5)
    keep(made, "old", 1, 0.5)
    result = judge(made, claim, read_kept(made))
    assert result is not None
    assert (result.seeds, result.verdict) == ((0, 1), "held")
    assert result.difference is not None
    assert result.difference.difference == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("pointing", "interval", "verdict"),
    [((0.6, 0.6), "false", "held"), ((0.6, 0.5), "false", "precondition not met"), ((0.51, 0.51), "true", "held")],
)
def test_a_precondition_holds_in_every_seed(
    pointing: tuple[float, float], interval: str, verdict: str, tmp_path: Path
) -> None:
    condition = f'{{ row = "new", than = "centre", score = "pointing", interval = {interval} }}'
    made = experiment(tmp_path, f"{CLAIM}precondition = {condition}\n")
    keep(made, "centre", None, 0.1, 0.5 if interval == "false" else 0.1)
    for seed in (0, 1):
        keep(made, "old", seed, 0.1)
        keep(made, "new", seed, 0.9, pointing[seed])
    result = judge(made, read_claims(made)[0], read_kept(made))
    assert result is not None
    assert result.verdict == verdict
    assert [own for own, _ in result.precondition] == list(pointing)


def test_a_precondition_that_fails_is_a_result_without_the_rows_of_the_claim(tmp_path: Path) -> None:
    condition = '{ row = "old", than = "centre", score = "pointing" }'
    made = experiment(tmp_path, f"{CLAIM}precondition = {condition}\n")
    (claim,) = read_claims(made)
    keep(made, "old", 0, 0.1, 0.4)
    assert judge(made, claim, read_kept(made)) is None
    keep(made, "centre", None, 0.1, 0.5)
    result = judge(made, claim, read_kept(made))
    assert result is not None
    assert (result.verdict, result.difference) == ("precondition not met", None)
    assert result.cells()[1:4] == ["none", "40.0 ≤ 50.0", "not measured"]


def test_few_seeds_decide_nothing(tmp_path: Path) -> None:
    made = experiment(tmp_path, CLAIM.replace("least_seeds = 1", "least_seeds = 2"))
    (claim,) = read_claims(made)
    for seed, verdict in enumerate(("undecided", "held")):
        keep(made, "new", seed, 0.9)
        keep(made, "old", seed, 0.5)
        result = judge(made, claim, read_kept(made))
        assert result is not None
        assert result.verdict == verdict


def test_a_small_advantage_does_not_meet_a_precondition_with_an_interval(tmp_path: Path) -> None:
    condition = '{ row = "new", than = "centre", score = "pointing", interval = true, split = "report" }'
    made = experiment(tmp_path, f"{CLAIM}precondition = {condition}\n")
    keep(made, "centre", None, 0.1, 0.5)
    keep(made, "old", 0, 0.1)
    keep(made, "new", 0, 0.9, 0.51)  # one image of 100
    result = judge(made, read_claims(made)[0], read_kept(made))
    assert result is not None
    assert result.verdict == "precondition not met"


def test_the_verb_writes_verdicts_into_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = experiment(tmp_path)
    (tmp_path / "README.md").write_text("# Boxes\n\n<!-- table claims -->\n<!-- end of table claims -->\n\nAfter.\n")
    args = ["table", str(tmp_path), "--only-report", "--quiet", "--json"]
    assert cli.run(args) == 0
    assert json.loads(capsys.readouterr().out)["claims"] == []
    assert "No claim has finished runs." in (tmp_path / "README.md").read_text()
    keep(made, "old", 0, 0.5)
    keep(made, "new", 0, 0.5)
    assert cli.run(args) == 0
    assert [claim["verdict"] for claim in json.loads(capsys.readouterr().out)["claims"]] == ["refuted"]
    page = (tmp_path / "README.md").read_text()
    assert "| it is better | 0 | none | +0.0 (+0.0 to +0.0) | +20 | refuted |" in page
    assert "After." in page


def test_a_comparison_without_claims_has_no_verdicts(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    (tmp_path / "claims.toml").unlink()
    assert write_verdicts(made) == []
    assert not (tmp_path / "README.md").exists()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('row = "new"', 'row = "newer"', "no row 'newer'"),
        ("effect = 20", "effect = -20", "'effect' must be above 0"),
        ("effect = 20", "effects = 20", "unknown field 'effects'"),
        ("[[claims]]", "[[claims", "cannot be read"),
    ],
)
def test_mistakes_are_named(old: str, new: str, says: str, tmp_path: Path) -> None:
    made = experiment(tmp_path, CLAIM.replace(old, new))
    with pytest.raises(DeixisError, match=says):
        read_claims(made)


@pytest.mark.parametrize("name", ["reir", "pos-scan", "amc-short", "flickr8k-entities"])
def test_claims_of_the_experiments_are_read(name: str) -> None:
    made = read_experiment(Path(__file__).parents[2] / "experiments" / name)
    claims = read_claims(made)
    columns = {column.score for table in made.tables for column in table.columns}
    assert claims
    assert {claim.score for claim in claims} <= columns
