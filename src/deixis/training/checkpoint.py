"""Checkpoints: network, optimiser and progress of a run, used to resume an interrupted run.

A checkpoint is a folder ``resume-<step>`` in the run's folder. It is written under a temporary name, flushed and
renamed; then the previous checkpoint is deleted. Tensors are stored as safetensors, all other values as JSON.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.files import atomic_folder, read_settings, remove_partial
from deixis.model_folder import current_names, load_tensors

_NAME = re.compile(r"resume-(\d+)")


@dataclass
class Progress:
    """State of a run. The seed and the step determine all random numbers, so no generator state is saved."""

    step: int = 0  # batches done, over all epochs
    epoch: int = 0  # epochs done
    batch: int = 0  # batches done in the current epoch
    lr: float = 0.0
    best: float = -1.0  # best score of the phase so far; -1: none yet
    best_loss: float = 0.0  # mean training loss of the epoch with the best score
    waited: int = 0  # validations since the last improvement
    stopped_phase: int = -1  # end epoch, in the recipe, of a phase that was stopped early
    losses: dict[str, float] = field(default_factory=dict)  # sums over the current epoch
    loss: float = 0.0  # sum of the minimised loss over the current epoch


def save(run: Path, progress: Progress, model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Write a checkpoint and delete the previous ones."""
    place = run / f"resume-{progress.step}"
    remove_partial(run)
    weights = {name: value.contiguous() for name, value in model.state_dict().items()}
    with atomic_folder(place) as folder:
        save_file(weights, folder / "weights.safetensors")
        save_file(_optimiser_state(model, optimiser), folder / "optimiser.safetensors")
        (folder / "progress.json").write_text(json.dumps(asdict(progress), indent=1) + "\n", encoding="utf-8")
    for other in _checkpoints(run):
        if other != place:
            shutil.rmtree(other)


def load(run: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> Progress | None:
    """Load the newest checkpoint of a run into model and optimiser; return None if there is none."""
    found = _checkpoints(run)
    if not found:
        return None
    try:
        progress = read_progress(found[-1] / "progress.json")
        model.load_state_dict(current_names(model, load_tensors(found[-1] / "weights.safetensors")))
        _restore_optimiser(model, optimiser, load_tensors(found[-1] / "optimiser.safetensors"))
    except (OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise DeixisError(
            f"{found[-1]} does not match this recipe ({str(error).splitlines()[0]}). "
            "Use the original recipe of the run, or choose another --out."
        ) from None
    return progress


def read_progress(path: Path) -> Progress:
    """Read ``progress.json``; in version 0.1 the learning rate has the name "rate"."""
    values = read_settings(path)
    values.pop("best_epoch", None)
    if "rate" in values:
        values["lr"] = values.pop("rate")
    return Progress(**values)


def _checkpoints(run: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    found = [(int(match[1]), path) for path in run.glob("resume-*") if (match := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def _optimiser_state(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{key}/{name}": value.detach().clone().contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def _restore_optimiser(model: nn.Module, optimiser: torch.optim.Optimizer, saved: dict[str, Tensor]) -> None:
    for name, parameter in model.named_parameters():
        state = {key.split("/", 1)[0]: value for key, value in saved.items() if key.split("/", 1)[1] == name}
        if state:
            optimiser.state[parameter] = state
