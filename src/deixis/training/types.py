"""Types shared by the training loop, the methods and the runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from deixis.layers.padding import PaddedRegions

Scores = dict[str, float]
"""Validation scores by name."""

Line = dict[str, Any]
"""A line of ``log.jsonl``: epoch (from 1), step, lr, loss, losses, scores."""

TeacherAttention = Callable[[PaddedRegions, Tensor], Tensor]
"""Attention ``[I, C, T - 1, N]`` at the words after bos of captions ``[I, C, T]`` (word ids of the captioner)."""

MatchScore = Callable[[PaddedRegions, Tensor], Tensor]
"""Match scores ``[I, C]`` of images and captions ``[I, C, T]`` (word ids of the captioner)."""
