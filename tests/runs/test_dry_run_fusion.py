"""Dry run of fusion models: shapes, parts of a batch, steps of the schedule."""

from dataclasses import replace

import pytest
import torch

from deixis.errors import UsageError
from deixis.language.wordpiece import WordPieces
from deixis.methods.albef.network import AlbefConfig
from deixis.methods.albef.recipes import ALBEF_RECIPES
from deixis.runs.dry_run_fusion import IMAGES, TEXTS, dry_run, random_batch, with_arguments
from deixis.training.recipe import Phase

TINY = AlbefConfig(*(0, 8, 2, 8, 40, 1, 1, 0.0, 4, 0, 4, 8, 2, 8, 1, 4), map_layer=0)
PIECES = WordPieces.build(["a red dog on the grass"] * 3, 1)


@pytest.mark.parametrize(("name", "texts"), [("amc-base", IMAGES), ("amc-published", TEXTS), ("albef-base", IMAGES)])
def test_a_dry_run_has_the_steps_of_the_schedule(name: str, texts: int) -> None:
    recipe = replace(
        ALBEF_RECIPES[name], model=TINY, accumulate=128, phases=(Phase(3, ALBEF_RECIPES[name].phases[0].loss),)
    )
    found = dry_run(recipe, PIECES)
    assert (found.batch_images, found.pairs, found.steps) == (512, 4, 3 * -(-texts // 512))
    assert found.hours == pytest.approx(found.steps * found.seconds_per_step / 3600)
    assert found.peak_bytes > 2**20
    assert found.parameters > 0
    assert "512 pairs in 128 parts of 4" in found.text()
    assert found.to_json()["precision"] == "fp32"


def test_a_dry_run_takes_the_memory_options() -> None:
    recipe = replace(ALBEF_RECIPES["amc-base"], model=TINY, accumulate=256, precision="bf16")
    found = dry_run(recipe, PIECES)
    assert (found.precision, found.checkpoint_activations, found.pairs) == ("bf16", True, 2)


def test_every_random_pair_has_a_box_and_the_longest_text() -> None:
    recipe = replace(ALBEF_RECIPES["amc-base"], model=TINY)
    batch = random_batch(recipe, len(PIECES), 3, 0)
    assert batch.images.shape == (3, 3, 16, 16)
    assert batch.captions.ids.shape == batch.targets.ids.shape == (3, 25)
    assert batch.boxed.all()
    assert batch.masks.flatten(1).any(1).all()
    assert torch.equal(random_batch(recipe, len(PIECES), 3, 0).images, batch.images)


def test_models_of_feature_grids_have_no_dry_run() -> None:
    with pytest.raises(UsageError, match="reads feature grids"):
        with_arguments(ALBEF_RECIPES["amc-small"], [])
