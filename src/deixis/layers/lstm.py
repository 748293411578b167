"""An LSTM over whole batches in which only the recurrence itself waits for the step before."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.recurrence import Recurring
from deixis.methods.updown.network import lstm_gates


def run_lstm(lstm: nn.LSTM, inputs: Tensor, always: Tensor | None = None) -> Tensor:
    """States ``[B, T, hidden]`` of a torch LSTM with one layer for ``inputs [B, T, words]``.

    ``always [B, D]`` is heard at every step: the first D columns of what the LSTM hears. Its share of the gates is
    computed once for all steps, as are those of the inputs, and gradients of weights are made once for all steps.
    """
    ((weight, weight_hidden, *biases),) = lstm.all_weights
    bias = biases[0] + biases[1]
    width = 0 if always is None else always.shape[-1]
    gates = F.linear(inputs, weight[:, width:])  # [B, T, 4 hidden]
    gates = gates + (bias if always is None else F.linear(always, weight[:, :width], bias).unsqueeze(1))
    recur = Recurring(weight_hidden)
    hidden = cell = gates.new_zeros(len(inputs), lstm.hidden_size)
    states: list[Tensor] = []
    for step in gates.unbind(1):
        hidden, cell = lstm_gates(step + recur(hidden) if states else step, cell)
        states.append(hidden)
    return torch.stack(states, 1)
