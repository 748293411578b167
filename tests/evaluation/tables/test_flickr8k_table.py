"""The description of the comparison on real photographs: valid, fair and within its budget; its kept runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from deixis.evaluation.tables.describe import Experiment, read_experiment
from deixis.evaluation.tables.kept import read_kept
from deixis.methods.albef.recipes import AlbefRecipe
from deixis.methods.reir.recipes import ReirRecipe
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.runs.recipes import with_data


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment(Path(__file__).parents[3] / "experiments" / "flickr8k-entities")


def test_everything_is_within_the_budget(experiment: Experiment) -> None:
    expected = sum(run.row.minutes for run in experiment.runs())
    assert 0.8 * experiment.budget < expected <= experiment.budget
    assert all(row.minutes > 0 for row in experiment.rows.values() if not row.control)


def test_captioners_have_equal_budgets_and_decoders(experiment: Experiment) -> None:
    recipes = {name: row.recipe for name, row in experiment.rows.items() if isinstance(row.recipe, UpDownRecipe)}
    for recipe in recipes.values():
        assert sum(phase.epochs for phase in recipe.phases if phase.loss != "self-critical") == 3
        model = recipe.model
        assert (model.words, model.hidden, model.attention, recipe.batch_images, recipe.monitor) == (
            192,
            256,
            64,
            16,
            "CIDEr",
        )
    voted = {row.source for row in experiment.rows.values() if row.place == "vote"}
    assert voted >= recipes.keys()


def test_ablations_differ_from_their_method_in_one_setting(experiment: Experiment) -> None:
    method = experiment.rows["distributed-attention"].recipe
    assert isinstance(method, UpDownRecipe)
    assert method.model.branches == 4
    for name, changes in {
        "distributed-attention-k2": {"branches": 2},
        "distributed-attention-k3": {"branches": 3},
        "distributed-attention-k5": {"branches": 5},
        "distributed-attention-all": {"eliminate": False},
    }.items():
        assert experiment.rows[name].recipe == replace(method, model=replace(method.model, **changes))


def test_boxes_are_used_only_where_it_is_stated(experiment: Experiment) -> None:
    for name, row in experiment.rows.items():
        if row.recipe is not None and name != "amc":
            assert not row.recipe.box_sources()
        if isinstance(row.recipe, ReirRecipe):
            assert row.recipe.monitor == "AUC"
        if isinstance(row.recipe, AlbefRecipe):
            assert row.recipe.monitor == "R@1"


def test_settings_name_no_folder_of_the_machine(experiment: Experiment) -> None:
    amc = experiment.rows["amc"].recipe
    assert isinstance(amc, AlbefRecipe)
    assert with_data(amc, Path("on/my/disk")) == replace(amc, detections="on/my/disk/detections-coco80.json.gz")
    for run in experiment.rows["amc"].runs:
        assert experiment.settings(run)["recipe"]["detections"] == "{data}/detections-coco80.json.gz"


def test_headline_rows_have_several_seeds(experiment: Experiment) -> None:
    captioners = ("updown", "distributed-attention", "cyclical", "updown+pos-scan")
    rewarded = ("updown+scst-cider", "updown+scst-pos-scan")
    grounders = ("scan", "pos-scan", "grounder-reconstruction", "reir", "reir-whole", "reir-coco-ssd", "albef", "amc")
    for name in (*captioners, *rewarded, *grounders):
        assert len(experiment.rows[name].seeds) >= 3


def test_every_row_is_in_a_table(experiment: Experiment) -> None:
    shown = {name for table in experiment.tables for name in table.rows}
    assert shown == set(experiment.rows)


def test_kept_runs_have_the_settings_of_the_description(experiment: Experiment) -> None:
    kept = read_kept(experiment)  # refuses runs with other settings
    for table in experiment.tables:
        for run in experiment.rows[table.baseline].runs:
            scores = kept[run.name].scores(experiment.report)
            for column in table.columns:
                value, mark = kept[run.name].value(experiment.report, column.score) or (None, None)
                assert (scores[column.score].value, scores[column.score].signature) == (pytest.approx(value), mark)
