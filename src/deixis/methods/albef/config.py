"""Sizes of the fusion model, constants of its scores, and texts as word pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from deixis.fields import from_dict

MapSource = Literal["gradcam", "attention"]


BOUNDS = {
    **{"text_layers": (0, 64), "fusion_layers": (1, 64), "image_layers": (0, 64)},
    **{"heads": (1, 256), "image_heads": (1, 256), "dropout": (0, 1)},
}
"""Bounds of a stored configuration; the other sizes are compared with the stored weights."""


@dataclass(frozen=True)
class AlbefConfig:
    """Sizes of a fusion model; the defaults are those of ALBEF (AMC, Sec. 4.1)."""

    vocabulary: int = 30522  # word pieces
    hidden: int = 768  # width of text and fusion encoder, the lower and upper layers of one BERT
    heads: int = 12  # of their attention
    feed: int = 3072  # width between the two linear layers of their blocks
    positions: int = 512  # word pieces of the longest text
    text_layers: int = 6  # BERT's lower layers
    fusion_layers: int = 6  # BERT's upper layers, with cross-attention to the image
    dropout: float = 0.1  # in text and fusion encoder
    patch: int = 16  # pixels along a patch; 0: image tokens are cells of a feature grid
    features: int = 0  # width of a cell, where tokens are cells
    side: int = 16  # patches or cells along a side of the image, which is resized to a square
    image_hidden: int = 768  # width of the image encoder, a vision transformer
    image_heads: int = 12  # of its attention
    image_feed: int = 3072  # width between the two linear layers of its blocks
    image_layers: int = 12  # its blocks
    shared: int = 256  # width of the joint embedding of whole images and whole texts
    map_layer: int = 2  # fusion layer, from 0, of the Grad-CAM map; the third of six in AMC's code
    map_source: MapSource = "gradcam"  # Grad-CAM of the match score (AMC), or first cross-attention (ours)
    word_head: bool = True  # whether there is a head for masked words; ALBEF fine-tuned for grounding has none

    def __post_init__(self) -> None:
        if bool(self.patch) == bool(self.features):
            raise ValueError("an image encoder reads either patches of pixels or cells of a feature grid")
        if self.hidden % self.heads or self.image_hidden % self.image_heads:
            raise ValueError("the number of attention heads must divide the width")
        if not 0 <= self.map_layer < self.fusion_layers:
            raise ValueError(f"there is no fusion layer {self.map_layer} among {self.fusion_layers}")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AlbefConfig:
        """Read a stored configuration; version 0.1 called ``map_source`` "explain" with "match" or "look"."""
        fields = dict(value)
        if "explain" in fields:
            fields["map_source"] = {"match": "gradcam", "look": "attention"}[fields.pop("explain")]
        return from_dict(cls, fields, BOUNDS)

    @property
    def pixels(self) -> int:
        """Side of the square image for which positions are learnt; 0 where tokens are cells of a grid."""
        return self.patch * self.side


def base() -> AlbefConfig:
    """ViT-B/16 at 256 pixels and BERT-base, six layers each for text and fusion."""
    return AlbefConfig()


def small(features: int = 1280, side: int = 12) -> AlbefConfig:
    """Cells of a backbone's grid and MiniLM, three layers each for text and fusion.

    The cells are outputs of a whole backbone, so the image encoder has one narrow layer.
    """
    return AlbefConfig(
        hidden=384,
        feed=1536,
        text_layers=3,
        fusion_layers=3,
        patch=0,
        features=features,
        side=side,
        image_hidden=256,
        image_heads=8,
        image_feed=512,
        image_layers=1,
        map_layer=0,
        map_source="attention",
    )


OLD_NAMES = {"look": "cross_attention", "share_image": "project_image", "share_text": "project_text"}
"""Names of layers in weights of version 0.1 -> names now."""

SHARPNESS = 8.0
"""Of the soft maximum over cells: log(sum(exp(SHARPNESS * score))) / SHARPNESS.

With 1, the softmax of the attention itself, all cells have similar weight at first, and attention stays uniform.
"""


@dataclass(frozen=True)
class Pieces:
    """Word pieces of texts: [CLS] first, [SEP] last where ``sep``."""

    ids: Sequence[tuple[int, ...]]
    sep: bool = True

    def __len__(self) -> int:
        return len(self.ids)
