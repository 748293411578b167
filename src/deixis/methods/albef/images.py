"""Images as input of the fusion model: squares of pixels, or squares of grid cells."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from deixis.errors import DeixisError
from deixis.methods.albef.inputs import Resize
from deixis.methods.albef.network import AlbefConfig
from deixis.types import Regions

# of the pixels that ALBEF's image encoder was trained on: red, green, blue, from 0 to 1
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)


def square_grid(regions: Regions, config: AlbefConfig) -> Tensor:
    """Feature grid ``[side, side, features]`` of an image, resized to a square."""
    if regions.grid is None or regions.grid.ndim != 3:
        raise DeixisError("this model needs the feature grid of a photograph. Extract the features with --grid.")
    grid = torch.from_numpy(np.asarray(regions.grid, dtype=np.float32))
    if grid.shape[2] != config.features:
        raise DeixisError(f"the feature grid has cells of width {grid.shape[2]}; this model needs {config.features}.")
    if grid.shape[:2] == (config.side, config.side):
        return grid
    sized = F.interpolate(grid.permute(2, 0, 1)[None], (config.side, config.side), mode="bilinear")
    return sized[0].permute(1, 2, 0)


def square_pixels(image: Image.Image, side: int, resize: Resize = "reduced") -> Tensor:
    """Pixels ``[3, side, side]`` from 0 to 1 of an image resized to a square; see :class:`InputConfig`."""
    rgb = image.convert("RGB")
    if resize == "bilinear":
        import cv2

        pixels = cv2.resize(np.asarray(rgb), (side, side), interpolation=cv2.INTER_LINEAR)
    else:
        gap = 3.0 if resize == "reduced" else None
        pixels = np.array(rgb.resize((side, side), Image.Resampling.BICUBIC, reducing_gap=gap))
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


def standardise(pixels: Tensor) -> Tensor:
    """Standardise pixels ``[..., 3, H, W]`` with the mean and deviation of the image encoder's training."""
    return (pixels - pixels.new_tensor(MEAN).view(3, 1, 1)) / pixels.new_tensor(DEVIATION).view(3, 1, 1)


def jitter_published(pixels: Tensor, strength: float = 0.4, chance: float = 0.5, grey: float = 0.2) -> Tensor:
    """Change colours of pixels ``[3, H, W]`` with AMC's published values: also the hue, and in half of the cases.

    The published code draws the order of the four changes; here it is brightness, contrast, saturation, hue.
    """
    import cv2

    changed, plain = (torch.rand(2) < torch.tensor([chance, grey])).tolist()
    shift = float(strength * (2 * torch.rand(()) - 1))
    colours = jitter_colours(pixels, strength, grey=0.0) if changed else pixels
    if changed:
        hsv = cv2.cvtColor(colours.permute(1, 2, 0).contiguous().numpy(), cv2.COLOR_RGB2HSV)  # hue from 0 to 360
        hsv[..., 0] = (hsv[..., 0] + 360 * shift) % 360
        colours = torch.from_numpy(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)).permute(2, 0, 1).clamp(0, 1)
    weights = colours.new_tensor((0.299, 0.587, 0.114)).view(3, 1, 1)
    return (colours * weights).sum(0, keepdim=True).expand(3, -1, -1) if plain else colours


def jitter_colours(pixels: Tensor, strength: float = 0.4, grey: float = 0.2) -> Tensor:
    """Change brightness, contrast and saturation of pixels ``[3, H, W]``; with probability ``grey`` remove colour.

    AMC (Sec. 4.1) gives no values for its colour augmentation: these are common ones.
    """
    brightness, contrast, saturation = (1 + strength * (2 * torch.rand(3) - 1)).tolist()
    pixels = pixels * brightness
    pixels = (pixels - pixels.mean()) * contrast + pixels.mean()
    plain = (pixels * pixels.new_tensor((0.299, 0.587, 0.114)).view(3, 1, 1)).sum(0, keepdim=True)
    saturation = 0.0 if float(torch.rand(())) < grey else saturation
    return ((pixels - plain) * saturation + plain).clamp(0, 1)
