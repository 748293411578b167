"""Momentum copy of a fusion model, and the queue of its vectors (ALBEF; AMC Sec. 2.1): soft targets, more negatives."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.methods.albef.network import AlbefNet


@dataclass(frozen=True)
class MomentumConfig:
    """Values of ALBEF, which AMC keeps."""

    momentum: float = 0.995
    queue: int = 65536  # earlier pairs that are negatives; 0: only those of the batch
    soft: float = 0.4  # share of the targets from the momentum copy, after the first epoch
    mask: float = 0.15  # share of the word pieces that are masked


class Momentum(nn.Module):
    """Exponential moving average of a model, and its unit vectors ``[queue, shared]`` of earlier batches.

    Both are state of the module, so a training checkpoint contains them.
    """

    images: Tensor
    texts: Tensor
    place: Tensor

    def __init__(self, model: AlbefNet, config: MomentumConfig) -> None:
        super().__init__()
        self.config = config
        self.slow = copy.deepcopy(model).requires_grad_(False)
        # initial negatives are random directions, as in ALBEF
        for name in ("images", "texts"):
            self.register_buffer(name, F.normalize(torch.randn(config.queue, model.config.shared), dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    def train(self, mode: bool = True) -> Momentum:
        """Set the mode of the module; the copy stays in evaluation mode, without dropout."""
        super().train(mode)
        self.slow.eval()
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
