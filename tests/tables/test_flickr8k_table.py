"""The description of the comparison on real photographs: sound, fair and within its budget."""

from dataclasses import replace
from pathlib import Path

import pytest

from deixis.methods.albef.recipes import AlbefRecipe
from deixis.methods.reir.recipes import ReirRecipe
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.tables.describe import Experiment, read_experiment
from deixis.tables.runs import _naming_data, _on_this_machine, is_kept
from deixis.training.supervision import BOX_SCORES


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(Path(__file__).parents[2] / "experiments" / "flickr8k-entities")


def test_everything_is_within_the_budget(experiment: Experiment) -> None:
    expected = sum(row.minutes * len(row.seeds) for row in experiment.rows.values())
    assert experiment.minutes(experiment.runs()) == expected
    assert 0.8 * experiment.budget < expected <= experiment.budget
    assert all(row.minutes > 0 for row in experiment.rows.values() if not row.without)


def test_captioners_have_equal_budgets_and_decoders(experiment: Experiment) -> None:
    recipes = [row.recipe for row in experiment.rows.values() if isinstance(row.recipe, UpDownRecipe)]
    assert len(recipes) == 16
    told = [sum(phase.epochs for phase in r.phases if phase.loss != "self-critical") for r in recipes]
    assert set(told) == {3}
    assert {(r.model.words, r.model.hidden, r.model.attention, r.batch_images, r.monitor) for r in recipes} == {
        (192, 256, 64, 16, "CIDEr")
    }
    assert sorted(r.model.branches for r in recipes) == [1] * 8 + [2, 3] + [4] * 5 + [5]
    assert [r.model.eliminate for r in recipes].count(False) == 1
    voted = {row.source for row in experiment.rows.values() if row.place == "vote"}
    assert voted >= {name for name, row in experiment.rows.items() if isinstance(row.recipe, UpDownRecipe)}


def test_no_box_teaches_or_chooses_but_where_it_is_said(experiment: Experiment) -> None:
    for name, row in experiment.rows.items():
        if row.recipe is not None and name != "amc":
            assert not row.recipe.box_sources()
            assert row.recipe.monitor not in BOX_SCORES
        if isinstance(row.recipe, ReirRecipe):
            assert row.recipe.monitor == "AUC"
        if isinstance(row.recipe, AlbefRecipe):
            assert row.recipe.monitor == "R@1"
    amc = experiment.rows["amc"].recipe
    assert isinstance(amc, AlbefRecipe)
    here = _on_this_machine(amc, Path("on/my/disk"))
    assert here == replace(amc, detections="on/my/disk/detections-coco80.json.gz")
    assert {**here.to_json(), **_naming_data(amc)} == amc.to_json()  # what is kept names no disk


def test_the_kept_runs_fit_the_description(experiment: Experiment) -> None:
    """They were made by version 0.1, whose recipes had other names."""
    assert all(is_kept(experiment, run) for run in experiment.runs())


def test_headline_rows_have_several_seeds(experiment: Experiment) -> None:
    several = {name: len(row.seeds) for name, row in experiment.rows.items() if row.recipe and len(row.seeds) > 1}
    captioners = ("updown", "distributed-attention", "cyclical", "updown+pos-scan")
    rewarded = ("updown+scst-cider", "updown+scst-pos-scan")
    grounders = ("scan", "pos-scan", "grounder-reconstruction", "reir", "reir-whole", "reir-coco-ssd", "albef", "amc")
    assert several == dict.fromkeys((*captioners, *rewarded, *grounders), 3)


def test_every_row_is_in_a_table(experiment: Experiment) -> None:
    shown = {name for table in experiment.tables for name in table.rows}
    assert shown == set(experiment.rows)
