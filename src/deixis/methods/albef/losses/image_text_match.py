"""Image-text matching loss with hard negatives from the batch (AMC Eq. 2)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import count_rows, first_row
from deixis.layers.noise import combine, fold, uniform
from deixis.methods.albef.network import AlbefNet, Encoded, Texts


def image_text_match(
    model: AlbefNet,
    encoded: Encoded,
    texts: Texts,
    text_states: Tensor,
    right: Tensor,
    scores: Tensor,
    same: Tensor,
    text_scores: Tensor | None = None,
) -> Tensor:
    """Mean cross-entropy of match for the true pairs and of no match for two wrong pairs each (Eq. 2).

    ``right [B, 2]`` are the match logits of the true pairs, ``text_states [B, T, hidden]`` those before fusion. Wrong
    pairs are drawn by ``scores [B, B]`` (images by texts); pairs in ``same [B, B]`` are not wrong. Where the scores of
    the two directions differ, ``text_scores [B, B]`` (texts by images) are those by which images are drawn.

    With several processes, texts, scores and ``same`` are those of all of them, ``encoded`` and ``right`` those of this
    one. Each process computes the wrong pairs of its own images.
    """
    text_scores = scores.T if text_scores is None else text_scores
    with torch.no_grad():
        images, wrong_texts = hard_negatives(scores, same, fold(texts.random, 300))
        own_texts, wrong_images = hard_negatives(text_scores, same.T, fold(texts.random, 301))
        image, text = torch.cat([images, wrong_images]), torch.cat([wrong_texts, own_texts])
        first, pairs = first_row(len(right)), len(image) + int(count_rows(right))
        mine = (image >= first) & (image < first + len(right))
        image, text = image[mine], text[mine]
    loss = F.cross_entropy(right, torch.ones(len(right), dtype=torch.long, device=right.device), reduction="sum")
    if not len(text):  # a batch of one pair, or of equal texts, has no wrong pair
        return (loss + text_states.sum() * 0) / pairs
    some = texts.select(text)
    if texts.random is not None:
        some = replace(some, random=combine(some.random, texts.random[image]))
    wrong = model.match_logits(model.fuse(text_states[text], some, encoded.select(image - first)))
    wanted = torch.zeros(len(wrong), dtype=torch.long, device=right.device)
    return (loss + F.cross_entropy(wrong, wanted, reduction="sum")) / pairs


def hard_negatives(scores: Tensor, same: Tensor, random: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Draw a wrong column for each row by the softmax of ``scores [B, B]``: row numbers and their columns.

    Columns in ``same`` are never drawn; a row without any other column is left out. ``random [B]`` are random keys.
    """
    weights = scores.softmax(1).masked_fill(same, 0) + torch.finfo(scores.dtype).tiny * ~same
    rows = (~same).any(1).nonzero().squeeze(1)
    if len(rows) == 0:
        return rows, rows
    if random is None:
        return rows, torch.multinomial(weights[rows], 1).squeeze(1)
    cumulative = weights[rows].cumsum(1, dtype=torch.float64)
    drawn = uniform(random[rows]).unsqueeze(1) * cumulative[:, -1:]
    return rows, torch.searchsorted(cumulative, drawn, right=True).squeeze(1)
