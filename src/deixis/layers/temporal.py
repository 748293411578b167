"""Encoder of temporal features of a video: embedding, batch norm, and a bidirectional GRU of two layers.

As in Grounded Video Description and Cyclical. Sizes in shapes: I videos, T rows, R width of a row, S steps.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.distributed import total, world
from deixis.layers.noise import drop, fold
from deixis.layers.padded import SEGMENT_WIDTH

BETWEEN_LAYERS = 0.2
"""Dropout between the two layers of the GRU."""


class TemporalEncoder(nn.Module):
    """Network from the rows of a whole video to ``steps`` encoded rows, the mask of a segment, and a video vector."""

    def __init__(self, width: int, hidden: int, steps: int, motion: int = 0, dropout: float = 0.5) -> None:
        """``motion``: width of the motion part at the end of a row, which has an embedding of its own; 0: none."""
        super().__init__()
        self.steps, self.motion, self.dropout = steps, motion, dropout
        if motion:
            self.appearance = nn.Linear(width - motion, hidden // 2)
            self.movement = nn.Linear(motion, hidden - hidden // 2)
        else:
            self.appearance = nn.Linear(width, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.gru = nn.GRU(hidden, hidden // 2, 2, batch_first=True, dropout=BETWEEN_LAYERS, bidirectional=True)
        self.segment = nn.Linear(4, SEGMENT_WIDTH)

    def forward(
        self, rows: Tensor, lengths: Tensor, segment: Tensor, random: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return encoded rows ``[I, S, hidden]``, the mask ``[I, S]`` of the segment and the vector ``[I, R + 50]``.

        ``rows [I, T, R]`` are zero after the end of a video, ``lengths [I]`` its numbers of rows (before any cut), and
        ``segment [I, 4]`` the number and count of segments, start and end as fractions of the duration. ``random [I]``
        are the random keys of dropout.
        """
        rows = F.pad(rows[:, : self.steps], (0, 0, 0, max(0, self.steps - rows.shape[1])))
        split = rows.shape[-1] - self.motion
        parts = [self._drop(F.relu(self.appearance(rows[..., :split])), random, 0)]
        if self.motion:
            parts.append(self._drop(F.relu(self.movement(rows[..., split:])), random, 1))
        hidden = F.relu(batch_norm(self.norm, torch.cat(parts, -1).transpose(1, 2))).transpose(1, 2)
        encoded = self._encode(hidden, random)
        where = self._drop(F.relu(self.segment(segment)), random, 2)
        mean = rows.mean(1)  # of all steps, the zeros after the end included
        vector = torch.cat([F.layer_norm(mean, mean.shape[-1:]), F.layer_norm(where, where.shape[-1:])], -1)
        return encoded, segment_mask(lengths, segment[:, 2:], self.steps), vector

    def _encode(self, hidden: Tensor, random: Tensor | None) -> Tensor:
        """States ``[I, S, hidden]`` of the GRU; with random keys its layers run one by one, with dropout by key."""
        if not self.training or random is None:
            encoded: Tensor = self.gru(hidden)[0]
            return encoded
        initial = hidden.new_zeros(2, len(hidden), self.gru.hidden_size)
        for layer in range(2):
            weights: list[Tensor] = []
            for direction in self.gru.all_weights[2 * layer : 2 * layer + 2]:
                weights += direction
            if layer:
                hidden = drop(hidden, BETWEEN_LAYERS, True, fold(random, 3))
            hidden, _ = torch.gru(hidden, initial, weights, True, 1, 0.0, True, True, True)
        return hidden

    def _drop(self, x: Tensor, random: Tensor | None, purpose: int) -> Tensor:
        return drop(x, self.dropout, self.training, fold(random, purpose))


def batch_norm(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    """Batch norm of ``x [I, C, S]``; with several processes, by the mean and variance of all their rows.

    ``nn.SyncBatchNorm`` does this on GPUs only.
    """
    if not norm.training or world() == 1:
        normed: Tensor = norm(x)
        return normed
    count = total(x.new_tensor(x.shape[0] * x.shape[2]))
    mean = total(x.sum((0, 2))) / count  # [C]
    centred = x - mean[:, None]
    variance = total(centred.square().sum((0, 2))) / count
    with torch.no_grad():
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.momentum is not None
        norm.running_mean.lerp_(mean, norm.momentum)
        norm.running_var.lerp_(variance * count / (count - 1), norm.momentum)
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
    return centred * (norm.weight * (variance + norm.eps).rsqrt())[:, None] + norm.bias[:, None]


def segment_mask(lengths: Tensor, segment: Tensor, steps: int) -> Tensor:
    """Mask ``[I, steps]`` of the rows round(T s) .. round(T e) - 1, clipped to ``steps``; at least one row.

    ``lengths [I]`` are T, ``segment [I, 2]`` are s and e as fractions of the duration.
    """
    ends = (lengths.unsqueeze(1) * segment).round().long().clamp(0, steps)  # [I, 2]
    first = ends[:, 0].clamp_max(steps - 1)
    last = torch.maximum(ends[:, 1], first + 1)
    at = torch.arange(steps, device=lengths.device)
    return (at >= first.unsqueeze(1)) & (at < last.unsqueeze(1))
