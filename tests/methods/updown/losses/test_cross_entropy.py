"""Cross-entropy by hand, its gradient, and scheduled sampling."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from deixis.methods.updown.losses.cross_entropy import cross_entropy, scheduled_sampling
from deixis.methods.updown.network import Decoded, Decoder, DecoderConfig
from deixis.methods.updown.sample import vote_scores


def test_by_hand() -> None:
    """Logits are the states themselves: two words of probability 1/4 and 3/4, and padding that would be wrong."""
    decoder = Decoder(DecoderConfig(vocabulary=2, features=1, words=1, hidden=2, attention=1, dropout=0.0))
    with torch.no_grad():
        decoder.output.weight.copy_(torch.eye(2))
        decoder.output.bias.zero_()
    odds = math.log(3)
    states = torch.tensor([[0.0, odds], [0.0, odds], [9.0, 0.0]]).view(1, 1, 3, 1, 2)
    decoded = Decoded(states, torch.zeros(1, 1, 3, 1, 1), torch.zeros(1, 1, 3, 2))
    targets = torch.tensor([[[0, 1, -1]]])
    expected = -(math.log(0.25) + math.log(0.75)) / 2
    torch.testing.assert_close(cross_entropy(decoder, decoded, targets, pad=-1).item(), expected)
    both = replace(decoded, states=torch.cat([states, -states], 3))  # a branch with the opposite prediction
    torch.testing.assert_close(cross_entropy(decoder, both, targets, pad=-1).item(), expected)
    one = replace(decoded, states=states[:, :, :1])  # one target of probability 1/4, smoothed by a half
    smoothed = -(0.75 * math.log(0.25) + 0.25 * math.log(0.75))
    torch.testing.assert_close(cross_entropy(decoder, one, targets[..., :1], -1, smoothing=0.5).item(), smoothed)


@pytest.mark.parametrize("branches", [1, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradient(branches: int, smoothing: float) -> None:
    torch.manual_seed(0)
    sizes = {"vocabulary": 7, "features": 3, "words": 2, "hidden": 4, "attention": 3, "dropout": 0.0}
    decoder = Decoder(DecoderConfig(**sizes, branches=branches)).double()
    targets = torch.tensor([[[4, 5, 0], [6, 0, 0]]])
    empty = torch.zeros(0, dtype=torch.float64)

    def run(states: Tensor, *parameters: Tensor) -> Tensor:
        return cross_entropy(decoder, Decoded(states, empty, empty), targets, 0, smoothing)

    states = torch.randn(1, 2, 3, branches, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (states, *decoder.output.parameters()))


@pytest.mark.parametrize("branches", [1, 3])
@torch.no_grad()
def test_scheduled_sampling_replaces_words_by_predictions_of_the_branches_in_use(branches: int) -> None:
    torch.manual_seed(0)
    sizes = {"vocabulary": 9, "features": 5, "words": 4, "hidden": 6, "attention": 4, "dropout": 0.0}
    decoder = Decoder(DecoderConfig(**sizes, branches=3)).eval()
    for parameter in decoder.parameters():
        parameter *= 4  # predictions that differ between images and branches
    encoded = decoder.encode(torch.randn(40, 4, 5), torch.ones(40, 4, dtype=torch.bool))
    inputs = torch.randint(4, 9, (40, 2, 5))
    inputs[..., 0], inputs[:, 1, 3:] = 1, 0
    assert torch.equal(scheduled_sampling(decoder, encoded, inputs, 0.0, 0, branches), inputs)
    replaced = scheduled_sampling(decoder, encoded, inputs, 1.0, 0, branches)
    predicted = vote_scores(decoder.word_logprobs(decoder(encoded, inputs[..., :-1], branches).states)).argmax(-1)
    real = inputs[..., 1:] != 0
    assert torch.equal(replaced[..., 1:][real], predicted[real])
    assert torch.equal(replaced[..., 1:][~real], inputs[..., 1:][~real])
    other = vote_scores(decoder.word_logprobs(decoder(encoded, inputs[..., :-1], 4 - branches).states)).argmax(-1)
    assert not torch.equal(predicted, other)  # so the number of branches matters here
    half = scheduled_sampling(decoder, encoded, inputs, 0.5, 0, branches)
    changed = ((half != inputs)[..., 1:][real & (predicted != inputs[..., 1:])]).float().mean()
    assert 0.35 < changed.item() < 0.65
