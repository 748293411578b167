"""The supervision that a model card states is what the run used."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deixis.data.sample import Caption, Sample
from deixis.methods.albef.recipes import ALBEF_RECIPES
from deixis.methods.reir.recipes import REIR_RECIPES
from deixis.methods.scan.recipes import SCAN_RECIPES
from deixis.methods.updown.recipes import UPDOWN_RECIPES, with_cycle, with_reward, with_teacher
from deixis.model_folder import read_supervision, with_proposals
from deixis.runs.options import with_options
from deixis.training.card import card_files
from deixis.training.data import TrainingData
from deixis.training.recipe import Recipe
from deixis.training.supervision import PAIRS, SourceModel, supervision_of

UPDOWN = UPDOWN_RECIPES["updown-small"]
SAMPLE = Sample("1", (Caption("a dog", ("a", "dog")),))


def data(proposals: str = "none") -> TrainingData:
    description = {"backbone": {"supervision": "classes"}, "proposals": {"supervision": proposals}}
    return TrainingData([SAMPLE], [SAMPLE], {}, {"name": "made", "description": description}, "pairs")


@pytest.mark.parametrize(
    "recipe",
    [
        UPDOWN,
        with_reward(with_cycle(with_teacher(UPDOWN, "pos-scan")), "scan"),
        SCAN_RECIPES["scan"],
        replace(REIR_RECIPES["reir"], monitor="AUC"),
        ALBEF_RECIPES["albef-base"],
    ],
    ids=lambda recipe: recipe.name,
)
def test_captions_alone(recipe: Recipe) -> None:
    assert supervision_of(recipe, data()) == PAIRS == "photographs with captions, no boxes"


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        (UPDOWN_RECIPES["supervised"], "photographs with captions, and boxes of the training set"),
        (
            with_options(UPDOWN, "--phases.0.loss supervised"),
            "photographs with captions, and boxes of the training set",
        ),
        (
            with_options(UPDOWN, "--monitor F1_loc"),
            "photographs with captions; best epoch selected by F1_loc on boxes of the validation set",
        ),
        (
            REIR_RECIPES["reir"],
            "photographs with captions; best epoch selected by accuracy on boxes of the validation set",
        ),
        (
            replace(ALBEF_RECIPES["amc-small"], monitor="R@1", detections="my/boxes.json"),
            "photographs with captions, and boxes of a detector (boxes.json)",
        ),
        (
            ALBEF_RECIPES["amc-base"],
            "photographs with captions, and boxes of the training set; "
            "best epoch selected by pointing on boxes of the validation set",
        ),
    ],
)
def test_boxes_in_losses_and_validation(recipe: Recipe, said: str) -> None:
    assert supervision_of(recipe, data()) == said


def test_proposals_of_a_detector() -> None:
    learnt = data("boxes: COCO")
    assert supervision_of(UPDOWN, learnt) == "photographs with captions; proposals: boxes: COCO"
    assert supervision_of(ALBEF_RECIPES["albef-base"], learnt) == PAIRS  # its image encoder reads pixels


def test_models_that_a_run_learns_with(tmp_path: Path) -> None:
    def source(role: str, supervision: str) -> SourceModel:
        return SourceModel(role, tmp_path, supervision)

    pairs = [source("teacher", PAIRS), source("initial model", "photographs with captions; proposals: boxes: COCO")]
    assert supervision_of(UPDOWN, data(), pairs) == PAIRS
    boxes = source("teacher", "photographs with captions, and boxes of the training set; proposals: boxes: COCO")
    assert supervision_of(UPDOWN, data("boxes: COCO"), [boxes]) == (
        "photographs with captions; teacher: photographs with captions, and boxes of the training set; "
        "proposals: boxes: COCO"
    )
    published = SourceModel.read("initial model", tmp_path / "ALBEF.pth")
    assert supervision_of(ALBEF_RECIPES["albef-small"], data(), [published]) == (
        "photographs with captions; initial model: unknown"
    )


def test_card_and_recipe_state_it(tmp_path: Path) -> None:
    teacher = SourceModel("teacher", Path("runs/teacher"), "photographs with captions, and boxes of the training set")
    files = card_files(with_teacher(UPDOWN, "scan"), data(), 2, {"CIDEr": 0.5}, "greedy", [teacher])
    said = f"photographs with captions; teacher: {teacher.supervision}"
    assert f"- Supervision: {said}\n- Teacher: `runs/teacher`\n- Regions:" in files["README.md"]
    assert json.loads(files["metrics.json"]) == {"best_epoch": 2, "validation": {"CIDEr": 0.5}}
    (tmp_path / "recipe.json").write_text(files["recipe.json"])
    assert read_supervision(tmp_path) == said


def test_texts_of_old_models_get_their_proposals() -> None:
    assert with_proposals(PAIRS, "none") == PAIRS
    assert with_proposals(PAIRS, "boxes: COCO") == f"{PAIRS}; proposals: boxes: COCO"
    now = "photographs with captions; proposals: boxes: COCO"
    assert with_proposals(now, "boxes: COCO") == now
