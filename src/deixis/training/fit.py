"""The loop: batches of images with all their captions, one objective, Adam."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from deixis.models.decoder import Decoder
from deixis.objectives.cross_entropy import cross_entropy


@dataclass(frozen=True, eq=False)
class Example:
    """One image for training: its region features ``[N, D]`` and its captions as word ids, bos first, eos last."""

    features: npt.NDArray[np.floating]
    captions: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Batch:
    """Images with all their captions, padded."""

    features: Tensor  # [I, N, D]
    mask: Tensor  # [I, N] True where there is a region
    words: Tensor  # [I, C, T] bos first, eos last, pad behind; all pad where an image has fewer captions


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to learn."""

    epochs: int
    images: int = 16  # per batch, each with all its captions
    rate: float = 2e-3  # falls to zero along half a cosine
    clip: float = 1.0  # norm of the gradient
    seed: int = 0


def fit(
    decoder: Decoder,
    examples: Sequence[Example],
    pad: int,
    schedule: Schedule,
    report: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> None:
    """Train in place; ``report(step, steps, loss)`` is called after every step. The seed fixes the result."""
    torch.manual_seed(schedule.seed)
    order = np.random.default_rng(schedule.seed)
    steps = schedule.epochs * -(-len(examples) // schedule.images)
    optimiser = torch.optim.Adam(decoder.parameters(), lr=schedule.rate)
    cooling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    decoder.train()
    step = 0
    for _ in range(schedule.epochs):
        for batch in batches(examples, schedule.images, pad, order):
            decoded = decoder(decoder.encode(batch.features, batch.mask), batch.words[..., :-1])
            loss = cross_entropy(decoder, decoded, batch.words[..., 1:], pad)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(decoder.parameters(), schedule.clip)
            optimiser.step()
            cooling.step()
            step += 1
            report(step, steps, float(loss.detach()))
    decoder.eval()


def batches(
    examples: Sequence[Example], images: int, pad: int, order: np.random.Generator | None = None
) -> Iterator[Batch]:
    """The examples in batches of ``images`` images, shuffled where ``order`` is given."""
    index = np.arange(len(examples)) if order is None else order.permutation(len(examples))
    for start in range(0, len(index), images):
        yield collate([examples[i] for i in index[start : start + images]], pad)


def collate(examples: Sequence[Example], pad: int) -> Batch:
    """Pad regions and captions to the longest of the batch."""
    most = max(len(e.features) for e in examples)
    features = torch.zeros(len(examples), most, examples[0].features.shape[1])
    mask = torch.zeros(len(examples), most, dtype=torch.bool)
    for row, example in enumerate(examples):
        features[row, : len(example.features)] = torch.from_numpy(np.asarray(example.features, dtype=np.float32))
        mask[row, : len(example.features)] = True
    captions = max(len(e.captions) for e in examples)
    longest = max((len(caption) for e in examples for caption in e.captions), default=0)
    words = torch.full((len(examples), captions, longest), pad)
    for row, example in enumerate(examples):
        for at, caption in enumerate(example.captions):
            words[row, at, : len(caption)] = torch.tensor(caption)
    return Batch(features, mask, words)
