"""What a recipe is: network, objectives and schedule of a published row, typed, and open to change by options."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

PAIRS = "photographs with captions, no boxes"
BOXES = "boxes of the training set"


@dataclass(frozen=True)
class Phase:
    """A stretch of epochs with one objective."""

    epochs: int
    objective: str = ""  # one of those that the network knows; empty: its first
    branches: int = 0  # how many of a captioner's branches take part; 0: all
    rate: float = 0.0  # learning rate at its start; 0: as the schedule has it


@dataclass(frozen=True)
class Schedule:
    """Adam's learning rate and what happens to it."""

    rate: float = 5e-4
    decay: float = 0.8  # the rate is multiplied by this ...
    every: int = 3  # ... every so many epochs; 0: when the chosen validation score has not risen for `patience` epochs
    patience: int = 3
    clip: float = 0.1  # largest norm of the gradient; 0: none
    stop: int = 0  # end a phase when the score has not risen for so many epochs; 0: never


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What decides a training run besides the data. Each kind of model adds its network and its objectives."""

    purpose: ClassVar[str]  # what models of this kind are for, in a sentence
    name: str
    paper: str  # which row of which paper this is
    supervision: str  # what the training sees besides pixels
    phases: tuple[Phase, ...]
    schedule: Schedule = field(default_factory=Schedule)
    images: int = 13  # per batch, each with its five captions: about the papers' 64 captions
    minimum: int = 5  # how often a word must be seen to enter the vocabulary
    max_words: int = 20  # captions are cut here, and sentences end here
    select: str  # validation score that picks the best checkpoint
    precision: Literal["fp32", "bf16"] = "fp32"
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """All fields, nested, as plain values."""
        return asdict(self)

    @property
    def epochs(self) -> int:
        """Of all phases together."""
        return sum(phase.epochs for phase in self.phases)

    def phase(self, epoch: int) -> tuple[Phase, int]:
        """The phase that an epoch (from 0) belongs to, and the epoch that it began with."""
        begin = 0
        for phase in self.phases:
            if epoch < begin + phase.epochs:
                return phase, begin
            begin += phase.epochs
        raise ValueError(f"recipe {self.name} has {begin} epochs, there is no epoch {epoch}")
