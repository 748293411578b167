"""Changes of colours of pixels in training."""

from __future__ import annotations

import torch
from torch import Tensor


def jitter_published(
    pixels: Tensor,
    strength: float = 0.4,
    chance: float = 0.5,
    grey: float = 0.2,
    random: torch.Generator | None = None,
) -> Tensor:
    """Change colours of pixels ``[3, H, W]`` with AMC's published values: also the hue, and in half of the cases.

    The published code draws the order of the four changes; here it is brightness, contrast, saturation, hue.
    """
    import cv2

    changed, plain = (torch.rand(2, generator=random) < torch.tensor([chance, grey])).tolist()
    shift = float(strength * (2 * torch.rand((), generator=random) - 1))
    colours = jitter_colours(pixels, strength, 0.0, random) if changed else pixels
    if changed:
        hsv = cv2.cvtColor(colours.permute(1, 2, 0).contiguous().numpy(), cv2.COLOR_RGB2HSV)  # hue from 0 to 360
        hsv[..., 0] = (hsv[..., 0] + 360 * shift) % 360
        colours = torch.from_numpy(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)).permute(2, 0, 1).clamp(0, 1)
    weights = colours.new_tensor((0.299, 0.587, 0.114)).view(3, 1, 1)
    return (colours * weights).sum(0, keepdim=True).expand(3, -1, -1) if plain else colours


def jitter_colours(
    pixels: Tensor, strength: float = 0.4, grey: float = 0.2, random: torch.Generator | None = None
) -> Tensor:
    """Change brightness, contrast and saturation of pixels ``[3, H, W]``; with probability ``grey`` remove colour.

    AMC (Sec. 4.1) gives no values for its colour augmentation: these are common ones.
    """
    brightness, contrast, saturation = (1 + strength * (2 * torch.rand(3, generator=random) - 1)).tolist()
    pixels = pixels * brightness
    pixels = (pixels - pixels.mean()) * contrast + pixels.mean()
    plain = (pixels * pixels.new_tensor((0.299, 0.587, 0.114)).view(3, 1, 1)).sum(0, keepdim=True)
    saturation = 0.0 if float(torch.rand((), generator=random)) < grey else saturation
    return ((pixels - plain) * saturation + plain).clamp(0, 1)
