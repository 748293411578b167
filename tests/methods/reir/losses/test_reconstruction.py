"""Phrase reconstruction by hand, its gradient and its padding."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from deixis.language.vocabulary import Vocabulary
from deixis.methods.reir.losses.reconstruction import Attended, PhraseDecoder, reconstruction

SPELLING = torch.tensor([[[1, 5, 6, 2], [1, 7, 2, 0]], [[1, 4, 2, 0], [0, 0, 0, 0]]])
PHRASES = torch.tensor([[True, True], [True, False]])


def test_reconstruction_by_hand() -> None:
    """The decoder's output layer knows only its bias: every word has the probability of its count."""
    assert (Vocabulary.pad, Vocabulary.bos, Vocabulary.eos) == (0, 1, 2)
    decoder = PhraseDecoder(vocabulary=8, words=3, attended=4, hidden=5)
    with torch.no_grad():
        decoder.output.weight.zero_()
        decoder.output.bias.zero_()
        decoder.output.bias[2] = math.log(9.0)  # the end has 9/16, everything else 1/16
    loss = reconstruction(decoder, torch.randn(2, 2, 4), SPELLING, PHRASES)
    assert loss.item() == pytest.approx(-(4 * math.log(1 / 16) + 3 * math.log(9 / 16)) / 7, abs=1e-6)
    assert reconstruction(decoder, torch.randn(2, 2, 4), SPELLING, torch.zeros_like(PHRASES)).item() == 0


@pytest.mark.parametrize("at", get_args(Attended))
def test_states_of_the_decoder(at: Attended) -> None:
    """torch's own LSTM over the feature and the words, or over both joined at every step."""
    torch.manual_seed(0)
    decoder = PhraseDecoder(vocabulary=8, words=3, attended=4, hidden=5, at=at)
    seen, words = torch.randn(2, 4), torch.tensor([[1, 5, 6], [1, 7, 2]])
    if at == "first":
        steps = torch.cat([decoder.project(seen)[:, None], decoder.embed(words)], 1)
        expected = decoder.lstm(steps)[0][:, 1:]
    else:
        expected = decoder.lstm(torch.cat([seen[:, None].expand(-1, 3, -1), decoder.embed(words)], -1))[0]
    torch.testing.assert_close(decoder(seen, words), expected)


@pytest.mark.parametrize("at", get_args(Attended))
def test_gradients_of_reconstruction_and_padding(at: Attended) -> None:
    torch.manual_seed(0)
    decoder = PhraseDecoder(vocabulary=8, words=3, attended=4, hidden=5, at=at).double()
    seen = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)

    def run(seen: Tensor, *parameters: Tensor) -> Tensor:
        return reconstruction(decoder, seen, SPELLING, PHRASES)

    assert torch.autograd.gradcheck(run, (seen, *decoder.parameters()), fast_mode=True)
    longer = torch.nn.functional.pad(SPELLING, (0, 3))
    torch.testing.assert_close(reconstruction(decoder, seen, longer, PHRASES), run(seen))
