"""The description of the experiment on AMC's claim: valid, fair and within its budget; its verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from deixis.evaluation.tables.describe import Experiment, read_experiment
from deixis.methods.albef.recipes import AlbefRecipe
from deixis.metrics.score import mean_score

FOLDER = Path(__file__).parents[3] / "experiments" / "amc"


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(FOLDER)


def test_rows_are_fair_and_within_the_budget(experiment: Experiment) -> None:
    assert sum(run.row.minutes for run in experiment.runs()) <= experiment.budget == 900
    started = {name: row.recipe for name, row in experiment.rows.items() if row.init_from}
    assert all(experiment.rows[name].init_from == "albef" for name in started)
    for recipe in (*started.values(), experiment.rows["albef"].recipe):
        assert isinstance(recipe, AlbefRecipe)
        assert (recipe.model.map_source, recipe.align, recipe.monitor) == ("gradcam", 0.0, "R@1")
    assert {recipe.epochs for recipe in started.values() if recipe is not None} == {10}
    assert {experiment.rows[name].seeds for name in ("albef", "amc", "albef-longer", "amc-texts")} == {(0, 1, 2)}


def scores(share: float, seed: int = 0, images: int = 60) -> dict[str, object]:
    ids = [f"{image}#0.0-2 {text}" for image in range(images) for text in ("a dog", "a sunset")]
    hits = np.random.default_rng(seed).random(len(ids)) < share
    return {"pointing": mean_score("pointing", ids, hits, "x")}


@pytest.mark.parametrize(
    ("albef", "amc", "said"),
    [(0.3, 0.9, "precondition not met"), (0.7, 0.95, "held"), (0.9, 0.7, "refuted"), (0.7, 0.75, "undecided")],
)
def test_the_verdict(albef: float, amc: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import verdict

    above = verdict.compare("centre -> albef", [scores(0.5)], [scores(albef)])
    controls = {name: verdict.compare(name, [scores(albef)], [scores(amc, 1)]) for name in verdict.CONTROLS}
    assert verdict.verdict(above, controls).startswith(said)
    parts = verdict.by_name(scores(amc, 1)["pointing"])
    assert [len(parts[name].ids) for name in parts] == [120, 60, 60]  # a sunset has no COCO name
    sys.modules.pop("verdict")
