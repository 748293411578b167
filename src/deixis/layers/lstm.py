"""LSTM over whole batches: everything but the recurrence is one matrix product over all steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.recurrence import RecurrentWeight


def lstm_gates(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One LSTM step from summed gates ``[..., 4 hidden]`` in torch's order (input, forget, cell, output): h and c."""
    i, f, g, o = gates.chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def run_lstm(lstm: nn.LSTM, inputs: Tensor, constant: Tensor | None = None) -> Tensor:
    """States ``[B, T, hidden]`` of a one-layer torch LSTM for ``inputs [B, T, D]``.

    ``constant [B, D']`` is an input that is the same at every step: the first D' columns of the LSTM's input. Its part
    of the gates is computed once. Gradients of weights are computed once for all steps.
    """
    ((weight, weight_hidden, *biases),) = lstm.all_weights
    bias = biases[0] + biases[1]
    width = 0 if constant is None else constant.shape[-1]
    gates = F.linear(inputs, weight[:, width:])  # [B, T, 4 hidden]
    gates = gates + (bias if constant is None else F.linear(constant, weight[:, :width], bias).unsqueeze(1))
    recurrent = RecurrentWeight(weight_hidden)
    hidden = cell = gates.new_zeros(len(inputs), lstm.hidden_size)
    states: list[Tensor] = []
    for step in gates.unbind(1):
        hidden, cell = lstm_gates(step + recurrent(hidden) if states else step, cell)
        states.append(hidden)
    return torch.stack(states, 1)
