"""Gradients that wait for the end of a recurrence are those that torch would have summed up."""

import pytest
import torch
from torch.nn import functional as F

from deixis.layers import recurrence
from deixis.layers.recurrence import RecurrentWeight, additive_energy


def walk(weight: torch.Tensor, start: torch.Tensor, deferred: bool) -> torch.Tensor:
    step = RecurrentWeight(weight) if deferred else lambda x: F.linear(x, weight)
    x = start
    for _ in range(4):
        x = torch.tanh(step(x)) + x
    return x.square().sum()


def test_the_weight_gets_the_gradient_of_all_steps() -> None:
    torch.manual_seed(0)
    weight, start = torch.randn(3, 3, requires_grad=True), torch.randn(2, 5, 3, requires_grad=True)
    wanted = torch.autograd.grad(walk(weight, start, deferred=False), (weight, start))
    found = torch.autograd.grad(walk(weight, start, deferred=True), (weight, start))
    for mine, true in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, true)


def test_a_frozen_weight_keeps_nothing() -> None:
    step = RecurrentWeight(torch.randn(3, 3))
    x = torch.randn(2, 3, requires_grad=True)
    step(x).sum().backward()
    assert x.grad is not None
    assert step.uses == []


def test_gradients_by_differences() -> None:
    torch.manual_seed(0)
    weight, start = torch.randn(3, 3, dtype=torch.double), torch.randn(2, 3, dtype=torch.double)
    assert torch.autograd.gradcheck(
        lambda w, x: walk(w, x, deferred=True), (weight.requires_grad_(), start.requires_grad_())
    )
    for branches in (1, 2):
        keys, query = torch.randn(2, 4, branches, 3), torch.randn(2, 5, branches, 3)
        inputs = [t.double().requires_grad_() for t in (keys, query, torch.randn(branches, 3))]
        assert torch.autograd.gradcheck(additive_energy, inputs)


def test_energy_is_what_the_formula_says() -> None:
    torch.manual_seed(0)
    keys, query, energy = torch.randn(2, 4, 3, 6), torch.randn(2, 5, 3, 6), torch.randn(3, 6)
    wanted = (torch.tanh(keys[:, None] + query[:, :, None]) * energy).sum(-1).transpose(2, 3)
    torch.testing.assert_close(additive_energy(keys, query, energy), wanted)


def test_a_large_energy_is_computed_again_with_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(*shape, requires_grad=True) for shape in ((2, 4, 3, 6), (2, 5, 3, 6), (3, 6))]
    kept = torch.autograd.grad(additive_energy(*inputs).square().sum(), inputs)
    monkeypatch.setattr(recurrence, "KEPT_NUMBERS", 2 * 5 * 4 * 3 * 6 - 1)
    energy = additive_energy(*inputs)
    assert all(tensor.numel() <= 2 * 5 * 3 * 6 for tensor in energy.grad_fn.saved_tensors)  # type: ignore[union-attr]
    for mine, true in zip(torch.autograd.grad(energy.square().sum(), inputs), kept, strict=True):
        assert torch.equal(mine, true)
