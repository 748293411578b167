"""Recipes by name, recipes with added losses, kept recipes, and names of version 0.1."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deixis.errors import DeixisError, UsageError
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.updown.recipes import UPDOWN_RECIPES, UpDownRecipe, with_cycle, with_reward, with_teacher
from deixis.runs.options import AddedLosses, matcher, with_options
from deixis.runs.recipes import RECIPES, find_recipe, read_recipe
from deixis.training.renamed import refuse_old_options

ROOT = Path(__file__).parents[2]
KEPT = [
    path
    for folder in (ROOT / "src" / "deixis" / "pretrained", ROOT / "experiments")
    for path in sorted(folder.rglob("recipe.json"))
    if "reir-first" not in path.parts  # made with a setting of the network that was removed
]


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_found_and_come_back_from_json(name: str) -> None:
    recipe = find_recipe(name)
    assert "+" not in name
    assert recipe.name == name
    assert read_recipe(json.loads(json.dumps(recipe.to_json()))) == recipe
    recipe.check_losses()


def test_an_unknown_name_gets_similar_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown recipe 'updwn'. Did you mean updown"):
        find_recipe("updwn")


# Losses that add up -------------------------------------------------------------------------------------------------


def added(options: str) -> UpDownRecipe:
    name, _, rest = options.partition(" ")
    recipe = with_options(find_recipe(name), rest)
    assert isinstance(recipe, UpDownRecipe)
    return recipe


def test_losses_add_up() -> None:
    recipe = added("distributed-attention --teacher pos-scan --cycle --reward cider")
    assert recipe.name == "distributed-attention+pos-scan+cycle+scst-cider"
    assert [(p.loss, p.branches, p.epochs) for p in recipe.phases] == [
        ("", 1, 20),
        ("cycle", 0, 20),
        ("self-critical", 0, 80),
    ]
    assert (recipe.teacher, recipe.reward_model) == ("pos-scan", "")
    assert recipe == with_reward(with_cycle(with_teacher(UPDOWN_RECIPES["distributed-attention"], "pos-scan")))


def test_small_recipes_have_small_matchers() -> None:
    recipe = added("updown-small --teacher scan --reward cider --reward-model pos-scan --phases.1.epochs 2")
    assert recipe.name == "updown+scan+scst-pos-scan-small"
    assert (recipe.teacher, recipe.reward_model) == ("scan-small", "pos-scan-small")
    assert (recipe.self_critical.cider, recipe.self_critical.match) == (1.0, 1.0)
    assert [p.epochs for p in recipe.phases] == [12, 2]
    last = replace(recipe, phases=recipe.phases[-1:])
    assert (last.teacher, last.reward_model) == ("", "pos-scan-small")  # self-critical training has no teacher


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("reir --teacher scan", "does not train a captioner"),
        ("updown --reward-model scan", "Add --reward cider"),
        ("updown --reward bleu", "invalid choice"),
        ("updown --teacher nobody", "expected scan, pos-scan or the folder"),
        ("cyclical --cycle", "has the loss 'cycle' already"),
        ("updown --phases.0.epoch 2", "invalid options for updown: '--phases.0.epoch 2'"),
    ],
)
def test_what_does_not_add_up_is_refused(options: str, reason: str) -> None:
    with pytest.raises(DeixisError, match=reason):
        added(options)


def test_a_folder_stands_for_its_kind_of_matcher(tmp_path: Path) -> None:
    vocabulary = Vocabulary.build([["a", "dog"]], 1)
    for count in ("all", "nouns"):
        net = ScanNet(ScanConfig(len(vocabulary), 4, words=4, embed=4, count=count))
        ScanGrounder(
            net,
            vocabulary,
            {"name": "made", "description": {"backbone": {"name": "b"}, "proposals": {"name": "p"}}},
            count,
        ).save_pretrained(tmp_path / count)
    assert matcher(str(tmp_path / "all"), "--teacher") == ("scan", tmp_path / "all")
    assert matcher(str(tmp_path / "nouns"), "--teacher") == ("pos-scan", tmp_path / "nouns")
    losses, rest = AddedLosses.parse(["--seeds", "2", f"--teacher={tmp_path / 'nouns'}", "--cycle.decode", "1"])
    assert rest == ["--seeds", "2", "--cycle.decode", "1"]
    assert losses.add_to(UPDOWN_RECIPES["updown"]) == with_teacher(UPDOWN_RECIPES["updown"], "pos-scan")
    with pytest.raises(DeixisError, match="is a folder"):
        added(f"updown --teacher {tmp_path / 'all'}")


# Version 0.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", KEPT, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_kept_recipes_are_read(path: Path) -> None:
    kept = json.loads(path.read_text())
    recipe = read_recipe(kept)
    assert (recipe.name, recipe.seed) == (kept["name"], kept["seed"])
    assert recipe.batch_images == kept.get("images", kept.get("batch_images"))
    assert len(recipe.phases) == len(kept["phases"])


def test_old_fields_are_read_under_their_new_names() -> None:
    critic = {"cider": 0.5, "match": 2.0, "consistency": 0.0, "judge": "scan", "samples": 5, "still": 0.2}
    kept = {
        "name": "mine",
        "paper": "none",
        "supervision": "photographs with captions, no boxes",
        "phases": [{"epochs": 2, "objective": "supervised", "branches": 1, "rate": 0.5}],
        "schedule": {"rate": 0.1, "decay": 0.2, "every": 4, "patience": 5, "clip": 6.0, "stop": 7},
        "images": 3,
        "minimum": 9,
        "max_words": 8,
        "select": "F1_all",
        "model": UPDOWN_RECIPES["updown"].to_json()["model"],
        "boxes": {"attention": 0.3, "classes": 0.4},
        "distil": {"teacher": "scan", "weight": 0.6},
        "critic": critic,
    }
    recipe = read_recipe(kept)
    assert isinstance(recipe, UpDownRecipe)
    (phase,), schedule = recipe.phases, recipe.schedule
    assert (phase.loss, phase.branches, phase.lr) == ("supervised", 1, 0.5)
    assert (schedule.lr, schedule.decay_every, schedule.clip_norm, schedule.early_stop_epochs) == (0.1, 4, 6.0, 7)
    assert (recipe.batch_images, recipe.min_count, recipe.monitor) == (3, 9, "F1_all")
    assert (recipe.supervised.attention, recipe.distillation.weight) == (0.3, 0.6)
    assert (recipe.self_critical.reward_model, recipe.self_critical.min_gap) == ("scan", 0.2)
    with pytest.raises(DeixisError, match="has no field 'cover'"):
        read_recipe({**kept, "model": {"cover": 1}})
    with pytest.raises(DeixisError, match="incomplete UpDownRecipe"):
        read_recipe({"critic": critic})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("updown+pos-scan-small", "updown-small --teacher pos-scan"),
        ("cyclical+scan", "cyclical --teacher scan"),
        (
            "distributed-attention+pos-scan+cycle-small",
            "distributed-attention-small --teacher pos-scan --cycle",
        ),
        ("updown+scst-cider", "updown --reward cider"),
        (
            "distributed-attention+scan+cycle+scst-pos-scan",
            "distributed-attention --teacher scan --cycle --reward cider --reward-model pos-scan",
        ),
    ],
)
def test_an_old_name_of_added_losses_gives_the_new_command(old: str, new: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_recipe(old)
    assert str(refused.value).endswith(f"deixis train {new}")
    assert added(new).name == old


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--start", "--init-from"),
        ("--judge", "--reward-model"),
        ("--select", "--monitor"),
        ("--images=4", "--batch-images"),
        ("--minimum", "--min-count"),
        ("--schedule.rate", "--schedule.lr"),
        ("--schedule.every", "--schedule.decay-every"),
        ("--phases.0.rate", "--phases.0.lr"),
        ("--phases.1.objective", "--phases.1.loss"),
        ("--critic.judge", "--self-critical.reward-model"),
        ("--critic.cider", "--self-critical.cider"),
        ("--self_taught.warm_up", "--self-taught.warmup"),
        ("--relations.minimum", "--relations.min-count"),
    ],
)
def test_an_old_option_gives_the_new_one(old: str, new: str) -> None:
    with pytest.raises(UsageError, match=rf"is now {new}\."):
        refuse_old_options([old, "1"])


def test_the_supervision_is_no_option() -> None:
    with pytest.raises(UsageError, match="derives the supervision"):
        refuse_old_options(["--supervision", "none"])
    refuse_old_options(["--min-count", "2", "--phases.0.lr", "--schedule.decay", "--model.words", "-3"])
