"""Callbacks of the training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """State after one batch."""

    epoch: int  # from 1
    epochs: int  # of the whole run
    step: int  # from 1
    steps: int  # of the whole run
    lr: float
    losses: Mapping[str, float]  # weighted loss terms
    explanations: Mapping[str, str]  # of the loss terms (:attr:`Recipe.loss_terms`)


@dataclass(frozen=True)
class Callbacks:
    """Functions that the training loop calls; all are optional and none changes the result."""

    step: Callable[[Step], None] = lambda step: None
    validated: Callable[[int, Mapping[str, float], bool], None] = lambda epoch, scores, best: None  # epoch from 1
    message: Callable[[str], None] = lambda text: None  # such as sample captions of a validation


def no_progress(name: str) -> AbstractContextManager[Callbacks]:
    """Return callbacks that do nothing, for a run of this name."""
    return nullcontext(Callbacks())
