"""Kernels for recurrences that accumulate the gradient of a weight once, not once per step.

In backpropagation through time torch computes the gradient of a weight at every step from a few rows and sums the
steps. These kernels keep the rows of all steps and compute one large product. First-order gradients only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Uses = list[tuple[Tensor, Tensor]]  # input rows [R, in], gradients of the output rows [R, out]


class RecurrentWeight:
    """A weight ``[out, in]`` that every step of a recurrence multiplies with."""

    def __init__(self, weight: Tensor) -> None:
        self.uses: Uses = []
        self.weight = weight
        if torch.is_grad_enabled():
            self.weight = _SumGradient.apply(weight, self.uses)  # type: ignore[no-untyped-call]

    def __call__(self, x: Tensor) -> Tensor:
        """``x [..., in]`` times the weight, ``[..., out]``."""
        if not torch.is_grad_enabled():
            return F.linear(x, self.weight)
        product: Tensor = _Multiply.apply(x, self.weight, self.uses)  # type: ignore[no-untyped-call]
        return product


class _SumGradient(torch.autograd.Function):
    """Identity of a weight; its backward pass runs after those of all uses and sums their gradients."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, uses: Uses) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.uses = uses
        return weight.view_as(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor | None) -> tuple[Tensor, None]:
        rows, gradients = zip(*ctx.uses, strict=True)
        ctx.uses.clear()
        return torch.cat(gradients).t() @ torch.cat(rows), None


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, uses: Uses) -> Tensor:
        product = F.linear(x, weight)
        ctx.save_for_backward(x, weight)
        ctx.uses = uses
        return product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        gradient = gradient.to(weight.dtype)  # under autocast the product is of lower precision
        if ctx.needs_input_grad[1]:
            ctx.uses.append((x.flatten(0, -2).to(weight.dtype), gradient.flatten(0, -2)))
        return (gradient @ weight).to(x.dtype) if ctx.needs_input_grad[0] else None, None, None


KEPT_NUMBERS = 1 << 23  # of tanh(keys + query) at one step; more are computed again in the backward pass


class _AdditiveEnergy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keys: Tensor, query: Tensor, energy: Tensor) -> Tensor:
        mixed = _mixed(keys, query)
        ctx.kept = mixed.numel() <= KEPT_NUMBERS
        ctx.save_for_backward(*((mixed,) if ctx.kept else (keys, query)), energy)
        if len(energy) == 1:
            return (mixed @ energy[0]).movedim(3, 2)
        return torch.einsum("icnka,ka->ickn", mixed, energy)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        *saved, energy = ctx.saved_tensors
        mixed = saved[0] if ctx.kept else _mixed(*saved)
        weight = gradient.to(mixed.dtype).transpose(2, 3).unsqueeze(-1)  # [I, C, N, K, 1]
        weighted = mixed * weight
        of_energy = weighted.sum((0, 1, 2))
        slope = torch.addcmul(weight, weighted, mixed, value=-1, out=weighted)  # of tanh: weight (1 - mixed^2)
        return slope.sum(1) * energy, slope.sum(2) * energy, of_energy


def _mixed(keys: Tensor, query: Tensor) -> Tensor:
    return (keys.unsqueeze(1) + query.unsqueeze(2)).tanh_()  # [I, C, N, K, A]


def additive_energy(keys: Tensor, query: Tensor, energy: Tensor) -> Tensor:
    """Additive attention energies ``[I, C, K, N]``: ``energy [K, A]`` . tanh(``keys [I, N, K, A]`` + ``query``).

    ``query`` is ``[I, C, K, A]``. One large tensor is kept for the backward pass (torch alone would keep several); one
    of more than :data:`KEPT_NUMBERS` numbers is computed again.
    """
    result: Tensor = _AdditiveEnergy.apply(keys, query, energy)  # type: ignore[no-untyped-call]
    return result
