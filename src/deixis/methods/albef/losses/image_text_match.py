"""Image-text matching (AMC Eq. 2): does this text belong to this image? Wrong pairs are the batch's most tempting."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.albef.network import AlbefNet, Encoded, Texts


def image_text_match(
    model: AlbefNet, encoded: Encoded, texts: Texts, read: Tensor, right: Tensor, scores: Tensor, same: Tensor
) -> Tensor:
    """Mean cross-entropy of 'match' for the true pairs and of 'no match' for two wrong pairs each.

    ``right [B, 2]`` are the match logits of the true pairs, ``read [B, T, hidden]`` the texts' states before fusion.
    ``scores [B, B]`` (images by texts) say how tempting a wrong pair is; what ``same [B, B]`` marks is not wrong.
    """
    with torch.no_grad():
        images, wrong_texts = hard_negatives(scores, same)
        own_texts, wrong_images = hard_negatives(scores.T, same.T)
        seen, said = torch.cat([images, wrong_images]), torch.cat([wrong_texts, own_texts])
    some = replace(texts, ids=texts.ids[said], mask=texts.mask[said])
    wrong = model.score(model.fuse(read[said], some, encoded.select(seen)))
    wanted = torch.cat([right.new_ones(len(right)), right.new_zeros(len(wrong))]).long()
    return F.cross_entropy(torch.cat([right, wrong]), wanted)


def hard_negatives(scores: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """For each row a wrong column, drawn by the softmax of ``scores [B, B]``: row numbers and their columns.

    Columns that ``same`` marks are never drawn; a row for which every column is right has none and is left out.
    """
    weights = scores.softmax(1).masked_fill(same, 0) + torch.finfo(scores.dtype).tiny * ~same
    rows = (~same).any(1).nonzero().squeeze(1)
    if len(rows) == 0:
        return rows, rows
    return rows, torch.multinomial(weights[rows], 1).squeeze(1)
