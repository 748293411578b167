"""Names of the weights of BERT in published checkpoints."""

from __future__ import annotations

import re

_PUBLISHED_NAMES = [  # a name inside a published BERT -> the name inside TextEncoder
    (r"embeddings\.word_embeddings\.(.+)", r"words.\1"),
    (r"embeddings\.position_embeddings\.(.+)", r"positions.\1"),
    (r"embeddings\.token_type_embeddings\.(.+)", r"kinds.\1"),
    (r"embeddings\.LayerNorm\.(.+)", r"norm.\1"),
    (r"encoder\.layer\.(\d+)\.attention\.self\.(query|key|value)\.(.+)", r"layers.\1.attention.\2.\3"),
    (r"encoder\.layer\.(\d+)\.attention\.output\.dense\.(.+)", r"layers.\1.attention.out.\2"),
    (r"encoder\.layer\.(\d+)\.attention\.output\.LayerNorm\.(.+)", r"layers.\1.attention.norm.\2"),
    (r"encoder\.layer\.(\d+)\.crossattention\.self\.(query|key|value)\.(.+)", r"layers.\1.cross_attention.\2.\3"),
    (r"encoder\.layer\.(\d+)\.crossattention\.output\.dense\.(.+)", r"layers.\1.cross_attention.out.\2"),
    (r"encoder\.layer\.(\d+)\.crossattention\.output\.LayerNorm\.(.+)", r"layers.\1.cross_attention.norm.\2"),
    (r"encoder\.layer\.(\d+)\.intermediate\.dense\.(.+)", r"layers.\1.up.\2"),
    (r"encoder\.layer\.(\d+)\.output\.dense\.(.+)", r"layers.\1.down.\2"),
    (r"encoder\.layer\.(\d+)\.output\.LayerNorm\.(.+)", r"layers.\1.norm.\2"),
]


def from_published_name(name: str) -> str | None:
    """Return the :class:`TextEncoder` name of a weight of a published BERT; None for an unknown name."""
    for pattern, ours in _PUBLISHED_NAMES:
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(ours)
    return None
