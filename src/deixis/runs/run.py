"""Run a recipe: train one model on a data set and write its folder."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.errors import DeixisError
from deixis.methods.albef.recipes import AlbefRecipe
from deixis.methods.albef.train import train_albef
from deixis.methods.reir.recipes import ReirRecipe
from deixis.methods.reir.train import train_reir
from deixis.methods.scan.recipes import ScanRecipe
from deixis.methods.scan.train import train_scan
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.methods.updown.train import build_vocabulary, load_initial, train_updown
from deixis.runs.teachers import load_teachers
from deixis.training.callbacks import Callbacks
from deixis.training.data import TrainingData
from deixis.training.recipe import Recipe
from deixis.training.supervision import SourceModel
from deixis.types import Json


@dataclass(frozen=True)
class InitFrom:
    """Folders of the initial model, the teacher and the reward model of a run."""

    model: Path | None = None  # initial weights: a captioner's folder; for ALBEF and AMC a folder or a published .pth
    teacher: Path | None = None  # folder of the matcher whose attention is distilled
    reward_model: Path | None = None  # folder of the matcher whose score is a reward


def run_recipe(
    recipe: Recipe,
    data: TrainingData,
    out: Path,
    callbacks: Callbacks | None = None,
    init: InitFrom | None = None,
) -> Path:
    """Train one model and write it to the folder ``out``, with the weights of the best epoch.

    The folder also has ``recipe.json``, ``metrics.json`` of the best epoch, ``log.jsonl``, the model card and the last
    checkpoint. The same call resumes an interrupted run. It does nothing if the run is finished.
    """
    data, callbacks, init = data.usable(), callbacks or Callbacks(), init or InitFrom()
    _check_init(recipe, init)
    match recipe:
        case UpDownRecipe():
            _run_updown(recipe, data, out, callbacks, init)
        case ScanRecipe():
            train_scan(recipe, data, out, callbacks)
        case ReirRecipe():
            train_reir(recipe, data, out, callbacks)
        case AlbefRecipe():
            train_albef(recipe, data, out, callbacks, init.model)
        case _:
            raise TypeError(f"unknown recipe type {type(recipe).__name__}")
    return out


def _check_init(recipe: Recipe, init: InitFrom) -> None:
    """Raise an error if the recipe's method cannot use a given model."""
    matchers = init.teacher or init.reward_model
    if matchers and not isinstance(recipe, UpDownRecipe):
        raise DeixisError(f"recipe {recipe.name} does not train a captioner. Remove --teacher and --reward-model.")
    if init.model and not isinstance(recipe, UpDownRecipe | AlbefRecipe):
        raise DeixisError(f"recipe {recipe.name} always starts from random weights. Remove --init-from.")


def _run_updown(recipe: UpDownRecipe, data: TrainingData, out: Path, callbacks: Callbacks, init: InitFrom) -> None:
    """Train a captioner; with initial weights, run only the last phase of the recipe."""
    sources: list[SourceModel] = []
    initial = None
    if init.model is None:
        vocabulary = build_vocabulary(recipe, data)
    else:
        recipe = replace(recipe, phases=recipe.phases[-1:])
        initial = load_initial(recipe, data, init.model)
        vocabulary = initial.vocabulary
        sources.append(SourceModel.read("initial model", init.model))
    found = load_teachers(recipe, data, vocabulary, out, callbacks, init.teacher, init.reward_model)
    train_updown(
        recipe,
        data,
        vocabulary,
        out,
        callbacks,
        initial=initial,
        teacher=found.attention,
        rewards=found.rewards,
        sources=(*sources, *found.sources),
    )


def seed_summary(scores: Sequence[Mapping[str, float]]) -> Json:
    """Mean and standard deviation of each validation score over the runs of several seeds."""
    return {
        name: {
            "mean": statistics.mean(each[name] for each in scores),
            "std": statistics.stdev(each[name] for each in scores),
            "seeds": len(scores),
        }
        for name in scores[0]
    }
