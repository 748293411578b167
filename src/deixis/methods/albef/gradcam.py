"""Maps of where a text finds its match in an image.

Grad-CAM on the attention of one fusion layer (AMC, Eq. 4 to 6); or, for a model that has learnt to align words and
cells (:mod:`deixis.methods.albef.losses.alignment`), the attention of the first layer itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.albef.network import AlbefNet, Encoded, Texts

EPS = 1e-7
"""Keeps the division of a map that is nought everywhere; the published value."""


@dataclass(frozen=True)
class Matched:
    """What P texts of each of I images found, in the order of the texts."""

    logits: Tensor  # [I * P, 2] no match, match
    maps: Tensor  # [I * P, rows, columns] where in the image the match is found


def match_maps(
    model: AlbefNet, encoded: Encoded, texts: Texts, read: Tensor | None = None, layer: int | None = None
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


def explained(model: AlbefNet, encoded: Encoded, texts: Texts, read: Tensor | None = None) -> Matched:
    """Match scores of P texts for each image, ordered by image, with maps of the kind that the model has."""
    if model.config.explain == "match":
        return match_maps(model, encoded, texts, read)
    read = model.read(texts) if read is None else read
    hidden, weights = model.fuse_to(read, texts, encoded, 0)
    logits = model.score(model.fuse_from(hidden, weights, texts, encoded, 0))
    return Matched(logits, look_maps(weights, texts, encoded))


def maps_of(model: AlbefNet, encoded: Encoded, texts: Texts, read: Tensor) -> Tensor:
    """The maps of :func:`explained` alone; where words look first, nothing behind that is computed."""
    if model.config.explain == "match":
        return match_maps(model, encoded, texts, read).maps
    return look_maps(model.fuse_to(read, texts, encoded, 0)[1], texts, encoded)


def look_maps(weights: Tensor, texts: Texts, encoded: Encoded) -> Tensor:
    """Maps ``[I * P, rows, columns]`` of where words look: attention ``[I, heads, P * T, 1 + cells]``, averaged.

    The mean is over heads, over the word pieces between [CLS] and [SEP], and over each cell and its neighbours: a thing
    is rarely one cell. Attention is nowhere nought, so what counts is how far a cell is above the map's own mean;
    otherwise the heat inside a box would grow with any box.
    """
    each = weights.mean(1)[..., 1:].reshape(*texts.ids.shape, -1)  # [I * P, T, cells]
    words = texts.inner().to(each.dtype)
    mean = (each * words[:, :, None]).sum(1) / words.sum(1, keepdim=True).clamp(min=1)
    maps = mean.view(-1, 1, encoded.rows, encoded.columns)
    near = F.avg_pool2d(maps, 3, stride=1, padding=1, count_include_pad=False).squeeze(1)
    return (near - near.mean((1, 2), keepdim=True)).clamp(min=0)


def normalised(maps: Tensor) -> Tensor:
    """Maps ``[B, rows, columns]`` shifted and scaled to between 0 and nearly 1, each by itself (as in training)."""
    low = maps.amin((1, 2), keepdim=True)
    shifted = maps - low
    return shifted / (shifted.amax((1, 2), keepdim=True) + EPS)


def enlarged(maps: Tensor, side: int) -> Tensor:
    """Maps ``[B, rows, columns]`` at ``[B, side, side]``, bilinear, as losses compare them with masks."""
    return F.interpolate(maps.unsqueeze(1), (side, side), mode="bilinear", align_corners=False).squeeze(1)
