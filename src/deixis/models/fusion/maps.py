"""Maps of where a text finds its match in an image: Grad-CAM on the attention of one fusion layer (AMC, Eq. 4 to 6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.models.fusion.model import Encoded, Fusion, Texts

EPS = 1e-7
"""Keeps the division of a map that is nought everywhere; the published value."""


@dataclass(frozen=True)
class Matched:
    """What P texts of each of I images found, in the order of the texts."""

    logits: Tensor  # [I * P, 2] no match, match
    maps: Tensor  # [I * P, rows, columns] where in the image the match is found


def match_maps(
    model: Fusion, encoded: Encoded, texts: Texts, read: Tensor | None = None, layer: int | None = None
) -> Matched:
    """Match scores and maps of P texts for each image, ordered by image.

    The map of a text is its attention to the image at one fusion layer (Eq. 4) times the derivative of the match score
    with respect to it (Eq. 5), where that is positive (Eq. 6). As in the published code it is the mean over heads and
    word pieces, [CLS] and [SEP] too; padding counts as nought in it. The derivative runs from the score down to that
    layer and no further. While gradients are on it can itself be differentiated, for training; else nothing below
    that layer is remembered.
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
    heat = heat.reshape(*texts.ids.shape, -1) * texts.mask[:, :, None]
    maps = heat.mean(1).view(-1, encoded.rows, encoded.columns)
    return Matched(logits, maps) if training else Matched(logits.detach(), maps.detach())


def normalised(maps: Tensor) -> Tensor:
    """Maps ``[B, rows, columns]`` shifted and scaled to between 0 and nearly 1, each by itself (as in training)."""
    low = maps.amin((1, 2), keepdim=True)
    shifted = maps - low
    return shifted / (shifted.amax((1, 2), keepdim=True) + EPS)


def enlarged(maps: Tensor, side: int) -> Tensor:
    """Maps ``[B, rows, columns]`` at ``[B, side, side]``, bilinear, as losses compare them with masks."""
    return F.interpolate(maps.unsqueeze(1), (side, side), mode="bilinear", align_corners=False).squeeze(1)
