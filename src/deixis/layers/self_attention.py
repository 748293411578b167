"""Self-attention over the regions of an image (GVD's ``obj_interact``): transformer layers without positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

DROPOUT = 0.2  # of the published code


class SelfAttention(nn.Module):
    """Layers x = norm(x + MultiHead(x)), x = norm(x + W_2 ReLU(W_1 x)); W_1 halves the width."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attend from every row of ``x [I, N, width]`` to the rows marked in ``mask [I, N]``."""
        for layer in self.layers:
            x = layer(x, mask)
        return x


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.feed = nn.Linear(width, width // 2)
        self.back = nn.Linear(width // 2, width)
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        # heads need not divide the width: six slices of 1,024 numbers have 171 or 170
        queries, keys, values = (layer(x).tensor_split(self.heads, -1) for layer in (self.query, self.key, self.value))
        absent = ~mask.unsqueeze(1)
        found = [self._head(q, k, v, absent) for q, k, v in zip(queries, keys, values, strict=True)]
        x = self.attention_norm(x + self._drop(self.output(torch.cat(found, -1))))
        out: Tensor = self.feed_norm(x + self._drop(self.back(F.relu(self.feed(x)))))
        return out

    def _head(self, query: Tensor, key: Tensor, value: Tensor, absent: Tensor) -> Tensor:
        # as in the published code, the scale is the root of the whole width
        energy = torch.bmm(query, key.transpose(1, 2)) / self.output.in_features**0.5
        # an image without regions has finite weights, which no one reads
        alpha = energy.masked_fill(absent, torch.finfo(energy.dtype).min).softmax(-1)
        return torch.bmm(self._drop(alpha), value)

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, DROPOUT, self.training)
