"""Image encoder: a vision transformer on patches of pixels or on the cells of a feature grid."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.methods.albef.config import AlbefConfig


class ImageEncoder(nn.Module):
    """Vision transformer with a [CLS] token (``whole``) and one token for each patch or cell.

    Position embeddings are learnt for a square of ``config.side`` tokens and interpolated for other sizes, so that a
    model for 256 pixels can read 384.
    """

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        width = config.image_hidden
        self.patches: nn.Conv2d | nn.Linear
        if config.patch:
            self.patches = nn.Conv2d(3, width, config.patch, stride=config.patch)
        else:
            self.patches = nn.Linear(config.features, width)
        self.pixels = bool(config.patch)
        self.whole = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 1 + config.side**2, width))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.image_layers))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        nn.init.trunc_normal_(self.whole, std=0.02)
        # cells are whitened to a deviation of 1, so positions need larger values
        nn.init.trunc_normal_(self.positions, std=0.02 if config.patch else 0.2)

    def forward(self, images: Tensor) -> Tensor:
        """Tokens ``[I, 1 + rows * columns, width]`` of pixels ``[I, 3, H, W]`` or grids ``[I, rows, columns, D]``."""
        tokens = self.patches(images)
        if self.pixels:
            tokens = tokens.permute(0, 2, 3, 1)  # [I, rows, columns, width]
        _, rows, columns, _ = tokens.shape
        x = torch.cat([self.whole.expand(len(tokens), -1, -1), tokens.flatten(1, 2)], 1)
        x = x + resize_positions(self.positions, rows, columns)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Block(nn.Module):
    """Pre-norm transformer block: attention and two linear layers, each with a residual."""

    def __init__(self, config: AlbefConfig) -> None:
        super().__init__()
        width = config.image_hidden
        self.heads = config.image_heads
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, config.image_feed), nn.Linear(config.image_feed, width)

    def forward(self, x: Tensor) -> Tensor:
        """``[I, N, width]`` to the same shape."""
        images, count, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(images, count, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each [I, heads, N, width / heads]
        attended = F.scaled_dot_product_attention(query, key, value)
        x = x + self.out(attended.transpose(1, 2).reshape(images, count, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def resize_positions(positions: Tensor, rows: int, columns: int) -> Tensor:
    """Interpolate position embeddings ``[1, 1 + side * side, width]`` to another grid, bicubic; [CLS] is unchanged."""
    whole, cells = positions[:, :1], positions[:, 1:]
    side = round(cells.shape[1] ** 0.5)
    if (rows, columns) == (side, side):
        return positions
    square = cells.view(1, side, side, -1).permute(0, 3, 1, 2)
    resized = F.interpolate(square, (rows, columns), mode="bicubic", align_corners=False)
    return torch.cat([whole, resized.permute(0, 2, 3, 1).flatten(1, 2)], 1)
