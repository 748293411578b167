"""The training loop of all methods."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from deixis import distributed
from deixis.device import to_device, training_device
from deixis.errors import DeixisError
from deixis.layers.noise import sample_keys
from deixis.training import checkpoint
from deixis.training.callbacks import Callbacks, Step
from deixis.training.checkpoint import Progress
from deixis.training.log import append_line, cut_log, read_log
from deixis.training.parts import Order
from deixis.training.prefetch import ahead
from deixis.training.recipe import Phase, Recipe, Schedule
from deixis.training.types import Line, Scores

Net = TypeVar("Net", bound=nn.Module)
Example = TypeVar("Example")
Batch = TypeVar("Batch")


def train(
    recipe: Recipe,
    network: Net,
    examples: Sequence[Example],
    collate: Callable[[list[Example], Tensor], Batch],
    run: Path,
    validate: Callable[[Net, Phase], Scores],
    save: Callable[[Net, int, Scores], None],
    callbacks: Callbacks | None = None,
    finished: Callable[[Sequence[Line]], bool] = lambda lines: False,
    restore: Callable[[Net], None] | None = None,
    save_every: float = 120.0,
    prefetch: Callable[[list[Example]], None] = lambda examples: None,
    after_step: Callable[[], None] = lambda: None,
    order: Order | None = None,
) -> Net:
    """Train a network with a recipe; call ``save(network, epoch, scores)`` after each new best epoch.

    ``network(phase, batch, progress)`` returns the weighted loss terms of a batch. ``progress`` increases from 0 to 1
    during training. Terms without gradient are only logged. ``validate`` returns scores. The best epoch of the last
    phase has the highest ``recipe.monitor`` and, among equal scores, the lowest training loss. ``finished(lines)`` gets
    the log of the current phase and returns True to end it. ``restore(network)`` loads the weights that ``save`` wrote
    last, for phases that start from the best epoch. ``collate(examples, keys)`` makes a batch; ``keys`` are the random
    keys of the examples (:mod:`deixis.layers.noise`).

    A batch is computed in ``recipe.accumulate`` parts; their terms are weighted by their number of examples. A thread
    collates the next part while the current one is computed. In this thread ``prefetch`` gets the examples of the batch
    after that. ``after_step`` is called after each step of the optimiser. A recipe of no epochs validates and saves the
    initial network.
    ``order(seed, epoch)`` gives the rows of the examples of an epoch; without it, every example occurs once, shuffled.

    An interrupted run resumes from its last checkpoint (at most ``save_every`` seconds old) with identical results:
    the seed and the step determine the order of the images and all dropout. With several processes
    (:mod:`deixis.distributed`) each has a share of every batch; process 0 writes log, checkpoints and model.
    """
    main = distributed.rank() == 0
    callbacks = callbacks if callbacks is not None and main else Callbacks()
    run.mkdir(parents=True, exist_ok=True)
    device = training_device()
    network.to(device)
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimiser = make_optimiser(recipe.schedule, trained)
    progress = distributed.broadcast(checkpoint.load(run, network, optimiser) or Progress(lr=recipe.schedule.lr))
    if main:
        cut_log(run, progress.step)
    steps = -(-len(examples) // recipe.batch_images) * recipe.epochs
    saved = time.monotonic()

    while progress.epoch < recipe.epochs:
        phase, start = recipe.phase(progress.epoch)
        if progress.stopped_phase == start + phase.epochs:
            progress.epoch, progress.batch = start + phase.epochs, 0
            continue
        if progress.batch == 0 and progress.epoch == start:
            _start_phase(recipe, phase, progress)
            if phase.from_best and start and restore is not None:
                restore(network)
                optimiser.state.clear()
        network.train()
        shuffled = (order or _shuffle(len(examples)))(recipe.seed, progress.epoch)
        batches = list(_batches(shuffled, recipe.batch_images, progress.batch))

        def make(part: _Share) -> Batch:
            if part.following:
                prefetch([examples[i] for i in part.following])
            return collate([examples[i] for i in part.rows], sample_keys(part.seed, part.rows))

        collated = ahead(make, _parts(batches, recipe, progress.step))
        for rows in batches:
            lr = step_lr(recipe.schedule, progress.lr, progress.step, steps)
            if recipe.schedule.cosine:
                lr = cosine_lr(recipe.schedule, progress.lr, progress.epoch, progress.batch, recipe.epochs)
            for group in optimiser.param_groups:
                group["lr"] = lr
            optimiser.zero_grad()
            logged: list[dict[str, Tensor]] = []
            for part in _shares(rows, recipe, progress.step):
                batch = to_device(next(collated), device)
                with distributed.replicated(part.whole):
                    torch.manual_seed(part.seed)  # for numbers that do not belong to a sample
                    with torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bf16"):
                        terms: dict[str, Tensor] = network(phase, batch, progress.step / steps)
                logged.append(_backward(terms, part.weight))
            distributed.add_gradients(trained)
            losses, loss = _totals(logged)
            if recipe.schedule.clip_norm:
                nn.utils.clip_grad_norm_(trained, recipe.schedule.clip_norm)
            if recipe.schedule.clip_value:
                nn.utils.clip_grad_value_(trained, recipe.schedule.clip_value)
            optimiser.step()
            after_step()
            _count(progress, losses, loss)
            callbacks.step(_step(recipe, progress, steps, lr, losses))
            if time.monotonic() - saved > save_every and main:
                checkpoint.save(run, progress, network, optimiser)
                saved = time.monotonic()
        network.eval()
        scores = distributed.broadcast(validate(network, phase))
        better = _is_better(recipe, progress, scores)
        if main:
            if better:
                save(network, progress.epoch + 1, scores)
            callbacks.validated(progress.epoch + 1, scores, better)
            _end_epoch(recipe, phase, start, progress, run, scores, finished)
            checkpoint.save(run, progress, network, optimiser)
            saved = time.monotonic()
        progress = distributed.broadcast(progress)
    if recipe.epochs == 0:
        network.eval()
        scores = validate(network, recipe.phases[-1])
        if main:
            save(network, 0, scores)
    return network.eval()


@dataclass(frozen=True)
class _Share:
    """Rows of a part of a batch that this process computes."""

    rows: list[int]
    whole: bool  # every process computes the whole part, because it has fewer rows than there are processes
    weight: float  # of its loss terms: their share in the batch
    seed: int  # of the step
    following: Sequence[int] = ()  # of the first part: the rows of this process in the next batch


def _shares(rows: np.ndarray, recipe: Recipe, step: int) -> Iterator[_Share]:
    """Split a batch into parts, and each part over the processes."""
    seed = _step_seed(recipe.seed, step)
    for part in np.array_split(rows, min(recipe.accumulate, len(rows))) if len(rows) else ():
        whole, weight = len(part) < distributed.processes(), len(part) / len(rows)
        mine = part.tolist() if whole else distributed.share(part.tolist())
        yield _Share(list(mine), whole, weight / distributed.processes() if whole else weight, seed)


def _parts(batches: Sequence[np.ndarray], recipe: Recipe, step: int) -> Iterator[_Share]:
    """Yield the parts of all batches of an epoch; ``step`` is that of the first."""
    for number, (rows, after) in enumerate(zip_longest(batches, batches[1:], fillvalue=np.empty(0, int)), step):
        following = [row for part in _shares(after, recipe, number + 1) for row in part.rows]
        for part in _shares(rows, recipe, number):
            yield replace(part, following=following)
            following = []


def _backward(terms: dict[str, Tensor], weight: float) -> dict[str, Tensor]:
    """Add the gradients of a part of a batch; return its weighted loss terms, those without gradient detached."""
    weighted = {name: weight * term.float() for name, term in terms.items()}
    loss = torch.stack([term for term in weighted.values() if term.requires_grad]).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return weighted


def _totals(logged: Sequence[dict[str, Tensor]]) -> tuple[Scores, float]:
    """Loss terms of a whole batch, summed over its parts and over the processes, and the sum of the minimised ones."""
    names = list(dict.fromkeys(name for terms in logged for name in terms))
    minimised = {name for terms in logged for name, term in terms.items() if term.requires_grad}
    sums = torch.stack([torch.stack([terms[n].detach() for terms in logged if n in terms]).sum() for n in names])
    losses = dict(zip(names, distributed.total(sums).tolist(), strict=True))
    return losses, sum(losses[name] for name in names if name in minimised)


def make_optimiser(schedule: Schedule, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """Build the optimiser of a schedule."""
    lr, weight_decay = schedule.lr, schedule.weight_decay
    if schedule.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=schedule.momentum, weight_decay=weight_decay, fused=True)
    kind = torch.optim.AdamW if schedule.optimiser == "adamw" else torch.optim.Adam
    if schedule.decay_all:
        return kind(parameters, lr=lr, weight_decay=weight_decay, fused=True)
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return kind(groups, lr=lr, fused=True)


def step_lr(schedule: Schedule, lr: float, step: int, steps: int) -> float:
    """Learning rate of a step (from 0) of ``steps``: ``lr`` after warm-up and the milestones that have passed."""
    lr *= schedule.decay ** sum(step >= share * steps for share in schedule.milestones)
    if step < schedule.warmup_steps:
        lr *= 1e-3 + (1 - 1e-3) * step / schedule.warmup_steps
    return lr


def _shuffle(count: int) -> Order:
    """Every example once, in random order."""
    return lambda seed, epoch: np.random.default_rng([seed, epoch]).permutation(count)


COSINE_UNIT = 100
"""Steps between two learning rates of the warm-up of :func:`cosine_lr`."""


def cosine_lr(schedule: Schedule, lr: float, epoch: int, batch: int, epochs: int) -> float:
    """Learning rate of ALBEF's and AMC's code for a batch (from 0) of an epoch (from 0).

    Its clock counts units of 100 steps up to ``warmup_epochs`` in the first epoch, and then epochs, ahead by
    ``warmup_epochs``: linear warm-up to ``lr``, cosine of clock / epochs to ``min_lr``, and ``min_lr`` after that.
    """
    ahead = schedule.warmup_epochs
    clock = min(max(batch - 1, 0) // COSINE_UNIT, ahead) if epoch == 0 else epoch + ahead
    if clock < ahead:
        return schedule.warmup_lr + clock * (lr - schedule.warmup_lr) / ahead
    if clock >= epochs:
        return schedule.min_lr
    return schedule.min_lr + (lr - schedule.min_lr) * (1 + math.cos(math.pi * clock / epochs)) / 2


def _start_phase(recipe: Recipe, phase: Phase, progress: Progress) -> None:
    """Set the learning rate and reset the best score, so that the saved model is from the last phase."""
    progress.lr = phase.lr or (recipe.schedule.lr if progress.epoch == 0 else progress.lr)
    progress.best, progress.best_loss, progress.waited = -1.0, 0.0, 0


def _count(progress: Progress, losses: Scores, loss: float) -> None:
    """Add a batch to the progress."""
    progress.step, progress.batch, progress.loss = progress.step + 1, progress.batch + 1, progress.loss + loss
    for name, value in losses.items():
        progress.losses[name] = progress.losses.get(name, 0.0) + value


def _step(recipe: Recipe, progress: Progress, steps: int, lr: float, losses: Scores) -> Step:
    epoch = progress.epoch + 1
    return Step(epoch, recipe.epochs, progress.step, steps, lr, losses, recipe.loss_terms)


def _is_better(recipe: Recipe, progress: Progress, scores: Scores) -> bool:
    """Whether the epoch is the best of its phase so far; update the best score and the epochs since then."""
    if recipe.monitor not in scores:
        raise DeixisError(
            f"recipe {recipe.name}: the monitored score {recipe.monitor} is not a validation score "
            f"({', '.join(scores)}). Choose one of these with --monitor, or use validation data with boxes."
        )
    score, loss = scores[recipe.monitor], progress.loss / max(1, progress.batch)
    improved = score > progress.best
    progress.waited = 0 if improved else progress.waited + 1
    better = improved or (score == progress.best and loss < progress.best_loss)
    if better:
        progress.best, progress.best_loss = score, loss
    return better


def _end_epoch(
    recipe: Recipe,
    phase: Phase,
    start: int,
    progress: Progress,
    run: Path,
    scores: Scores,
    finished: Callable[[Sequence[Line]], bool],
) -> None:
    """Log the epoch, decay the learning rate, check early stopping, and advance to the next epoch."""
    batches = max(1, progress.batch)
    line = {
        "epoch": progress.epoch + 1,
        "step": progress.step,
        "lr": progress.lr,
        "loss": progress.loss / batches,
        "losses": {name: total / batches for name, total in progress.losses.items()},
        "scores": scores,
    }
    lines = [*read_log(run), line]
    append_line(run, line)
    done, schedule = progress.epoch - start + 1, recipe.schedule
    # phases without a rate of their own continue the counter of the phase before
    count = done if phase.lr else progress.epoch + 1
    counted, limit = (count, schedule.decay_every) if schedule.decay_every else (progress.waited, schedule.patience)
    if phase.decay and not schedule.milestones and counted and counted % limit == 0:
        progress.lr = max(progress.lr * schedule.decay, min(progress.lr, schedule.min_lr))
    stop = schedule.early_stop_epochs
    if (stop and progress.waited >= stop) or finished(lines[-done:]):
        progress.stopped_phase = start + phase.epochs
    progress.epoch, progress.batch, progress.losses, progress.loss = progress.epoch + 1, 0, {}, 0.0


def _batches(order: np.ndarray, size: int, done: int) -> Iterator[np.ndarray]:
    for start in range(done * size, len(order), size):
        yield order[start : start + size]


def _step_seed(seed: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, step]).generate_state(1, np.uint64)[0] >> 1)
