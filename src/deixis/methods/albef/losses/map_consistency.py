"""Attention map consistency: heat inside the box of a text should exceed heat outside (AMC Eq. 7 to 9).

Also the cosine distance of AMC's Table 3b. Only recipes that learn from boxes use this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.distributed import count_rows, total, world


@dataclass(frozen=True)
class MapConfig:
    """Weights and margins; the defaults are the paper's (Sec. 4.1)."""

    loss: Literal["amc", "cosine"] = "amc"
    mean: float = 0.2  # lambda_1, weight of Eq. 7
    most: float = 0.8  # lambda_2, weight of Eq. 8
    mean_margin: float = 0.1  # Delta_1
    max_margin: float = 0.5  # Delta_2
    pooled: bool = False  # Eq. 7 with one hinge over the means of the whole batch, as the published code has it


def map_consistency(maps: Tensor, masks: Tensor, config: MapConfig) -> dict[str, Tensor]:
    """Weighted loss terms (Eq. 9) for maps ``[B, H, W]`` between 0 and 1 and masks of that shape, True in the box."""
    if config.loss == "cosine":
        return {"cosine": cosine_distance(maps, masks)}
    terms = {}
    if config.mean:
        terms["mean"] = config.mean * mean_margin(maps, masks, config.mean_margin, config.pooled)
    if config.most:
        terms["max"] = config.most * max_margin(maps, masks, config.max_margin)
    return terms


def mean_margin(maps: Tensor, masks: Tensor, margin: float, pooled: bool = False) -> Tensor:
    """L_mean (Eq. 7): hinge of mean outside - mean inside + margin.

    One hinge for each image, as in the equation; ``pooled`` takes the means over the whole batch first. The mean
    outside is 0 for a box that fills the image.
    """
    inside = masks.to(maps.dtype)
    over = (0, 1, 2) if pooled else (1, 2)
    sums = torch.stack([x.sum(over) for x in (maps * inside, inside, maps * (1 - inside), 1 - inside)])
    heat_in, cells_in, heat_out, cells_out = total(sums) if pooled else sums
    hinges = F.relu(heat_out / cells_out.clamp(min=1) - heat_in / cells_in.clamp(min=1) + margin)
    return hinges / world() if pooled else _mean(hinges)


def max_margin(maps: Tensor, masks: Tensor, margin: float) -> Tensor:
    """L_max (Eq. 8): hinge of maximum outside - maximum inside + margin."""
    inside = masks.to(maps.dtype)
    return _mean(F.relu((maps * (1 - inside)).amax((1, 2)) - (maps * inside).amax((1, 2)) + margin))


def cosine_distance(maps: Tensor, masks: Tensor) -> Tensor:
    """Cosine distance of map and mask (Table 3b)."""
    return _mean(1 - F.cosine_similarity(maps.flatten(1), masks.to(maps.dtype).flatten(1)))


def _mean(values: Tensor) -> Tensor:
    """Share of this process in the mean of the values ``[B]`` of all images with boxes."""
    return values.sum() / count_rows(values).clamp(min=1)


def box_masks(boxes: Tensor, side: int) -> Tensor:
    """Masks ``[B, side, side]`` of boxes ``[B, 4]`` (fractions of the image): cells whose centre lies in the box.

    A box that is too thin for any centre gets the cells nearest to its own centre.
    """
    centres = (torch.arange(side, device=boxes.device, dtype=boxes.dtype) + 0.5) / side
    x1, y1, x2, y2 = boxes.unbind(-1)

    def along(low: Tensor, high: Tensor) -> Tensor:
        held = (centres >= low[:, None]) & (centres < high[:, None])  # [B, side]
        nearest = F.one_hot((centres - (low + high)[:, None] / 2).abs().argmin(-1), side).bool()
        return torch.where(held.any(-1, keepdim=True), held, nearest)

    return along(y1, y2)[:, :, None] & along(x1, x2)[:, None, :]
