"""Masked words (AMC Eq. 1): guess hidden word pieces from the rest of the text and from the image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.albef.network import AlbefNet, Encoded, Texts


def mask_words(
    texts: Texts, special: Sequence[int], mask_id: int, vocabulary: int, chance: float = 0.15
) -> tuple[Texts, Tensor]:
    """Texts in which some word pieces are hidden, and where they are ``[B, T]``.

    As BERT does it: of the chosen pieces 80 % become [MASK], 10 % another piece, and 10 % stay. ``special`` pieces
    ([CLS], [SEP], padding) are never chosen.
    """
    ids = texts.ids
    free = texts.mask & ~torch.isin(ids, torch.tensor(special, device=ids.device))
    chosen = free & (torch.rand(ids.shape, device=ids.device) < chance)
    dice = torch.rand(ids.shape, device=ids.device)
    other = torch.randint(vocabulary, ids.shape, device=ids.device)
    hidden = torch.where(chosen & (dice < 0.8), mask_id, torch.where(chosen & (dice >= 0.9), other, ids))
    return Texts(hidden, texts.mask), chosen


def masked_words(
    model: AlbefNet,
    encoded: Encoded,
    hidden: Texts,
    chosen: Tensor,
    ids: Tensor,
    believed: Tensor | None = None,
    soft: float = 0.0,
) -> Tensor:
    """Mean cross-entropy of the chosen word pieces; the vocabulary layer is computed for those only.

    Momentum distillation: ``believed [M, vocabulary]`` are the momentum copy's logits for the same M pieces, and
    ``soft`` the share of the loss that follows them. Nothing chosen gives 0.
    """
    if not bool(chosen.any()):
        return encoded.whole.new_zeros(())
    logits = guess_hidden(model, encoded, hidden, chosen)
    loss = F.cross_entropy(logits, ids[chosen])
    if believed is None or not soft:
        return loss
    return (1 - soft) * loss + soft * F.cross_entropy(logits, believed.softmax(-1))


def guess_hidden(model: AlbefNet, encoded: Encoded, hidden: Texts, chosen: Tensor) -> Tensor:
    """Logits ``[M, vocabulary]`` of the M chosen word pieces."""
    states = model.fuse(model.read(hidden), hidden, encoded)
    return model.guess_words(states[chosen])
