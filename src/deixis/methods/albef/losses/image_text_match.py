"""Image-text matching loss with hard negatives from the batch (AMC Eq. 2)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

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
    """
    text_scores = scores.T if text_scores is None else text_scores
    with torch.no_grad():
        images, wrong_texts = hard_negatives(scores, same)
        own_texts, wrong_images = hard_negatives(text_scores, same.T)
        image, text = torch.cat([images, wrong_images]), torch.cat([wrong_texts, own_texts])
    if not len(text):  # a batch of one pair, or of equal texts, has no wrong pair
        return F.cross_entropy(right, torch.ones(len(right), dtype=torch.long, device=right.device))
    some = replace(texts, ids=texts.ids[text], mask=texts.mask[text])
    wrong = model.match_logits(model.fuse(text_states[text], some, encoded.select(image)))
    wanted = torch.cat([right.new_ones(len(right)), right.new_zeros(len(wrong))]).long()
    return F.cross_entropy(torch.cat([right, wrong]), wanted)


def hard_negatives(scores: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a wrong column for each row by the softmax of ``scores [B, B]``: row numbers and their columns.

    Columns in ``same`` are never drawn; a row without any other column is left out.
    """
    weights = scores.softmax(1).masked_fill(same, 0) + torch.finfo(scores.dtype).tiny * ~same
    rows = (~same).any(1).nonzero().squeeze(1)
    if len(rows) == 0:
        return rows, rows
    return rows, torch.multinomial(weights[rows], 1).squeeze(1)
