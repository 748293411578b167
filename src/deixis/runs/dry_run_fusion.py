"""Dry run of ALBEF and AMC: the network of a recipe on random pairs of the published sizes, with time and memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
import tyro

from deixis.errors import UsageError
from deixis.language.wordpiece import WordPieces
from deixis.layers.minilm import minilm_folder
from deixis.methods.albef.losses.map_consistency import box_masks
from deixis.methods.albef.network import AlbefNet, pad_texts
from deixis.methods.albef.recipes import AlbefRecipe
from deixis.methods.albef.train import Batch, Network, map_side
from deixis.runs.dry_run import peak_memory
from deixis.training.loop import make_optimiser
from deixis.types import Json

IMAGES, TEXTS = 108_077, 924_807 + 168_442
"""Images of Visual Genome, and AMC's texts with boxes (Sec. 4.1)."""


@dataclass(frozen=True)
class FusionDryRun:
    """Measured cost of a recipe on this machine."""

    recipe: str
    parameters: int  # that are trained; the momentum copy has as many
    batch_images: int
    accumulate: int  # parts of a batch that are computed one after another
    pairs: int  # of a part
    negative_group: int  # pairs that are negatives of each other; 0: those of a part
    precision: str
    checkpoint_activations: bool
    peak_bytes: int  # of the process: network, copy, optimiser, gradients and one part
    seconds_per_step: float
    steps: int  # of the whole schedule, on Visual Genome
    hours: float  # of the whole schedule

    def to_json(self) -> Json:
        """Return all values."""
        return asdict(self)

    def text(self) -> str:
        """Return the values as lines for people."""
        saved = "computed twice" if self.checkpoint_activations else "kept"
        return (
            f"{self.recipe}: {self.batch_images:,} pairs in {self.accumulate} parts of {self.pairs}, {self.precision}, "
            f"activations of the image encoder {saved}\n"
            f"parameters {self.parameters:,}, and as many of the momentum copy\n"
            f"peak memory {self.peak_bytes / 1e9:.2f} GB\n"
            f"seconds a step: {self.seconds_per_step:.1f}\n"
            f"{self.steps:,} steps, {self.hours:,.1f} hours on this machine"
        )


def with_arguments(recipe: AlbefRecipe, args: Sequence[str]) -> FusionDryRun:
    """Run a recipe that is changed by options of the command line."""
    if not recipe.model.patch:
        raise UsageError(f"recipe {recipe.name} reads feature grids. --dry-run is for recipes that read pixels.")
    return dry_run(tyro.cli(AlbefRecipe, default=recipe, args=list(args), prog=f"deixis train {recipe.name}"))


def dry_run(recipe: AlbefRecipe, pieces: WordPieces | None = None) -> FusionDryRun:
    """Build the network of a recipe and take two parts of a batch with a step of the optimiser after each.

    The second part has gradients and the state of the optimiser beside it, as every later one.
    """
    pieces = pieces or WordPieces.load(minilm_folder() / "vocab.txt")
    torch.manual_seed(recipe.seed)
    network = Network(recipe, AlbefNet(replace(recipe.model, vocabulary=len(pieces))), pieces).train()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimiser = make_optimiser(recipe.schedule, trained)
    pairs, phase = -(-recipe.batch_images // recipe.accumulate), recipe.phases[-1]
    spent = stepped = 0.0
    for part in range(2):
        batch = random_batch(recipe, len(pieces), pairs, part)
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bf16"):
            terms = network(phase, batch, 0.5)
        loss = torch.stack([term.float() for term in terms.values() if term.requires_grad]).sum()
        torch.autograd.backward(loss)
        spent = time.perf_counter() - started
        started = time.perf_counter()
        optimiser.step()
        network.end_step()
        stepped = time.perf_counter() - started
    examples = TEXTS if recipe.epoch == "texts" else IMAGES
    steps = recipe.epochs * -(-examples // recipe.batch_images)
    seconds = recipe.accumulate * spent + stepped
    return FusionDryRun(
        recipe.name,
        sum(parameter.numel() for parameter in trained),
        recipe.batch_images,
        recipe.accumulate,
        pairs,
        recipe.negative_group,
        recipe.precision,
        recipe.checkpoint_activations,
        peak_memory(),
        seconds,
        steps,
        steps * seconds / 3600,
    )


def random_batch(recipe: AlbefRecipe, vocabulary: int, pairs: int, seed: int) -> Batch:
    """Make pairs of random pixels and texts of the longest length, each with a box."""
    made = torch.Generator().manual_seed(seed)
    config, side = recipe.model, map_side(recipe.model)
    longest = min(recipe.max_words, config.positions)
    first = min(1_000, vocabulary // 2)  # after the special word pieces
    words = torch.randint(first, vocabulary, (2, pairs, longest), generator=made).tolist()
    corners = torch.rand(pairs, 2, 2, generator=made).sort(1).values
    captions, targets = (pad_texts([tuple(row) for row in some], 0, longest, recipe.inputs.sep) for some in words)
    return Batch(
        torch.randn(pairs, 3, config.pixels, config.pixels, generator=made),
        captions,
        targets,
        torch.ones(pairs, dtype=torch.bool),
        box_masks(corners.view(pairs, 4), side),
    )
