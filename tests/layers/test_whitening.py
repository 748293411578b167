"""PCA whitening of a linear layer."""

import pytest
import torch

from deixis.layers.whitening import fit_whitening


@pytest.mark.parametrize("width", [3, 6])
def test_whitened_features_have_mean_0_and_covariance_1(width: int) -> None:
    torch.manual_seed(0)
    features = torch.randn(500, 6) @ torch.randn(6, 6) * torch.tensor([9.0, 5, 3, 0.1, 0.1, 0.1]) + 10
    layer = torch.nn.Linear(6, width)
    fit_whitening(layer, features)
    white = layer(features)
    torch.testing.assert_close(white.mean(0), torch.zeros(width), atol=1e-3, rtol=0)
    torch.testing.assert_close(white.T @ white / 500, torch.eye(width), atol=5e-3, rtol=0)


def test_the_directions_of_largest_variance_are_kept() -> None:
    torch.manual_seed(0)
    features = torch.randn(2000, 3) * torch.tensor([1.0, 9.0, 4.0])
    layer = torch.nn.Linear(3, 2)
    fit_whitening(layer, features)
    scaled = layer.weight.abs() * torch.tensor([1.0, 9.0, 4.0])
    torch.testing.assert_close(scaled, torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), atol=0.1, rtol=0)


def test_directions_without_variance_are_not_amplified_and_more_outputs_are_0() -> None:
    torch.manual_seed(0)
    features = torch.cat([torch.randn(500, 5), torch.ones(500, 1)], 1)
    layer = torch.nn.Linear(6, 8)
    fit_whitening(layer, features)
    assert torch.equal(layer(features)[:, 6:], torch.zeros(500, 2))
    assert layer(features).abs().max() < 10
