"""Dry run of a captioner's recipe: its network on random tensors of the official shapes, with time and memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
import tyro
from torch import Tensor

from deixis.errors import UsageError
from deixis.language.vocabulary import SPECIAL, Vocabulary
from deixis.layers.padding import PaddedRegions, PaddedVideo
from deixis.methods.updown.batches import Batch
from deixis.methods.updown.config import DecoderConfig
from deixis.methods.updown.recipes import UpDownRecipe
from deixis.methods.updown.train import Network
from deixis.training.loop import make_optimiser
from deixis.training.recipe import Recipe
from deixis.types import Json

MICRO_IMAGES = 8  # images of a micro-batch
MICRO_BATCHES = 3


@dataclass(frozen=True)
class Shapes:
    """Sizes of a published data set and its features."""

    name: str
    images: int  # of the training split
    regions: int  # of an image
    features: int  # width of a region feature
    words: int  # of the vocabulary
    grid: int = 16  # cells per side of the image map: 512 pixels, stride 32
    map_width: int = 2048
    captions: int = 5


GVD_SHAPES = Shapes("Flickr30k Entities, features of GVD", 29_000, 100, 2048, 8_639)
POS_SCAN_SHAPES = Shapes("Flickr30k Entities, bottom-up features", 29_000, 36, 2048, 7_000)
VIDEO_SHAPES = Shapes("ActivityNet-Entities, features of GVD", 37_421, 1_000, 2048, 4_905, captions=1)
COCO_SHAPES = Shapes("COCO, bottom-up features", 113_287, 36, 2048, 9_487)


def shapes_of(recipe: UpDownRecipe) -> Shapes:
    """Return the published sizes of the data of a recipe."""
    if recipe.model.frames:
        return VIDEO_SHAPES
    if recipe.name.startswith("updown-coco"):
        return COCO_SHAPES
    if recipe.model.fc7 or recipe.name.startswith("updown-gvd"):
        return GVD_SHAPES
    return POS_SCAN_SHAPES


@dataclass(frozen=True)
class DryRun:
    """Measured cost of a recipe on this machine."""

    recipe: str
    shapes: Shapes
    parameters: int
    peak_bytes: int  # of the process: network, optimiser, gradients and one micro-batch
    seconds_per_step: tuple[float, ...]  # of each phase
    steps: int  # of the whole schedule
    hours: float  # of the whole schedule
    batch_images: int
    accumulate: int  # micro-batches of a step

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
            f"peak memory {self.peak_bytes / 1e9:.2f} GB with {self.accumulate} micro-batches a step "
            f"(--accumulate {self.accumulate}); large attention energies are computed again in the backward pass\n"
            f"seconds a step of {self.batch_images} images, by phase: {seconds}\n"
            f"{self.steps:,} steps, {self.hours:,.1f} hours on this machine"
        )


def with_arguments(recipe: Recipe, args: Sequence[str]) -> DryRun:
    """Run a recipe that is changed by options of the command line."""
    if not isinstance(recipe, UpDownRecipe):
        raise UsageError(f"recipe {recipe.name} does not train a captioner, which --dry-run needs. Remove --dry-run.")
    return dry_run(tyro.cli(UpDownRecipe, default=recipe, args=list(args), prog=f"deixis train {recipe.name}"))


def dry_run(recipe: UpDownRecipe, shapes: Shapes | None = None) -> DryRun:
    """Build the network of a recipe and take three micro-batches and a step of the optimiser in each phase."""
    shapes = shapes or shapes_of(recipe)
    micro = min(recipe.batch_images, MICRO_IMAGES)
    parts = -(-recipe.batch_images // micro)
    network = Network(recipe, _config(recipe, shapes), _even_attention, {"cider": (1.0, lambda _, said: said.scores)})
    optimiser = make_optimiser(recipe.schedule, list(network.parameters()))
    network.train()
    seconds = []
    for number, phase in enumerate(recipe.phases):
        spent = []
        for part in range(MICRO_BATCHES):
            batch = random_batch(recipe, shapes, micro, seed=10 * number + part)
            started = time.perf_counter()
            terms = network(phase, batch, 0.5)
            loss = torch.stack([term for term in terms.values() if term.requires_grad]).sum()
            torch.autograd.backward(loss)
            spent.append(time.perf_counter() - started)
        started = time.perf_counter()
        optimiser.step()
        optimiser.zero_grad()
        seconds.append(float(np.median(spent)) * parts + time.perf_counter() - started)
    each = -(-shapes.images // recipe.batch_images)
    counts = [phase.epochs * each for phase in recipe.phases]
    return DryRun(
        recipe.name,
        shapes,
        sum(parameter.numel() for parameter in network.parameters()),
        peak_memory(),
        tuple(seconds),
        sum(counts),
        sum(count * value for count, value in zip(counts, seconds, strict=True)) / 3600,
        recipe.batch_images,
        parts,
    )


def peak_memory() -> int:
    """Return the highest memory of this process so far, in bytes."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux kibibytes


def _config(recipe: UpDownRecipe, shapes: Shapes) -> DecoderConfig:
    model = replace(recipe.model, vocabulary=shapes.words + len(SPECIAL), features=shapes.features)
    return replace(model, grid=shapes.map_width, grid_side=shapes.grid) if model.grid else model


def random_batch(recipe: UpDownRecipe, shapes: Shapes, images: int, seed: int) -> Batch:
    """Make a batch of random regions and captions with everything that the losses of the recipe need."""
    made = torch.Generator().manual_seed(seed)
    rows, regions = (images, shapes.captions), shapes.regions
    corners = torch.rand(images, regions, 4, generator=made).view(-1, 2, 2).sort(1).values
    cells = torch.randn(images, shapes.grid**2, shapes.map_width, generator=made) if recipe.model.grid else None
    padded = PaddedRegions(
        torch.randn(images, regions, shapes.features, generator=made),
        torch.ones(images, regions, dtype=torch.bool),
        corners.view(images, regions, 4),
        cells,
        video=_random_video(recipe.model, images, regions, made) if recipe.model.frames else None,
    )
    words = torch.randint(len(SPECIAL), shapes.words, (*rows, recipe.max_words), generator=made)
    ends = [torch.full((*rows, 1), value) for value in (Vocabulary.bos, Vocabulary.eos)]
    steps = recipe.max_words + 1
    marks = torch.rand(*rows, steps, generator=made) < 0.3
    supervised = recipe.has_loss("supervised")
    classes = max(1, recipe.model.classes)
    return Batch(
        padded,
        torch.cat([ends[0], words, ends[1]], -1),
        tuple(str(i) for i in range(images)),
        visual=marks,
        nouns=marks,
        overlap=torch.rand(*rows, steps, regions, generator=made) if supervised else None,
        classes=torch.randint(0, classes, (images, regions), generator=made) if supervised else None,
        labels=torch.randint(0, classes, (*rows, steps), generator=made) if supervised else None,
    )


def _random_video(model: DecoderConfig, clips: int, regions: int, made: torch.Generator) -> PaddedVideo:
    """Make what clips have beyond photographs: regions of all frames in turn, and temporal features."""
    frames = torch.arange(regions).mul(model.frames).div(regions, rounding_mode="floor")
    return PaddedVideo(
        frames.expand(clips, -1),
        torch.full((clips,), 0.6),
        torch.randn(clips, model.steps, max(1, model.temporal), generator=made),
        torch.full((clips,), model.steps),
        torch.rand(clips, 4, generator=made),
    )


def _even_attention(regions: PaddedRegions, words: Tensor) -> Tensor:
    count = regions.mask.shape[1]
    return torch.full((*words.shape[:2], words.shape[2] - 1, count), 1 / count)
