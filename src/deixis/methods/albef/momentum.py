"""The momentum copy of a fusion model and the queue of what it said: steadier targets, and more negatives."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.methods.albef.network import AlbefNet


@dataclass(frozen=True)
class MomentumConfig:
    """The values of ALBEF, which AMC keeps."""

    momentum: float = 0.995
    queue: int = 65536  # earlier pairs that are negatives too; 0: those of the batch alone
    soft: float = 0.4  # share of the targets that the copy gives, once warm
    mask: float = 0.15  # share of the word pieces that are hidden


class Momentum(nn.Module):
    """A copy that follows its model slowly, and the unit vectors ``[queue, shared]`` that it gave to earlier batches.

    All of it is state of the module, so that a checkpoint of the training holds it.
    """

    images: Tensor
    texts: Tensor
    place: Tensor

    def __init__(self, model: AlbefNet, config: MomentumConfig) -> None:
        super().__init__()
        self.config = config
        self.slow = copy.deepcopy(model).requires_grad_(False)
        # as ALBEF begins: random directions, which are negatives like any other and soon pushed out
        for name in ("images", "texts"):
            self.register_buffer(name, F.normalize(torch.randn(config.queue, model.config.shared), dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    def train(self, mode: bool = True) -> Momentum:
        """The copy never drops anything: its answers are targets."""
        super().train(mode)
        self.slow.eval()
        return self

    @torch.no_grad()
    def follow(self, model: AlbefNet) -> None:
        """Move a little towards the model."""
        pairs = zip(self.slow.parameters(), model.parameters(), strict=True)
        for slow, fast in pairs:
            slow.lerp_(fast, 1 - self.config.momentum)

    @torch.no_grad()
    def remember(self, images: Tensor, texts: Tensor) -> None:
        """Put vectors ``[B, shared]`` into the queue, over the oldest."""
        if self.config.queue == 0:
            return
        rows = (self.place + torch.arange(len(images), device=images.device)) % self.config.queue
        self.images[rows], self.texts[rows] = images.to(self.images.dtype), texts.to(self.texts.dtype)
        self.place.copy_((self.place + len(images)) % self.config.queue)
