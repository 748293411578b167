"""The parts of the comparison of fusion models that its figures rest on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from deixis.data.scenes import make_scenes
from deixis.methods.albef.train import Validation
from deixis.types import Regions

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "scenes"))
from fusions import FIRST, ROWS, blind, narrowed, place, recipe
from material import Scenes

DESCRIPTION = {"backbone": {"name": "none"}, "proposals": {"name": "none"}}


def scenes() -> Scenes:
    """Seven pictures with grids of cells that share a mean and are mixed."""
    training, dice = make_scenes(7), np.random.default_rng(0)
    mixed, nothing = dice.normal(size=(6, 6)), np.zeros((0, 4))
    regions = {
        s.image_id: Regions(
            nothing, np.zeros((0, 6)), (9, 9), extractor="raw", grid=dice.normal(size=(8, 8, 6)) @ mixed + 5
        )
        for s in training
    }
    return Scenes(training, training, training, regions, {"name": "raw", "description": DESCRIPTION})


def test_narrow_cells_have_unit_variance_and_a_name_of_their_own() -> None:
    made = scenes()
    narrow = narrowed(made, 4)
    # the first picture and the seventh decide on the statistics
    found = [narrow.regions[made.training[number].image_id].grid for number in (0, 6)]
    together = np.concatenate([grid.reshape(-1, 4) for grid in found if grid is not None])
    np.testing.assert_allclose(together.T @ together / len(together), np.eye(4), atol=1e-3)
    names = {regions.extractor for regions in narrow.regions.values()}
    assert names == {narrow.extractor["name"]}
    assert names.isdisjoint({"raw"})


def test_rows_without_boxes_see_none() -> None:
    material = scenes().material
    assert Validation(material).references
    assert not Validation(blind(material)).references
    for row in ROWS:
        boxed = row != FIRST and "of pairs" not in row
        found = recipe(row, 0)
        assert [phase.loss for phase in found.phases] == ["amc" if boxed else "albef"]
        assert found.monitor == ("pointing" if boxed else "R@1")
        # the papers' models: what the small recipes have beyond them is left out
        assert (found.momentum.queue, found.align, found.model.explain) == (0, 0.0, "match")


def test_every_run_has_a_folder_of_its_own() -> None:
    assert len({place(row, seed, Path()) for row in ROWS for seed in (0, 1)}) == 2 * len(ROWS)
