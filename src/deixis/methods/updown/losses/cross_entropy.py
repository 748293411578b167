"""Cross-entropy of the next word (DA Eq. 6), averaged over all branches."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import total
from deixis.layers.noise import fold, spread, uniform
from deixis.methods.updown.network import Decoded, Decoder, Encoded
from deixis.methods.updown.sample import vote_scores


def cross_entropy(
    decoder: Decoder,
    decoded: Decoded,
    targets: Tensor,
    pad: int,
    smoothing: float = 0.0,
    random: Tensor | None = None,
) -> Tensor:
    """Mean negative log-probability of ``targets [I, C, T]`` over words and branches (DA Eq. 6).

    The vocabulary layer is not computed for padding. ``smoothing`` is the share of the target probability that is
    spread evenly over all words. ``random [I]`` are the random keys of dropout. 0 if all targets are padding.
    """
    real = targets != pad
    states = decoded.states[real]  # [W, K, hidden]
    wanted = targets[real].unsqueeze(1).expand(-1, states.shape[1])
    if random is not None:
        random = spread(spread(random, targets.shape[1]), targets.shape[2])[real]  # [W]
    logits = decoder.output(decoder.drop(states, random))
    summed = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), label_smoothing=smoothing, reduction="sum")
    return summed / (total(real.sum()) * states.shape[1]).clamp_min(1)


@torch.no_grad()
def scheduled_sampling(
    decoder: Decoder, encoded: Encoded, inputs: Tensor, chance: float, pad: int, branches: int | None = None
) -> Tensor:
    """Replace each word of ``inputs [I, C, T]`` but the first, with probability ``chance``, by the predicted word.

    Predictions are those of the first ``branches`` branches (all by default) in one pass of teacher forcing, so the
    training pass still runs all steps at once.
    """
    decoded = decoder(encoded, inputs[..., :-1], branches)
    predicted = vote_scores(decoder.word_logprobs(decoded.states, fold(encoded.random, 4))).argmax(-1)
    if encoded.random is None:
        drawn = torch.rand(predicted.shape, device=predicted.device)
    else:
        drawn = uniform(encoded.random, *predicted.shape[1:])
    replaced = (drawn < chance) & (inputs[..., 1:] != pad)
    return torch.cat([inputs[..., :1], torch.where(replaced, predicted, inputs[..., 1:])], -1)
