"""The training loop, one for all kinds of models."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from deixis.device import to_device
from deixis.errors import DeixisError
from deixis.files import write_atomic
from deixis.training import checkpoint
from deixis.training.checkpoint import Progress
from deixis.training.recipe import Phase, Recipe

Scores = dict[str, float]
Line = dict[str, Any]  # of the log: epoch, step, rate, losses, scores
Net = TypeVar("Net", bound=nn.Module)
Example = TypeVar("Example")
Batch = TypeVar("Batch")


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
    save_best: Callable[[Any, int, Scores], None] = lambda network, epoch, scores: None
    say: Callable[[str], None] = lambda text: None  # a line for people, such as a sample of what the model says


def train(
    recipe: Recipe,
    network: Net,
    examples: Sequence[Example],
    collate: Callable[[list[Example]], Batch],
    run: Path,
    validate: Callable[[Net, Phase], Scores],
    talk: Talk | None = None,
    finished: Callable[[Sequence[Line]], bool] = lambda lines: False,
    save_every: float = 120.0,
) -> Net:
    """Train a network; as it was when the validation score was best it is given to ``talk.save_best``.

    ``network(phase, batch, progress)`` gives the weighted loss terms of a batch, with ``progress`` from 0 to 1 over
    the training; a term without gradient is told and logged, nothing more. ``finished`` looks at the log of the phase
    so far and may end the phase early.

    A run that was interrupted goes on from its last checkpoint (at most ``save_every`` seconds old), and ends with the
    very weights that it would have had: the order of the images and all dropout follow from the seed and the step.
    """
    talk = talk or Talk()
    run.mkdir(parents=True, exist_ok=True)
    accelerator = Accelerator(mixed_precision="bf16" if recipe.precision == "bf16" else "no")
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    wrapped, optimiser = accelerator.prepare(network, torch.optim.Adam(learning, lr=recipe.schedule.rate, fused=True))
    inner = getattr(optimiser, "optimizer", optimiser)
    progress = checkpoint.load(run, network, inner) or Progress(rate=recipe.schedule.rate)
    _cut_log(run, progress.step)
    steps = -(-len(examples) // recipe.images) * recipe.epochs
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
        wrapped.train()
        order = np.random.default_rng([recipe.seed, progress.epoch]).permutation(len(examples))
        for rows in _batches(order, recipe.images, progress.batch):
            torch.manual_seed(_step_seed(recipe.seed, progress.step))
            for group in inner.param_groups:
                group["lr"] = progress.rate
            batch = to_device(collate([examples[i] for i in rows]), accelerator.device)
            with accelerator.autocast():
                terms: dict[str, Tensor] = wrapped(phase, batch, progress.step / steps)
            optimiser.zero_grad()
            accelerator.backward(torch.stack([term for term in terms.values() if term.requires_grad]).sum())
            if recipe.schedule.clip:
                accelerator.clip_grad_norm_(learning, recipe.schedule.clip)
            optimiser.step()
            progress.step, progress.batch = progress.step + 1, progress.batch + 1
            losses = {name: float(term.detach()) for name, term in terms.items()}
            for name, value in losses.items():
                progress.losses[name] = progress.losses.get(name, 0.0) + value
            talk.step(Step(progress.epoch, progress.step, steps, losses, progress.rate))
            if time.monotonic() - saved > save_every and accelerator.is_main_process:
                checkpoint.save(run, progress, network, inner)
                saved = time.monotonic()
        network.eval()
        _end_epoch(recipe, phase, begin, progress, network, run, validate(network, phase), talk, finished)
        if accelerator.is_main_process:
            checkpoint.save(run, progress, network, inner)
            saved = time.monotonic()
    return network.eval()


def _end_epoch(
    recipe: Recipe,
    phase: Phase,
    begin: int,
    progress: Progress,
    network: nn.Module,
    run: Path,
    scores: Scores,
    talk: Talk,
    finished: Callable[[Sequence[Line]], bool],
) -> None:
    """Keep the best, lower the rate or stop the phase, and write the epoch's line of the log."""
    if recipe.select not in scores:
        raise DeixisError(
            f"the recipe {recipe.name} selects by {recipe.select}, and validation gives {', '.join(scores)}; "
            "choose one of these (--select), or validation data that has what it takes."
        )
    score = scores[recipe.select]
    better = score > progress.best
    if better:
        progress.best, progress.best_epoch, progress.waited = score, progress.epoch, 0
        talk.save_best(network, progress.epoch, scores)
    else:
        progress.waited += 1
    talk.validated(progress.epoch, scores, better)
    means = {name: total / max(1, progress.batch) for name, total in progress.losses.items()}
    line = {"epoch": progress.epoch, "step": progress.step, "rate": progress.rate, "losses": means, "scores": scores}
    lines = [*_read_log(run), line]
    with (run / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    done, schedule = progress.epoch - begin + 1, recipe.schedule
    counted, limit = (done, schedule.every) if schedule.every else (progress.waited, schedule.patience)
    if counted and counted % limit == 0:
        progress.rate *= schedule.decay
    if (schedule.stop and progress.waited >= schedule.stop) or finished(lines[-done:]):
        progress.stopped_phase = begin + phase.epochs
    progress.epoch, progress.batch, progress.losses = progress.epoch + 1, 0, {}


def _batches(order: np.ndarray, size: int, done: int) -> Iterator[np.ndarray]:
    for start in range(done * size, len(order), size):
        yield order[start : start + size]


def _step_seed(seed: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> 1)


def _read_log(run: Path) -> list[Line]:
    path = run / "log.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _cut_log(run: Path, step: int) -> None:
    """Drop what an interrupted run wrote after its last checkpoint: it will be written again."""
    path = run / "log.jsonl"
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if _step_of(line) <= step]
        if len(kept) < len(lines):
            write_atomic(path, "".join(line + "\n" for line in kept))


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")  # a torn line
