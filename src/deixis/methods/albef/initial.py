"""Initial model of a training: fresh, from MiniLM, from a model folder, or from a published checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import nn

from deixis.errors import DeixisError
from deixis.language.wordpiece import WordPieces
from deixis.layers.minilm import minilm_folder
from deixis.layers.whitening import fit_whitening
from deixis.methods.albef.config import AlbefConfig
from deixis.methods.albef.images import square_grid
from deixis.methods.albef.inputs import InputConfig
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.momentum import MomentumState
from deixis.methods.albef.network import AlbefNet, resize_positions
from deixis.methods.albef.published import load_minilm, read_published, read_word_pieces
from deixis.methods.albef.recipes import ALBEF_RECIPES, AlbefRecipe
from deixis.training.data import TrainingData
from deixis.types import require_extractor

WHITENED = 300  # images whose cells fit the whitening

CHANGEABLE = ("dropout", "map_layer", "map_source", "side")
"""Fields of the configuration that can change when a training starts from given weights."""


@dataclass(frozen=True)
class Initial:
    """The model before training."""

    network: AlbefNet
    pieces: WordPieces
    inputs: InputConfig
    momentum: MomentumState | None = None  # copy and queue of an earlier training, where they were kept


def initial_model(recipe: AlbefRecipe, data: TrainingData, init_from: Path | None) -> Initial:
    """Return the model before training; weights from ``init_from`` keep their word pieces and inputs."""
    if init_from is None:
        return _fresh(recipe, data)
    if init_from.is_dir():
        found = AlbefGrounder.from_pretrained(init_from, backend="torch")
        if found.extractor is not None:
            require_extractor(data.extractor["name"], found.extractor.name)
        assert isinstance(found.network, AlbefNet)
        given = Initial(found.network, found.pieces, found.inputs, MomentumState.load(init_from))
    else:
        published = read_published(init_from)
        pieces = read_word_pieces(None, published.config.vocabulary, init_from)
        given = Initial(published.network(), pieces, recipe.inputs, published.momentum)
    if given.network.words is None and recipe.words:
        raise DeixisError(
            f"{init_from} has no head for masked words (it was fine-tuned). Train without them: --words 0"
        )
    return _changed(given, recipe, init_from)


def _changed(given: Initial, recipe: AlbefRecipe, source: Path) -> Initial:
    """Return the given model with the values of ``--model.*``; raise an error for those that weights cannot have."""
    usual = ALBEF_RECIPES[recipe.name].model if recipe.name in ALBEF_RECIPES else recipe.model
    old = given.network.config
    asked = {
        field.name: value
        for field in fields(AlbefConfig)
        if (value := getattr(recipe.model, field.name)) != getattr(usual, field.name)
        and value != getattr(old, field.name)
    }
    for name, value in asked.items():
        if name not in CHANGEABLE or (name == "side" and not old.patch):
            raise DeixisError(
                f"{source} has the value {getattr(old, name)} of --model.{name.replace('_', '-')}, not {value}. "
                f"With --init-from, only {', '.join(CHANGEABLE)} can change. Remove the option."
            )
    if not asked:
        return replace(given, network=given.network.train())
    network = AlbefNet(replace(old, **asked))
    side, momentum = network.config.side, given.momentum
    weights = given.network.state_dict()
    weights["image.positions"] = resize_positions(weights["image.positions"], side, side)
    network.load_state_dict(weights)
    if momentum is not None:
        positions = resize_positions(momentum.slow["image.positions"], side, side)
        momentum = replace(momentum, slow={**momentum.slow, "image.positions": positions})
    return replace(given, network=network.train(), momentum=momentum)


def _fresh(recipe: AlbefRecipe, data: TrainingData) -> Initial:
    if recipe.text == "fresh":
        pieces = WordPieces.build((c.text for s in data.training for c in s.captions), recipe.min_count)
    else:
        pieces = WordPieces.load(minilm_folder() / "vocab.txt")
    config = replace(recipe.model, vocabulary=len(pieces))
    if not config.patch:
        grid = data.regions[data.training[0].image_id].grid
        if grid is None or grid.ndim != 3:
            raise DeixisError(f"recipe {recipe.name} needs feature grids. Extract the features with --grid.")
        config = replace(config, features=grid.shape[-1], side=max(grid.shape[:2]))
    torch.manual_seed(recipe.seed)
    model = AlbefNet(config)
    if isinstance(model.image.patches, nn.Linear):
        some = data.training[:: -(-len(data.training) // WHITENED)]
        grids = [torch.from_numpy(square_grid(data.regions[sample.image_id], config)) for sample in some]
        fit_whitening(model.image.patches, torch.stack(grids).flatten(0, 2))
    if recipe.text == "minilm":
        load_minilm(model)
    return Initial(model, pieces, recipe.inputs)
