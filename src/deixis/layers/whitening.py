"""PCA whitening as the initial weights of a linear layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

MIN_VARIANCE = 1e-6
"""Smallest variance that is scaled to 1, relative to the largest: directions without variance are not amplified."""


@torch.no_grad()
def fit_whitening(layer: nn.Linear, features: Tensor) -> None:
    """Set the layer to whiten ``features [R, in]``: mean 0 and covariance 1 along its principal directions.

    Features of a backbone share a large mean and a few directions of large variance. A small network needs thousands
    of steps to remove them. Outputs beyond the number of inputs are 0.
    """
    rows = features.double()
    mean = rows.mean(0)
    variance, directions = torch.linalg.eigh((rows - mean).T @ (rows - mean) / len(rows))  # ascending
    width = min(layer.out_features, layer.in_features)
    scale = variance[-width:].clamp_min(MIN_VARIANCE * float(variance[-1])).rsqrt()
    weight = (directions[:, -width:] * scale).T  # [width, in]
    layer.weight.zero_()
    layer.bias.zero_()
    layer.weight[:width] = weight.to(layer.weight.dtype)
    layer.bias[:width] = -(weight @ mean).to(layer.bias.dtype)
