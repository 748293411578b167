"""The GRU without padding against torch's own, and its gradients."""

import torch
from torch import Tensor, nn

from deixis.layers.gru import WordTable, bidirectional

MASK = torch.arange(5) < torch.tensor([2, 5, 0, 3])[:, None]


def test_states_are_those_of_torch() -> None:
    torch.manual_seed(0)
    gru = nn.GRU(3, 4, bidirectional=True, batch_first=True).double()
    inputs = torch.randn(4, 5, 3, dtype=torch.float64)
    table = WordTable.of(MASK)
    states = bidirectional(gru, inputs[table.sentences, table.steps], table)
    assert len(states) == 10
    for sentence, length in enumerate(MASK.sum(1).tolist()):
        if length:
            expected = gru(inputs[sentence : sentence + 1, :length])[0][0].view(length, 2, 4).mean(1)
            rows = table.sentences == sentence
            torch.testing.assert_close(states[rows][table.steps[rows].argsort()], expected)


def test_gradients() -> None:
    torch.manual_seed(0)
    gru = nn.GRU(3, 4, bidirectional=True, batch_first=True).double()
    table = WordTable.of(MASK)

    def run(inputs: Tensor, *parameters: Tensor) -> Tensor:
        return bidirectional(gru, inputs, table)

    inputs = torch.randn(10, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (inputs, *gru.parameters()), fast_mode=True)
