"""Dry runs: every paper-size recipe of a captioner takes its micro-batches, and the schedule is added up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deixis import cli
from deixis.methods.reir.recipes import REIR_RECIPES
from deixis.methods.scan.recipes import SCAN_RECIPES
from deixis.methods.updown.recipes import UPDOWN_RECIPES, UpDownRecipe, with_reward, with_teacher
from deixis.runs import dry_run_matchers
from deixis.runs.dry_run import COCO_SHAPES, GVD_SHAPES, POS_SCAN_SHAPES, VIDEO_SHAPES, Shapes, dry_run, shapes_of

SMALL = Shapes("made", images=100, regions=5, features=7, words=11, grid=2, map_width=3, captions=2)
PAPER_SIZE = [recipe for name, recipe in UPDOWN_RECIPES.items() if not name.endswith("-small")]
ADDED = [with_reward(with_teacher(UPDOWN_RECIPES["updown"], "pos-scan"), "scan")]


def shrunk(recipe: UpDownRecipe) -> UpDownRecipe:
    sizes = {"words": 4, "hidden": 8, "attention": 4}
    if recipe.model.fc7:
        sizes |= {"fc7": 6, "classes": 3, "location": 2}
    if recipe.model.temporal:
        sizes |= {"temporal": 6, "motion": 2, "steps": 4, "frames": 2}
    return replace(recipe, model=replace(recipe.model, **sizes), max_words=4)


@pytest.mark.parametrize("recipe", [*PAPER_SIZE, *ADDED], ids=lambda recipe: recipe.name)
def test_every_recipe_of_full_size_takes_a_dry_run(recipe: UpDownRecipe) -> None:
    found = dry_run(shrunk(recipe), SMALL)
    each = -(-100 // recipe.batch_images)
    assert found.steps == each * recipe.epochs
    assert len(found.seconds_per_step) == len(recipe.phases)
    hours = sum(each * p.epochs * s for p, s in zip(recipe.phases, found.seconds_per_step, strict=True)) / 3600
    assert found.hours == pytest.approx(hours)
    assert found.accumulate * 8 >= recipe.batch_images
    assert found.parameters > 0
    assert found.peak_bytes > 1e7


def test_recipes_have_the_shapes_of_their_data() -> None:
    shapes = {recipe.name: shapes_of(recipe) for recipe in PAPER_SIZE}
    assert shapes["updown-coco"] == COCO_SHAPES
    assert shapes["gvd-video"] == shapes["supervised-video"] == VIDEO_SHAPES
    assert shapes["updown"] == shapes["supervised"] == POS_SCAN_SHAPES
    assert shapes["updown-gvd"] == shapes["gvd"] == shapes["cyclical"] == shapes["multi-head"] == GVD_SHAPES
    assert (GVD_SHAPES.words, POS_SCAN_SHAPES.words, COCO_SHAPES.words) == (8_639, 7_000, 9_487)


def test_the_verb_prints_the_cost_and_needs_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["train", "updown", "--dry-run", "--model.hidden", "8", "--model.words", "4", "--model.attention", "4"]
    assert cli.run([*args, "--max-words", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["steps"], found["accumulate"], found["shapes"]["regions"]) == (1000 * 30, 4, 36)


MATCHERS = [r for r in (*SCAN_RECIPES.values(), *REIR_RECIPES.values()) if not r.name.endswith("-small")]


@pytest.mark.parametrize("recipe", MATCHERS, ids=lambda recipe: recipe.name)
def test_every_matcher_of_full_size_takes_a_dry_run(recipe) -> None:
    sizes = {"words": 4, "embed": 6} if recipe.name in SCAN_RECIPES else {"words": 4, "width": 6, "hidden": 5}
    tiny = replace(recipe, model=replace(recipe.model, **sizes), batch_images=4)
    found = dry_run_matchers.dry_run(tiny, replace(SMALL, regions=12, words=30))
    pairs = getattr(recipe, "batch_pairs", True)
    assert found.steps == (50 if pairs else 25) * recipe.epochs  # 100 images with two captions, in batches of 4
    assert found.hours == pytest.approx(found.steps * found.seconds_per_step[0] / 3600)
    assert found.parameters > 0
    assert f"{found.steps:,} steps" in found.text()


def test_the_verb_measures_matchers(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["train", "pos-scan", "--dry-run", "--model.embed", "4", "--batch-images", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["recipe"], found["batch"], found["steps"]) == ("pos-scan", 2, 30 * 72_500)
