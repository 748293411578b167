"""Cross-entropy: the next word of a human caption, given the words before it (DA Eq. 6; on every branch)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from deixis.models.decoder import Decoded, Decoder


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
