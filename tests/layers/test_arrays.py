"""Operations on NumPy arrays against those of torch."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from deixis.layers import arrays


def test_gelu() -> None:
    x = torch.linspace(-12, 12, 100_001)
    np.testing.assert_allclose(arrays.gelu(x.numpy().copy()), F.gelu(x.double()), atol=1e-6)


def test_softmax_logsumexp_and_norms() -> None:
    x = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0)) * 10
    np.testing.assert_allclose(arrays.softmax(x.numpy().copy()), x.softmax(-1), atol=1e-6)
    np.testing.assert_allclose(arrays.logsumexp(x.numpy()), x.logsumexp(-1), rtol=1e-6)
    np.testing.assert_allclose(arrays.logsumexp(x.numpy(), 1), x.logsumexp(1), rtol=1e-6)
    weight, bias = torch.randn(2, 6)
    expected = F.layer_norm(x, (6,), weight, bias, 1e-12)
    np.testing.assert_allclose(arrays.layer_norm(x.numpy(), weight.numpy(), bias.numpy(), 1e-12), expected, atol=1e-5)
    np.testing.assert_allclose(arrays.unit(x.numpy()), F.normalize(x, dim=-1), atol=1e-6)
    assert arrays.logsumexp(np.full((1, 3), -np.inf)).tolist() == [-np.inf]


@pytest.mark.parametrize("size", [10, 100, 1000, 5003])
@pytest.mark.parametrize("count", [1, 3, 10])
def test_the_largest_numbers(size: int, count: int) -> None:
    values = np.random.default_rng(size).standard_normal((7, size)).astype(np.float32)
    values[0, -1], values[1, :] = 9, -np.inf
    values[1, 4] = 0
    found = arrays.top(values, count)
    expected = np.sort(values, 1)[:, ::-1][:, :count]
    np.testing.assert_array_equal(np.take_along_axis(values, found, 1), expected)
    assert all(len(set(row)) == count for row in found.tolist())


@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
@pytest.mark.parametrize("sizes", [(4, 6, 9, 7), (12, 9, 5, 12), (6, 6, 6, 6)])
def test_resizing(kind: str, sizes: tuple[int, int, int, int]) -> None:
    rows, columns, down, across = sizes
    cells = torch.randn(rows, columns, 3, generator=torch.Generator().manual_seed(0))
    expected = F.interpolate(cells.permute(2, 0, 1)[None], (down, across), mode=kind, align_corners=False)[0]
    found = arrays.resize(cells.numpy(), down, across, kind)
    np.testing.assert_allclose(found, expected.permute(1, 2, 0), atol=1e-5)
