"""The LSTM with a constant input against torch's own."""

import torch

from deixis.layers.lstm import run_lstm


def test_states_and_gradients_are_those_of_torch() -> None:
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(5, 4, batch_first=True).double()
    words, view = torch.randn(3, 6, 2).double(), torch.randn(3, 3).double()
    expected, _ = lstm(torch.cat([view.unsqueeze(1).expand(-1, 6, -1), words], -1))
    found = run_lstm(lstm, words, constant=view)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    for one, other in zip(
        torch.autograd.grad((found * weight).sum(), lstm.parameters()),
        torch.autograd.grad((expected * weight).sum(), lstm.parameters()),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
