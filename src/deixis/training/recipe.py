"""A recipe: network, losses and schedule of a published row as frozen dataclasses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_type_hints

from deixis.errors import DeixisError

T = TypeVar("T")

BOXES = "boxes of the training set"


@dataclass(frozen=True)
class Phase:
    """A number of epochs with one loss."""

    epochs: int
    loss: str = ""  # a loss of the method; empty: its first
    branches: int = 0  # attention branches of a captioner that are trained; 0: all
    lr: float = 0.0  # learning rate at the start of the phase; 0: that of the schedule
    decay: bool = True  # whether the learning rate decays in this phase
    from_best: bool = False  # start from the weights of the best epoch of the phase before, not of its last


@dataclass(frozen=True)
class Schedule:
    """Optimiser, learning rate, gradient clipping and early stopping."""

    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    momentum: float = 0.9  # of SGD
    weight_decay: float = 0.0
    decay_all: bool = True  # apply weight decay to biases and other vectors too
    lr: float = 5e-4
    warmup_steps: int = 0  # steps in which the learning rate grows linearly from a thousandth
    cosine: bool = False  # cosine of ALBEF's and AMC's code instead of all decays: see loop.cosine_lr
    warmup_epochs: int = 0  # of the cosine: units of 100 steps in the first epoch
    warmup_lr: float = 0.0  # of the cosine: learning rate of the first step
    min_lr: float = 0.0  # last learning rate of the cosine; other decays do not go below it
    decay: float = 0.8  # factor of the learning rate
    milestones: tuple[float, ...] = ()  # shares of the training after which the rate decays, in place of the next two
    decay_every: int = 3  # epochs between decays; 0: decay after `patience` epochs without improvement
    patience: int = 3
    clip_norm: float = 0.1  # maximum gradient norm; 0: no clipping
    clip_value: float = 0.0  # maximum absolute value of each gradient; 0: no clipping
    early_stop_epochs: int = 0  # epochs without improvement that end a phase; 0: never


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of a training run except the data. Each method adds its network and its losses."""

    purpose: ClassVar[str]  # purpose of models of this method, one sentence
    losses: ClassVar[tuple[str, ...]]  # values of Phase.loss; the first is the default
    loss_terms: ClassVar[Mapping[str, str]]  # explanation of each term that the losses report
    name: str
    paper: str  # row of the paper's table
    phases: tuple[Phase, ...]
    schedule: Schedule = field(default_factory=Schedule)
    batch_images: int = 13  # images per batch, each with all its captions
    min_count: int = 5  # minimum occurrences of a vocabulary word in the training captions
    max_words: int = 20  # maximum length of training captions and of generated sentences
    monitor: str  # validation score that selects the best epoch
    accumulate: int = 1  # parts of a batch that are computed one after another, to save memory
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """All fields, nested, as plain values."""
        return asdict(self)

    def settings(self) -> dict[str, Any]:
        """All fields as JSON values, without ``paper``, which is a text about them."""
        settings: dict[str, Any] = json.loads(json.dumps(self.to_json()))
        del settings["paper"]
        return settings

    @property
    def epochs(self) -> int:
        """Total number of epochs."""
        return sum(phase.epochs for phase in self.phases)

    def phase(self, epoch: int) -> tuple[Phase, int]:
        """Phase of an epoch (from 0), and the first epoch of that phase."""
        start = 0
        for phase in self.phases:
            if epoch < start + phase.epochs:
                return phase, start
            start += phase.epochs
        raise ValueError(f"recipe {self.name} has {start} epochs, so epoch {epoch} does not exist")

    def box_sources(self) -> tuple[str, ...]:
        """Sources of the boxes used by the losses; empty if no loss uses boxes."""
        return ()

    @property
    def uses_regions(self) -> bool:
        """Whether the input is features of a region extractor; otherwise it is pixels."""
        return True

    def check_losses(self) -> None:
        """Raise an error if the method does not have the loss of a phase."""
        for phase in self.phases:
            if phase.loss not in ("", *self.losses):
                raise DeixisError(
                    f"recipe {self.name}: the method has no loss '{phase.loss}'. Use {', '.join(self.losses)}."
                )


def from_json(cls: type[T], values: Mapping[str, Any]) -> T:
    """Build a dataclass from JSON, including nested dataclasses and tuples; missing fields get defaults."""
    names = [each.name for each in fields(cls)]  # type: ignore[arg-type]
    if unknown := [name for name in values if name not in names]:
        raise DeixisError(f"{cls.__name__} has no field '{unknown[0]}'. Use one of {', '.join(names)}.")
    types = get_type_hints(cls)
    return cls(**{name: _convert(types[name], value) for name, value in values.items()})


def _convert(wanted: Any, value: Any) -> Any:
    if is_dataclass(wanted) and isinstance(value, Mapping):
        return from_json(wanted, value)  # type: ignore[arg-type]
    if isinstance(value, list):
        item = get_args(wanted)[0]
        return tuple(_convert(item, each) for each in value)
    return value
