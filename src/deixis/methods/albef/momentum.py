"""Momentum copy of a fusion model, and the queue of its vectors (ALBEF; AMC Sec. 2.1): soft targets, more negatives."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.errors import DeixisError
from deixis.files import atomic_path
from deixis.methods.albef.network import AlbefNet
from deixis.model_folder import load_tensors

STATE = "momentum.safetensors"
"""File of a model folder with the momentum copy and the queue of its training."""


@dataclass(frozen=True)
class MomentumConfig:
    """Values of ALBEF, which AMC keeps."""

    momentum: float = 0.995
    queue: int = 65536  # earlier pairs that are negatives; 0: only those of the batch
    soft: float = 0.4  # share of the targets from the momentum copy, after the first epoch
    mask: float = 0.15  # share of the word pieces that are masked
    negatives: Literal["model", "momentum"] = "model"  # vectors of the other side by which hard negatives are drawn
    dropout: bool = False  # whether the copy has dropout, as in the published code


@dataclass(frozen=True)
class MomentumState:
    """Momentum copy and queue of a finished training, from which another can go on."""

    slow: Mapping[str, Tensor]  # weights of the copy
    images: Tensor  # [queue, shared]
    texts: Tensor
    place: int  # row of the queue that is overwritten next

    def save(self, folder: Path) -> None:
        """Write the state beside a model's weights; models are used without it."""
        tensors = {f"slow.{name}": value.contiguous() for name, value in self.slow.items()}
        tensors |= {"images": self.images, "texts": self.texts, "place": torch.tensor(self.place)}
        with atomic_path(folder / STATE) as tmp_path:
            save_file({name: value.clone() for name, value in tensors.items()}, tmp_path)

    @classmethod
    def load(cls, folder: Path) -> MomentumState | None:
        """Read the state of a model folder; None where it has none."""
        file = folder / STATE
        if not file.is_file():
            return None
        try:
            tensors = load_tensors(file)
            place = int(tensors.pop("place"))
            slow = {name.removeprefix("slow."): value for name, value in tensors.items() if name.startswith("slow.")}
            return cls(slow, tensors["images"], tensors["texts"], place)
        except (SafetensorError, KeyError, ValueError, RuntimeError, OSError) as error:
            raise DeixisError(f"{file} cannot be read ({error}). Import the model again, or delete the file.") from None


class Momentum(nn.Module):
    """Exponential moving average of a model, and its unit vectors ``[queue, shared]`` of earlier batches.

    Both are state of the module, so a training checkpoint contains them.
    """

    images: Tensor
    texts: Tensor
    place: Tensor

    def __init__(self, model: AlbefNet, config: MomentumConfig, state: MomentumState | None = None) -> None:
        super().__init__()
        self.config = config
        self.slow = copy.deepcopy(model).requires_grad_(False)
        # initial negatives are random directions, as in ALBEF
        for name in ("images", "texts"):
            self.register_buffer(name, F.normalize(torch.randn(config.queue, model.config.shared), dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))
        if state is not None:
            self._continue(state)

    def _continue(self, state: MomentumState) -> None:
        """Take over the copy and the newest vectors of an earlier training's queue."""
        self.slow.load_state_dict(state.slow)
        order = (torch.arange(len(state.images)) + state.place) % max(1, len(state.images))  # oldest first
        newest = order[max(0, len(order) - self.config.queue) :]
        if state.images.shape[1:] != self.images.shape[1:]:
            raise ValueError(f"the queue has vectors of {state.images.shape[1]}, the model {self.images.shape[1]}")
        self.images[: len(newest)], self.texts[: len(newest)] = state.images[newest], state.texts[newest]
        self.place.fill_(len(newest) % max(1, self.config.queue))

    def train(self, mode: bool = True) -> Momentum:
        """Set the mode of the module; without ``config.dropout`` the copy stays in evaluation mode."""
        super().train(mode)
        self.slow.train(mode and self.config.dropout)
        return self

    @torch.no_grad()
    def update(self, model: AlbefNet) -> None:
        """Update the moving average with the model's weights."""
        pairs = zip(self.slow.parameters(), model.parameters(), strict=True)
        for slow, fast in pairs:
            slow.lerp_(fast, 1 - self.config.momentum)

    @torch.no_grad()
    def enqueue(self, images: Tensor, texts: Tensor) -> None:
        """Write vectors ``[B, shared]`` into the queue, over the oldest."""
        if self.config.queue == 0:
            return
        rows = (self.place + torch.arange(len(images), device=images.device)) % self.config.queue
        self.images[rows], self.texts[rows] = images.to(self.images.dtype), texts.to(self.texts.dtype)
        self.place.copy_((self.place + len(images)) % self.config.queue)
