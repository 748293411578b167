"""Cross-entropy by hand."""

import math
from dataclasses import replace

import torch

from deixis.methods.updown.losses.cross_entropy import cross_entropy
from deixis.methods.updown.network import Decoded, Decoder, DecoderConfig


def test_by_hand() -> None:
    """Logits are the states themselves: two words of probability 1/4 and 3/4, and padding that would be wrong."""
    decoder = Decoder(DecoderConfig(vocabulary=2, features=1, words=1, hidden=2, attention=1, dropout=0.0))
    with torch.no_grad():
        decoder.output.weight.copy_(torch.eye(2))
        decoder.output.bias.zero_()
    sure = math.log(3)
    states = torch.tensor([[0.0, sure], [0.0, sure], [9.0, 0.0]]).view(1, 1, 3, 1, 2)
    decoded = Decoded(states, torch.zeros(1, 1, 3, 1, 1), torch.zeros(1, 1, 3, 2))
    targets = torch.tensor([[[0, 1, -1]]])
    expected = -(math.log(0.25) + math.log(0.75)) / 2
    torch.testing.assert_close(cross_entropy(decoder, decoded, targets, pad=-1).item(), expected)
    both = replace(decoded, states=torch.cat([states, -states], 3))  # a branch of the opposite opinion
    torch.testing.assert_close(cross_entropy(decoder, both, targets, pad=-1).item(), expected)
    even = -(math.log(0.25) + math.log(0.75)) / 2
    torch.testing.assert_close(cross_entropy(decoder, decoded, targets, pad=-1, smoothing=1.0).item(), even)
