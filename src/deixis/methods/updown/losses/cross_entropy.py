"""Cross-entropy: the next word of a human caption, given the words before it (DA Eq. 6; on every branch)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.updown.network import Decoded, Decoder, Encoded


def cross_entropy(decoder: Decoder, decoded: Decoded, targets: Tensor, pad: int, smoothing: float = 0.0) -> Tensor:
    """Mean negative log-probability of ``targets [I, C, T]``, the words after each step, over words and branches.

    Padding does not count, and the vocabulary layer is not even computed for it. ``smoothing`` spreads that share of
    the target's probability evenly over all words.
    """
    real = targets != pad
    states = decoded.states[real]  # [W, K, hidden]
    wanted = targets[real].unsqueeze(1).expand(-1, states.shape[1])
    logits = decoder.output(decoder.drop(states))
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), label_smoothing=smoothing)


@torch.no_grad()
def hear_own_words(decoder: Decoder, encoded: Encoded, inputs: Tensor, chance: float, pad: int) -> Tensor:
    """Inputs ``[I, C, T]`` in which each word but the first is, with some chance, what the decoder would have said.

    Scheduled sampling over two passes: the words come from one pass of teacher forcing, so that the second can run as
    fast as the first.
    """
    decoded = decoder(encoded, inputs[..., :-1])
    said = decoder.speak(decoded.states[..., 0, :]).argmax(-1)
    swap = (torch.rand(said.shape, device=said.device) < chance) & (inputs[..., 1:] != pad)
    return torch.cat([inputs[..., :1], torch.where(swap, said, inputs[..., 1:])], -1)
