"""Dry run of SCAN, POS-SCAN and ReIR: the network of a recipe on random pairs of the published sizes.

The loss of a matcher compares all pairs of a batch, so that a batch is one part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import numpy as np
import torch
import tyro
from torch import Tensor, nn

from deixis.language.descriptions import Description
from deixis.language.relations import Relation
from deixis.language.vocabulary import SPECIAL, Vocabulary
from deixis.layers.padding import PaddedRegions
from deixis.layers.text_vectors import WIDTH
from deixis.methods.reir import train as reir
from deixis.methods.reir.phrases import pad_phrases
from deixis.methods.reir.recipes import ReirRecipe
from deixis.methods.scan import train as scan
from deixis.methods.scan.recipes import ScanRecipe
from deixis.runs.dry_run import MICRO_BATCHES, Shapes, peak_memory
from deixis.training.loop import make_optimiser
from deixis.training.recipe import Phase, Recipe
from deixis.types import Json

SCAN_SHAPES = Shapes("Flickr30k, bottom-up features", 29_000, 36, 2048, 8_481)
REIR_SHAPES = Shapes("Flickr30k Entities, features of a Faster R-CNN", 29_783, 100, 2048, 9_000)
CAPTION_WORDS, PHRASES, PHRASE_WORDS = 13, 3, 3  # of a caption of Flickr30k
CATEGORIES = 88  # of relations (ReIR, Sec. 4.2)


@dataclass(frozen=True)
class MatcherDryRun:
    """Measured cost of a recipe on this machine."""

    recipe: str
    shapes: Shapes
    parameters: int
    batch: int  # pairs of an image and a caption, or images
    peak_bytes: int  # of the process: network, optimiser, gradients and one batch
    seconds_per_step: tuple[float, ...]  # of each phase
    steps: int  # of the whole schedule
    hours: float  # of the whole schedule

    def to_json(self) -> Json:
        """Return all values."""
        return asdict(self)

    def text(self) -> str:
        """Return the values as lines for people."""
        seconds = ", ".join(f"{value:.1f}" for value in self.seconds_per_step)
        return (
            f"{self.recipe}: {self.shapes.name}: {self.shapes.images:,} images x {self.shapes.captions} captions, "
            f"{self.shapes.regions} regions x {self.shapes.features:,}, {self.shapes.words:,} words\n"
            f"parameters {self.parameters:,}\n"
            f"peak memory {self.peak_bytes / 1e9:.2f} GB; the loss compares all pairs of a batch, in one part\n"
            f"seconds a step of {self.batch} pairs, by phase: {seconds}\n"
            f"{self.steps:,} steps, {self.hours:,.1f} hours on this machine"
        )


def with_arguments(recipe: ScanRecipe | ReirRecipe, args: Sequence[str]) -> MatcherDryRun:
    """Run a recipe that is changed by options of the command line."""
    return dry_run(tyro.cli(type(recipe), default=recipe, args=list(args), prog=f"deixis train {recipe.name}"))


def dry_run(recipe: ScanRecipe | ReirRecipe, shapes: Shapes | None = None) -> MatcherDryRun:
    """Build the network of a recipe and take three batches with a step of the optimiser in each phase."""
    if isinstance(recipe, ScanRecipe):
        shapes = shapes or SCAN_SHAPES
        config = replace(recipe.model, vocabulary=shapes.words + len(SPECIAL), features=shapes.features)
        return _measure(recipe, shapes, scan.Network(recipe, config), _scan_batch, shapes.images * shapes.captions)
    shapes = shapes or REIR_SHAPES
    grounder = replace(recipe.model, vocabulary=shapes.words + len(SPECIAL), features=shapes.features)
    network = reir.Network(recipe, grounder, [1000] * CATEGORIES)
    examples = shapes.images * (shapes.captions if recipe.batch_pairs else 1)
    return _measure(recipe, shapes, network, _reir_batch, examples)


Recipes = TypeVar("Recipes", ScanRecipe, ReirRecipe)


def _measure(
    recipe: Recipes,
    shapes: Shapes,
    network: nn.Module,
    make: Callable[[Recipes, Shapes, int], object],
    examples: int,
) -> MatcherDryRun:
    optimiser = make_optimiser(recipe.schedule, list(network.parameters()))
    network.train()
    seconds = []
    for number, phase in enumerate(recipe.phases):
        spent = [
            _step(network, optimiser, phase, make(recipe, shapes, MICRO_BATCHES * number + part))
            for part in range(MICRO_BATCHES)
        ]
        seconds.append(float(np.median(spent)))
    return _report(recipe, shapes, network, seconds, examples)


def _step(network: nn.Module, optimiser: torch.optim.Optimizer, phase: Phase, batch: object) -> float:
    """Take a step late in the training, when all terms of the loss are in use; return the seconds."""
    started = time.perf_counter()
    terms: dict[str, Tensor] = network(phase, batch, 0.9)
    torch.autograd.backward(torch.stack([term for term in terms.values() if term.requires_grad]).sum())
    optimiser.step()
    optimiser.zero_grad()
    return time.perf_counter() - started


def _report(
    recipe: Recipe, shapes: Shapes, network: nn.Module, seconds: Sequence[float], examples: int
) -> MatcherDryRun:
    each = -(-examples // recipe.batch_images)
    counts = [phase.epochs * each for phase in recipe.phases]
    return MatcherDryRun(
        recipe.name,
        shapes,
        sum(parameter.numel() for parameter in network.parameters()),
        recipe.batch_images,
        peak_memory(),
        tuple(seconds),
        sum(counts),
        sum(count * value for count, value in zip(counts, seconds, strict=True)) / 3600,
    )


def _regions(images: int, shapes: Shapes, made: torch.Generator) -> PaddedRegions:
    corners = torch.rand(images, shapes.regions, 2, 2, generator=made).sort(2).values
    return PaddedRegions(
        torch.randn(images, shapes.regions, shapes.features, generator=made),
        torch.ones(images, shapes.regions, dtype=torch.bool),
        corners.flatten(2),
        None,
        torch.rand(images, shapes.regions, generator=made),
    )


def _scan_batch(recipe: ScanRecipe, shapes: Shapes, seed: int) -> scan.Batch:
    """Make pairs of random images and captions of the usual length; a third of the words counts."""
    made, pairs = torch.Generator().manual_seed(seed), recipe.batch_images
    words = torch.randint(len(SPECIAL), shapes.words, (pairs, CAPTION_WORDS), generator=made)
    ends = [torch.full((pairs, 1), value) for value in (Vocabulary.bos, Vocabulary.eos)]
    numbers = torch.arange(pairs)
    counts = torch.ones(pairs, CAPTION_WORDS + 2, dtype=torch.bool)
    if recipe.model.count != "all":
        counts = torch.rand(counts.shape, generator=made) < 1 / 3
        counts[:, 1] = True
    words = torch.cat([ends[0], words, ends[1]], -1)
    return scan.Batch(_regions(pairs, shapes, made), words, counts, numbers, numbers)


def _reir_batch(recipe: ReirRecipe, shapes: Shapes, seed: int) -> reir.Batch:
    """Make random images with captions of three phrases, each related to the next one.

    Features of moved boxes are random again: their pooling belongs to the features, not to the network.
    """
    made, images = torch.Generator().manual_seed(seed), recipe.batch_images
    vocabulary = Vocabulary((*SPECIAL, *(f"w{n}" for n in range(shapes.words))))
    categories = {f"r{n}": n + 1 for n in range(CATEGORIES)}
    ids = torch.randint(len(SPECIAL), len(vocabulary), (images, CAPTION_WORDS), generator=made)
    spans = tuple((4 * p, 4 * p + PHRASE_WORDS) for p in range(PHRASES))
    related = tuple(Relation(p, f"r{p}", p + 1) for p in range(PHRASES - 1))
    one_each = [[Description(tuple(vocabulary.words[i] for i in row), spans, related)] for row in ids.tolist()]
    count = 1 if recipe.batch_pairs else shapes.captions
    phrases = pad_phrases([row * count for row in one_each], vocabulary, categories, embed=False)
    regions = _regions(images, shapes, made)
    names = None
    if recipe.model.names != "none":
        phrases = replace(phrases, vectors=torch.randn(*phrases.mask.shape, WIDTH, generator=made))
        names = torch.randn(images, shapes.regions, WIDTH, generator=made)

    def pool(boxes: Tensor, _: Tensor) -> Tensor:
        return torch.randn(*boxes.shape[:-1], shapes.features, generator=made)

    return reir.Batch(regions, phrases, names, pool if recipe.model.repool else None)
