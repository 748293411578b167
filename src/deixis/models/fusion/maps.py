"""Maps of where a text finds its match in an image: Grad-CAM on the attention of one fusion layer (AMC, Eq. 4 to 6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deixis.models.fusion.model import Encoded, Fusion, Texts

EPS = 1e-7
"""Keeps the division of a map that is nought everywhere; the published value."""


@dataclass(frozen=True)
class Matched:
    """What P texts of each of I images found, in the order of the texts."""

    logits: Tensor  # [I * P, 2] no match, match
    heat: Tensor  # [I * P, T, rows, columns] how much each word piece's look at each cell speaks for a match
    mask: Tensor  # [I * P, T] True where there is a word piece
    states: Tensor  # [I * P, T, hidden] the end of the fusion encoder

    @property
    def maps(self) -> Tensor:
        """``[I * P, rows, columns]``: the mean over all word pieces, [CLS] and [SEP] too.

        As in the published code the mean is over the length of the batch's longest text, in which padding is nought.
        """
        return (self.heat * self.mask[:, :, None, None]).mean(1)


def match_maps(
    model: Fusion, encoded: Encoded, texts: Texts, read: Tensor | None = None, layer: int | None = None
) -> Matched:
    """Match scores and maps of P texts for each image, ordered by image.

    The map of a text is its attention to the image at one fusion layer (Eq. 4) times the derivative of the match score
    with respect to it (Eq. 5), where that is positive (Eq. 6), in the mean over heads. The derivative runs from the
    score down to that layer and no further. While gradients are on it can itself be differentiated, for training;
    else nothing below that layer is remembered.
    """
    layer = model.config.map_layer if layer is None else layer
    training = torch.is_grad_enabled()
    read = model.read(texts) if read is None else read
    hidden, weights = model.fuse_to(read, texts, encoded, layer)
    with torch.enable_grad():
        if not weights.requires_grad:
            weights.requires_grad_()
        states = model.fuse_from(hidden, weights, texts, encoded, layer)
        logits = model.score(states)
        # the texts do not see each other: the derivative of the sum holds that of every single score
        (slope,) = torch.autograd.grad(logits[:, 1].sum(), weights, create_graph=training)
    heat = (weights * slope.clamp(min=0)).mean(1)[..., 1:]  # [I, P * T, cells]: the first token is the whole image
    if not training:
        logits, heat, states = logits.detach(), heat.detach(), states.detach()
    heat = heat.reshape(*texts.ids.shape, encoded.rows, encoded.columns)
    return Matched(logits, heat, texts.mask, states)


def normalised(maps: Tensor) -> Tensor:
    """Maps ``[B, rows, columns]`` shifted and scaled to between 0 and nearly 1, each by itself (as in training)."""
    low = maps.amin((1, 2), keepdim=True)
    shifted = maps - low
    return shifted / (shifted.amax((1, 2), keepdim=True) + EPS)


def per_token(matched: Matched, pieces: Tensor) -> Tensor:
    """Maps ``[B, rows, columns]`` of some word pieces of each text, marked in ``pieces [B, T]``, in their mean."""
    chosen = (pieces & matched.mask).to(matched.heat.dtype)[:, :, None, None]
    return (matched.heat * chosen).sum(1) / chosen.sum(1).clamp(min=1)
