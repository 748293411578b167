"""Random numbers by key: uniform, independent of batch and padding, and repeatable."""

import torch

from deixis.layers.noise import combine, drop, fold, sample_keys, spread, uniform


def test_numbers_are_uniform_and_uncorrelated() -> None:
    drawn = uniform(sample_keys(3, range(200)), 10, 50)
    assert drawn.dtype == torch.float64
    assert 0 <= drawn.min() < 1e-4
    assert 1 - 1e-4 < drawn.max() < 1
    share = torch.histc(drawn.float(), 10, 0, 1) / drawn.numel()
    assert torch.allclose(share, torch.full((10,), 0.1), atol=0.005)  # 100,000 numbers: a deviation of .001
    for pair in (drawn[:-1], drawn[1:]), (drawn[:, :-1], drawn[:, 1:]), (drawn[..., :-1], drawn[..., 1:]):
        assert abs(torch.corrcoef(torch.stack([each.flatten() for each in pair]))[0, 1]) < 0.02


def test_keys_differ_by_step_sample_purpose_and_pair() -> None:
    keys = sample_keys(1, range(1000))
    others = [sample_keys(2, range(1000)), fold(keys, 0), fold(keys, 1), combine(keys, keys.flip(0)), keys]
    assert len(torch.cat([each for each in others if each is not None]).unique()) == 5000
    assert torch.equal(sample_keys(1, [5, 7]), keys[[5, 7]])  # neither order nor number of samples counts


def test_dropout_keeps_the_mean_and_drops_its_share() -> None:
    x = torch.ones(100, 30, 64)
    for p in (0.1, 0.5, 0.9):
        dropped = drop(x, p, True, sample_keys(0, range(100)))
        assert abs(float((dropped == 0).float().mean()) - p) < 0.005
        assert torch.allclose(dropped[dropped > 0], torch.tensor(1 / (1 - p)))
        assert float((dropped == 0).float().mean((0, 1)).std()) < 0.02  # no column is preferred
        assert float((dropped == 0).float().mean((1, 2)).std()) < 0.03  # and no sample


def test_masks_of_neighbours_are_uncorrelated() -> None:
    mask = (drop(torch.ones(60, 40, 64), 0.5, True, sample_keys(9, range(60))) == 0).double()
    for pair in (mask[:-1], mask[1:]), (mask[:, :-1], mask[:, 1:]), (mask[..., :-1], mask[..., 1:]):
        assert abs(torch.corrcoef(torch.stack([each.flatten() for each in pair]))[0, 1]) < 0.01
    # two rows and two columns: the exclusive or of the four masks is as often 0 as 1
    square = (mask[:-1, :, :-1] + mask[1:, :, :-1] + mask[:-1, :, 1:] + mask[1:, :, 1:]) % 2
    assert abs(float(square.mean()) - 0.5) < 0.01


def test_dropout_of_a_sample_does_not_change_with_batch_and_padding() -> None:
    keys = sample_keys(4, range(6))
    whole = drop(torch.ones(6, 5, 7, 8), 0.4, True, keys)
    part = drop(torch.ones(2, 3, 4, 8), 0.4, True, keys[[4, 1]])
    assert torch.equal(part, whole[[4, 1]][:, :3, :4])
    rows = spread(spread(keys, 5), 7)  # rows in any order
    chosen = torch.rand(6, 5, 7) < 0.5
    assert torch.equal(drop(torch.ones(6, 5, 7, 8)[chosen], 0.4, True, rows[chosen]), whole[chosen])


def test_no_dropout_outside_training() -> None:
    x = torch.randn(3, 4)
    assert torch.equal(drop(x, 0.5, False, sample_keys(0, range(3))), x)
    assert torch.equal(drop(x, 0.0, True, sample_keys(0, range(3))), x)
    torch.manual_seed(0)
    first = drop(x, 0.5, True, None)
    torch.manual_seed(0)
    assert torch.equal(first, torch.nn.functional.dropout(x, 0.5))
