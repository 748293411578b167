"""Heat maps of texts in images: Grad-CAM on the cross-attention of one fusion layer (AMC, Eq. 4 to 6).

A model with ``map_source`` "attention" has the attention of the first fusion layer as its map instead (ours; it is
trained by :mod:`deixis.methods.albef.losses.alignment`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.albef.network import AlbefNet, Encoded, Texts

EPS = 1e-7
"""Added to the maximum of a map before division; the published value."""


@dataclass(frozen=True)
class Matched:
    """Match logits and heat maps of P texts for each of I images, in the order of the texts."""

    logits: Tensor  # [I * P, 2] no match, match
    maps: Tensor  # [I * P, rows, columns]


def grad_cam(
    model: AlbefNet, encoded: Encoded, texts: Texts, text_states: Tensor | None = None, layer: int | None = None
) -> Matched:
    """Match logits and Grad-CAM maps of P texts for each image, ordered by image.

    A map is the attention of a text to the image at one fusion layer (Eq. 4) times the derivative of the match score
    with respect to it (Eq. 5), where that is positive (Eq. 6). As in the published code it is the mean over heads and
    word pieces, [CLS] and [SEP] included; padding counts as 0. The derivative runs from the score to that layer only.
    With gradients enabled it can be differentiated again, for training; else nothing below that layer is stored.
    """
    layer = model.config.map_layer if layer is None else layer
    training = torch.is_grad_enabled()
    text_states = model.encode_text(texts) if text_states is None else text_states
    hidden, weights = model.fuse_to(text_states, texts, encoded, layer)  # Eq. 4
    with torch.enable_grad():
        if not weights.requires_grad:
            weights.requires_grad_()
        logits = model.match_logits(model.fuse_from(hidden, weights, texts, encoded, layer))
        # texts are independent: the derivative of the sum is that of every single score (Eq. 5)
        (slope,) = torch.autograd.grad(logits[:, 1].sum(), weights, create_graph=training)
    heat = (weights * slope.clamp(min=0)).mean(1)[..., 1:]  # Eq. 6, [I, P * T, cells]: without the image's [CLS]
    heat = heat.reshape(*texts.ids.shape, -1) * texts.mask[:, :, None]
    maps = heat.mean(1).view(-1, encoded.rows, encoded.columns)
    return Matched(logits, maps) if training else Matched(logits.detach(), maps.detach())


def match_and_map(model: AlbefNet, encoded: Encoded, texts: Texts, text_states: Tensor | None = None) -> Matched:
    """Match logits and heat maps, by the model's ``map_source``, of P texts for each image, ordered by image."""
    if model.config.map_source == "gradcam":
        return grad_cam(model, encoded, texts, text_states)
    text_states = model.encode_text(texts) if text_states is None else text_states
    hidden, weights = model.fuse_to(text_states, texts, encoded, 0)
    logits = model.match_logits(model.fuse_from(hidden, weights, texts, encoded, 0))
    return Matched(logits, attention_maps(weights, texts, encoded))


def heat_maps(model: AlbefNet, encoded: Encoded, texts: Texts, text_states: Tensor) -> Tensor:
    """Maps of :func:`match_and_map` alone; attention maps need no computation after the first fusion layer."""
    if model.config.map_source == "gradcam":
        return grad_cam(model, encoded, texts, text_states).maps
    return attention_maps(model.fuse_to(text_states, texts, encoded, 0)[1], texts, encoded)


def attention_maps(weights: Tensor, texts: Texts, encoded: Encoded) -> Tensor:
    """Maps ``[I * P, rows, columns]`` from attention weights ``[I, heads, P * T, 1 + cells]``.

    Mean over heads, over the word pieces between [CLS] and [SEP], and over each cell and its neighbours, minus the mean
    of the map, where positive. Attention is positive everywhere: without the subtraction the heat inside a box would
    grow with its area.
    """
    each = weights.mean(1)[..., 1:].reshape(*texts.ids.shape, -1)  # [I * P, T, cells]
    words = texts.inner().to(each.dtype)
    mean = (each * words[:, :, None]).sum(1) / words.sum(1, keepdim=True).clamp(min=1)
    maps = mean.view(-1, 1, encoded.rows, encoded.columns)
    smooth = F.avg_pool2d(maps, 3, stride=1, padding=1, count_include_pad=False).squeeze(1)
    return (smooth - smooth.mean((1, 2), keepdim=True)).clamp(min=0)


def normalise(maps: Tensor) -> Tensor:
    """Scale maps ``[B, rows, columns]`` to between 0 and nearly 1, each by itself (as in AMC's training)."""
    shifted = maps - maps.amin((1, 2), keepdim=True)
    return shifted / (shifted.amax((1, 2), keepdim=True) + EPS)


def enlarge(maps: Tensor, side: int) -> Tensor:
    """Resize maps ``[B, rows, columns]`` to ``[B, side, side]``, bilinear, for the comparison with masks."""
    return F.interpolate(maps.unsqueeze(1), (side, side), mode="bilinear", align_corners=False).squeeze(1)
