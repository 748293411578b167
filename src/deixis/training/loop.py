"""The training loop of the captioners."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.decoder import Decoder, DecoderConfig
from deixis.objectives.cross_entropy import cross_entropy, hear_own_words
from deixis.objectives.cycle import Localizer, cycle
from deixis.objectives.supervised import attention_nll, region_classification
from deixis.recipes.recipe import Phase, Recipe
from deixis.training import checkpoint
from deixis.training.checkpoint import Progress
from deixis.training.examples import Batch, Example, collate
from deixis.types import Regions

Scores = dict[str, float]
Validate = Callable[[Decoder, int | None], Scores]  # decoder and how many of its branches to use (None: all)


@dataclass(frozen=True)
class Step:
    """What the loop tells after each batch."""

    epoch: int
    step: int
    steps: int  # of the whole run
    losses: Mapping[str, float]
    rate: float


@dataclass(frozen=True)
class Talk:
    """Whom the loop tells what; all calls are optional."""

    step: Callable[[Step], None] = lambda step: None
    validated: Callable[[int, Scores, bool], None] = lambda epoch, scores, best: None
    save_best: Callable[[Decoder, int, Scores], None] = lambda decoder, epoch, scores: None


class Network(nn.Module):
    """The decoder, and the localizer where a phase of the recipe needs one."""

    def __init__(self, recipe: Recipe, config: DecoderConfig) -> None:
        super().__init__()
        torch.manual_seed(recipe.seed)
        self.decoder = Decoder(config)
        if any(phase.objective == "cycle" for phase in recipe.phases):
            self.localizer = Localizer(self.decoder, recipe.cycle)

    def forward(self, recipe: Recipe, phase: Phase, batch: Batch, progress: float) -> dict[str, Tensor]:
        """The weighted loss terms of one batch; ``progress`` runs from 0 to 1 over the training."""
        pad, decoder = Vocabulary.pad, self.decoder
        encoded = decoder.encode_regions(batch.regions)
        inputs, targets = batch.words[..., :-1], batch.words[..., 1:]
        branches = phase.branches or None
        if recipe.scheduled_sampling:
            inputs = hear_own_words(decoder, encoded, inputs, recipe.scheduled_sampling * progress, pad)
        decoded = decoder(encoded, inputs, branches)
        if phase.objective == "cycle":
            return cycle(decoder, self.localizer, encoded, decoded, batch.words, pad, batch.visual)
        terms = {"words": cross_entropy(decoder, decoded, targets, pad, recipe.smoothing)}
        if phase.objective == "supervised":
            if batch.positive is None or batch.classes is None:
                raise DeixisError(
                    f"the recipe {recipe.name} learns from boxes, and the training data has none; "
                    "choose a recipe without 'supervised', or data with boxes."
                )
            terms["attention"] = recipe.boxes.attention * attention_nll(decoded.attention, batch.positive)
            if decoder.config.classes:
                known = region_classification(decoder, batch.regions.features, batch.classes)
                terms["classes"] = recipe.boxes.classes * known
        return terms


def fill(recipe: Recipe, vocabulary: Vocabulary, like: Regions) -> DecoderConfig:
    """The recipe's network with the sizes that the data decides: vocabulary, features, and the grid's width."""
    grid = 0 if not recipe.model.grid else (0 if like.grid is None else like.grid.shape[-1])
    if recipe.model.grid and not grid:
        raise DeixisError(f"the recipe {recipe.name} looks at feature grids; make the features again with --grid.")
    return replace(recipe.model, vocabulary=len(vocabulary), features=like.features.shape[1], grid=grid)


def train(
    recipe: Recipe,
    config: DecoderConfig,
    examples: Sequence[Example],
    regions: Mapping[str, Regions],
    run: Path,
    validate: Validate,
    talk: Talk | None = None,
    save_every: float = 120.0,
) -> Decoder:
    """Train a captioner; the decoder as it was when the validation score was best is given to ``talk.save_best``.

    A run that was interrupted goes on from its last checkpoint (at most ``save_every`` seconds old), and ends with the
    very weights that it would have had: the order of the images and all dropout follow from the seed and the step.
    """
    talk = talk or Talk()
    run.mkdir(parents=True, exist_ok=True)
    accelerator = Accelerator(mixed_precision="bf16" if recipe.precision == "bf16" else "no")
    network = Network(recipe, config)
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.schedule.rate)
    network, optimiser = accelerator.prepare(network, optimiser)
    bare: Network = accelerator.unwrap_model(network)
    inner = getattr(optimiser, "optimizer", optimiser)
    progress = checkpoint.load(run, bare, inner) or Progress(rate=recipe.schedule.rate)
    _cut_log(run, progress.step)
    per_epoch = -(-len(examples) // recipe.images)
    steps = per_epoch * recipe.epochs
    saved = time.monotonic()

    while progress.epoch < recipe.epochs:
        phase, begin = recipe.phase(progress.epoch)
        if progress.stopped_phase == begin + phase.epochs:
            progress.epoch, progress.batch = begin + phase.epochs, 0
            continue
        if progress.batch == 0 and progress.epoch == begin:
            # the best checkpoint is that of the last phase: an earlier one has not seen what the recipe is about
            progress.rate = phase.rate or (recipe.schedule.rate if begin == 0 else progress.rate)
            progress.best, progress.waited = -1.0, 0
        network.train()
        order = np.random.default_rng([recipe.seed, progress.epoch]).permutation(len(examples))
        for rows in _batches(order, recipe.images, progress.batch):
            torch.manual_seed(_step_seed(recipe.seed, progress.step))
            for group in inner.param_groups:
                group["lr"] = progress.rate
            batch = to_device(collate([examples[i] for i in rows], regions, Vocabulary.pad), accelerator.device)
            with accelerator.autocast():
                terms = network(recipe, phase, batch, progress.step / steps)
            loss = torch.stack(list(terms.values())).sum()
            optimiser.zero_grad()
            accelerator.backward(loss)
            if recipe.schedule.clip:
                accelerator.clip_grad_norm_(network.parameters(), recipe.schedule.clip)
            optimiser.step()
            progress.step, progress.batch = progress.step + 1, progress.batch + 1
            losses = {name: float(term.detach()) for name, term in terms.items()}
            for name, value in losses.items():
                progress.losses[name] = progress.losses.get(name, 0.0) + value
            talk.step(Step(progress.epoch, progress.step, steps, losses, progress.rate))
            if time.monotonic() - saved > save_every and accelerator.is_main_process:
                checkpoint.save(run, progress, bare, inner)
                saved = time.monotonic()
        _end_epoch(recipe, phase, begin, progress, bare.decoder, run, validate, talk)
        if accelerator.is_main_process:
            checkpoint.save(run, progress, bare, inner)
            saved = time.monotonic()
    return bare.decoder.eval()


def _end_epoch(
    recipe: Recipe,
    phase: Phase,
    begin: int,
    progress: Progress,
    decoder: Decoder,
    run: Path,
    validate: Validate,
    talk: Talk,
) -> None:
    """Validate, keep the best, lower the rate or stop the phase, and write the epoch's line of the log."""
    decoder.eval()
    scores = validate(decoder, phase.branches or None)
    score = scores[recipe.select]
    better = score > progress.best
    if better:
        progress.best, progress.best_epoch, progress.waited = score, progress.epoch, 0
        talk.save_best(decoder, progress.epoch, scores)
    else:
        progress.waited += 1
    talk.validated(progress.epoch, scores, better)
    means = {name: total / max(1, progress.batch) for name, total in progress.losses.items()}
    line = {"epoch": progress.epoch, "step": progress.step, "rate": progress.rate, "losses": means, "scores": scores}
    _log(run, line)
    done, schedule = progress.epoch - begin + 1, recipe.schedule
    counted, limit = (done, schedule.every) if schedule.every else (progress.waited, schedule.patience)
    if counted and counted % limit == 0:
        progress.rate *= schedule.decay
    if recipe.schedule.stop and progress.waited >= recipe.schedule.stop:
        progress.stopped_phase = begin + phase.epochs
    progress.epoch, progress.batch, progress.losses = progress.epoch + 1, 0, {}


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on another device."""

    def moved(value: Any) -> dict[str, Any]:
        return {name: part.to(device) for name, part in vars(value).items() if isinstance(part, Tensor)}

    return replace(batch, **moved(batch), regions=replace(batch.regions, **moved(batch.regions)))


def _batches(order: np.ndarray, size: int, done: int) -> Iterator[np.ndarray]:
    for start in range(done * size, len(order), size):
        yield order[start : start + size]


def _step_seed(seed: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> 1)


def _log(run: Path, line: Mapping[str, Any]) -> None:
    with (run / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _cut_log(run: Path, step: int) -> None:
    """Drop what an interrupted run wrote after its last checkpoint: it will be written again."""
    path = run / "log.jsonl"
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _step_of(line) <= step]
        if len(kept) < len(lines):
            path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # a torn line
