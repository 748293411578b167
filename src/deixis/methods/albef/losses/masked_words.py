"""Masked language modelling with the image as context (AMC Eq. 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import total
from deixis.layers.noise import fold, uniform
from deixis.methods.albef.network import AlbefNet, Encoded, Texts


def mask_words(
    texts: Texts, special: Sequence[int], mask_id: int, vocabulary: int, chance: float = 0.15
) -> tuple[Texts, Tensor]:
    """Mask word pieces as BERT does; returns the masked texts and the chosen positions ``[B, T]``.

    Of the chosen pieces 80 % become [MASK], 10 % a random piece, and 10 % stay. ``special`` pieces ([CLS], [SEP],
    padding) are never chosen.
    """
    ids = texts.ids
    free = texts.mask & ~torch.isin(ids, torch.tensor(special, device=ids.device))
    if texts.random is None:
        choice, kind, piece = torch.rand(3, *ids.shape, device=ids.device)
    else:
        choice, kind, piece = uniform(texts.random, 3, ids.shape[1]).unbind(1)
    chosen = free & (choice < chance)
    other = (piece * vocabulary).long()
    masked = torch.where(chosen & (kind < 0.8), mask_id, torch.where(chosen & (kind >= 0.9), other, ids))
    return replace(texts, ids=masked, random=fold(texts.random, 302)), chosen


def masked_words(
    model: AlbefNet,
    encoded: Encoded,
    masked: Texts,
    chosen: Tensor,
    ids: Tensor,
    momentum: Tensor | None = None,
    soft: float = 0.0,
) -> Tensor:
    """Mean cross-entropy of the chosen word pieces (Eq. 1); 0 if none is chosen.

    The vocabulary layer is computed for these only. ``momentum [M, vocabulary]`` are the momentum copy's logits for the
    same M pieces, and ``soft`` is the share of the loss with them as targets (momentum distillation).
    """
    count = total(chosen.sum())
    if not bool(chosen.any()):
        return encoded.cls.new_zeros(())
    logits = masked_logits(model, encoded, masked, chosen)
    loss = F.cross_entropy(logits, ids[chosen], reduction="sum")
    if momentum is not None and soft:
        loss = (1 - soft) * loss + soft * F.cross_entropy(logits, momentum.softmax(-1), reduction="sum")
    return loss / count


def masked_logits(model: AlbefNet, encoded: Encoded, masked: Texts, chosen: Tensor) -> Tensor:
    """Logits ``[M, vocabulary]`` of the M chosen word pieces."""
    states = model.fuse(model.encode_text(masked), masked, encoded)
    return model.word_logits(states[chosen])
