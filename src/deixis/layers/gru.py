"""Bidirectional GRU over sentences of different lengths, without computation for padding.

The words of all sentences are rows of one table, ordered by step, and within a step by decreasing sentence length. The
states of a step are then a prefix of those of the step before. Everything outside the recurrence (input gates,
gradients of the weights) is one matrix product over the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


@dataclass(frozen=True)
class WordTable:
    """Rows of the W words of C sentences of at most T words."""

    sentences: Tensor  # [W] the sentence of each word
    steps: Tensor  # [W] its position in the sentence
    mirror: Tensor  # [W] the row of the word at its position in the reversed sentence
    sizes: tuple[int, ...]  # [T] number of sentences with a word at each step

    @classmethod
    def of(cls, mask: Tensor) -> WordTable:
        """Build the table for ``mask [C, T]``, True where there is a word; padding follows the words."""
        lengths, order = mask.sum(1).sort(descending=True, stable=True)
        steps, rank = (torch.arange(mask.shape[1], device=mask.device)[:, None] < lengths).nonzero(as_tuple=True)
        sizes = steps.bincount(minlength=mask.shape[1])
        first = sizes.cumsum(0) - sizes  # [T] first row of each step
        mirror = first[lengths[rank] - 1 - steps] + rank
        return cls(order[rank], steps, mirror, tuple(size for size in sizes.tolist() if size))


def bidirectional(gru: nn.GRU, inputs: Tensor, table: WordTable) -> Tensor:
    """Mean ``[W, hidden]`` of the states of both directions; ``inputs [W, D]`` are in the order of the table."""
    (w_in, w_h, b_in, b_h), (w_in_back, w_h_back, b_in_back, b_h_back) = gru.all_weights
    ahead = recurrence(F.linear(inputs, w_in, b_in), w_h, b_h, table.sizes)
    back = recurrence(F.linear(inputs[table.mirror], w_in_back, b_in_back), w_h_back, b_h_back, table.sizes)
    return (ahead + back[table.mirror]) / 2


def recurrence(gates: Tensor, weight: Tensor, bias: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """States ``[W, H]`` from input gates ``[W, 3 H]`` (reset, update, new); ``weight [3 H, H]`` and ``bias`` of h."""
    states: Tensor = _Recurrence.apply(gates.to(weight.dtype), weight, bias, sizes)  # type: ignore[no-untyped-call]
    return states


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, sizes: tuple[int, ...]) -> Tensor:
        words, hidden = len(gates), weight.shape[1]
        reset, update, new, recurrent, states = gates.new_empty(5, words, hidden)
        before = gates.new_zeros(sizes[0] if sizes else 0, hidden)
        at = 0
        for size in sizes:
            rows = slice(at, at + size)
            before = before[:size]
            from_h = torch.addmm(bias, before, weight.t())
            torch.add(gates[rows, :hidden], from_h[:, :hidden], out=reset[rows]).sigmoid_()
            torch.add(gates[rows, hidden : 2 * hidden], from_h[:, hidden : 2 * hidden], out=update[rows]).sigmoid_()
            recurrent[rows] = from_h[:, 2 * hidden :]
            torch.addcmul(gates[rows, 2 * hidden :], reset[rows], recurrent[rows], out=new[rows]).tanh_()
            before = torch.lerp(new[rows], before, update[rows], out=states[rows])
            at += size
        ctx.save_for_backward(weight, reset, update, new, recurrent, states)
        ctx.sizes = sizes
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, reset, update, new, recurrent, states = ctx.saved_tensors
        words, hidden = states.shape
        before = torch.zeros_like(states)
        first = 0
        for size, after in zip(ctx.sizes, ctx.sizes[1:], strict=False):
            before[first + size : first + size + after] = states[first : first + after]
            first += size
        from_h = grad.new_empty(words, 3 * hidden)  # gradient of the recurrent part of the gates
        of_new = grad.new_empty(words, hidden)  # gradient of the new gate before its tanh
        later = grad.new_zeros(0, hidden)
        at = words
        for size in reversed(ctx.sizes):
            at -= size
            rows = slice(at, at + size)
            r, z, n = reset[rows], update[rows], new[rows]
            d = grad[rows].clone()
            d[: len(later)] += later
            torch.mul(d * (1 - z), 1 - n * n, out=of_new[rows])
            from_h[rows, :hidden] = of_new[rows] * recurrent[rows] * r * (1 - r)
            from_h[rows, hidden : 2 * hidden] = d * (before[rows] - n) * z * (1 - z)
            from_h[rows, 2 * hidden :] = of_new[rows] * r
            later = torch.addmm(d * z, from_h[rows], weight)
        of_gates = torch.cat([from_h[:, : 2 * hidden], of_new], 1)
        return of_gates, from_h.t() @ before, from_h.sum(0), None
