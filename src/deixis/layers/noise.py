"""Random numbers of training by sample and step.

A key is a 64-bit integer. Every sample of a batch has a key that depends on the seed, the step and the sample alone
(:func:`sample_keys`). Random numbers are hashes of a key and a position, so they do not change with the number of
processes, the order of rows or the padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

_GOLDEN = 0x9E3779B97F4A7C15 - 2**64  # 2**64 / golden ratio: an odd step whose multiples are far apart
_SPLITMIX = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)  # multipliers of SplitMix64
_MIX_32 = (0x7FEB352D, 0x846CA68B - 2**32)  # odd multipliers for 32 bits


def sample_keys(seed: int, samples: Sequence[int]) -> Tensor:
    """Keys ``[B]`` of samples, by their numbers in the training set; ``seed`` is that of the step."""
    return spread(torch.tensor(seed), torch.tensor(samples, dtype=torch.int64))


def fold(keys: Tensor | None, number: int) -> Tensor | None:
    """Keys for another purpose, such as another layer; None without keys."""
    return None if keys is None else _mix(keys + (number + 1) * _GOLDEN % 2**63)


def combine(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Keys of pairs of samples; None without keys."""
    return None if first is None or second is None else _mix(_mix(first) + second)


def spread(keys: Tensor, positions: int | Tensor) -> Tensor:
    """Keys ``[..., n]`` of positions of each key: of the first n, or of the given numbers ``[n]``."""
    if isinstance(positions, int):
        positions = torch.arange(positions, device=keys.device)
    return _mix(keys.unsqueeze(-1) + (positions + 1) * _GOLDEN)


def uniform(keys: Tensor, *sizes: int) -> Tensor:
    """Uniform numbers in [0, 1) of shape ``[*keys.shape, *sizes]``, in double precision."""
    for size in sizes:
        keys = spread(keys, size)
    return (_mix(keys) >> 11 & 2**53 - 1).double() * 2.0**-53


def drop(x: Tensor, p: float, training: bool, keys: Tensor | None) -> Tensor:
    """Dropout of ``x``, whose first dimensions are those of ``keys``; without keys torch's generator is used."""
    if not training or p == 0 or keys is None:
        return F.dropout(x, p, training)
    with torch.no_grad():
        for size in x.shape[keys.dim() : -1]:
            keys = spread(keys, size)
        columns = spread(torch.tensor(0, device=x.device), x.shape[-1])
        # 32 bits for each element: half the memory traffic of 64, and faster than torch's generator on a CPU
        mixed = (keys >> 32).to(torch.int32).unsqueeze(-1) ^ (columns >> 32).to(torch.int32)
        mixed.mul_(_MIX_32[0])
        mixed ^= mixed >> 15 & 2**17 - 1
        mixed.mul_(_MIX_32[1])
        dropped = mixed < round(p * 2**32) - 2**31
    return x.masked_fill(dropped, 0) / (1 - p)


def _mix(x: Tensor) -> Tensor:
    """Mix the bits of 64-bit integers (the output function of SplitMix64)."""
    x = (x ^ (x >> 30 & 2**34 - 1)) * _SPLITMIX[0]
    x = (x ^ (x >> 27 & 2**37 - 1)) * _SPLITMIX[1]
    return x ^ (x >> 31 & 2**33 - 1)
