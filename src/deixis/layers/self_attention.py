"""Self-attention over the regions of an image (GVD's ``obj_interact``): transformer layers without positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.layers.noise import drop, fold

DROPOUT = 0.2  # of the published code


class SelfAttention(nn.Module):
    """Layers x = norm(x + MultiHead(x)), x = norm(x + W_2 ReLU(W_1 x)); W_1 halves the width."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor, random: Tensor | None = None) -> Tensor:
        """Attend from every row of ``x [I, N, width]`` to the rows marked in ``mask [I, N]``.

        ``random [I]`` are the random keys of dropout.
        """
        for number, layer in enumerate(self.layers):
            x = layer(x, mask, fold(random, number))
        return x


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.feed = nn.Linear(width, width // 2)
        self.back = nn.Linear(width // 2, width)
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor, random: Tensor | None) -> Tensor:
        # heads need not divide the width: six slices of 1,024 numbers have 171 or 170
        queries, keys, values = (layer(x).tensor_split(self.heads, -1) for layer in (self.query, self.key, self.value))
        absent = ~mask.unsqueeze(1)
        heads = enumerate(zip(queries, keys, values, strict=True))
        found = [self._head(*qkv, absent, fold(random, 2 + number)) for number, qkv in heads]
        x = self.attention_norm(x + self._drop(self.output(torch.cat(found, -1)), fold(random, 0)))
        out: Tensor = self.feed_norm(x + self._drop(self.back(F.relu(self.feed(x))), fold(random, 1)))
        return out

    def _head(self, query: Tensor, key: Tensor, value: Tensor, absent: Tensor, random: Tensor | None) -> Tensor:
        # as in the published code, the scale is the root of the whole width
        energy = torch.bmm(query, key.transpose(1, 2)) / self.output.in_features**0.5
        # an image without regions has finite weights, which no one reads
        alpha = energy.masked_fill(absent, torch.finfo(energy.dtype).min).softmax(-1)
        return torch.bmm(self._drop(alpha, random), value)

    def _drop(self, x: Tensor, random: Tensor | None) -> Tensor:
        return drop(x, DROPOUT, True, random) if self.training else x
