"""Sizes of the fusion model. ``base`` is ALBEF's and AMC's; ``small`` is the same network for two cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class AlbefConfig:
    """Every size of a fusion model; the defaults are those of ALBEF (AMC, Sec. 4.1)."""

    vocabulary: int = 30522  # word pieces
    hidden: int = 768  # width of text and fusion encoder, which are a BERT cut in two
    heads: int = 12  # of their attention
    feed: int = 3072  # width between the two linear layers of their blocks
    positions: int = 512  # word pieces of the longest text
    text_layers: int = 6  # BERT's lower layers
    fusion_layers: int = 6  # BERT's upper layers, which look at the image too
    dropout: float = 0.1  # in text and fusion encoder
    patch: int = 16  # pixels along a patch; 0: the image encoder's tokens are cells of a feature grid
    features: int = 0  # width of a cell, where tokens are cells
    side: int = 16  # patches or cells along a side of the image, which is squashed to a square
    image_hidden: int = 768  # width of the image encoder, a vision transformer
    image_heads: int = 12  # of its attention
    image_feed: int = 3072  # width between the two linear layers of its blocks
    image_layers: int = 12  # its blocks
    shared: int = 256  # width of the space in which whole images and whole texts are compared
    map_layer: int = 2  # fusion layer, from 0, whose attention makes the map; the third of six in AMC's code
    explain: Literal["match", "look"] = "match"  # a map is Grad-CAM of the match score (AMC), or where words look first

    def __post_init__(self) -> None:
        if bool(self.patch) == bool(self.features):
            raise ValueError("an image encoder reads either patches of pixels or cells of a feature grid")
        if self.hidden % self.heads or self.image_hidden % self.image_heads:
            raise ValueError("attention heads must divide the width evenly")
        if not 0 <= self.map_layer < self.fusion_layers:
            raise ValueError(f"there is no fusion layer {self.map_layer} among {self.fusion_layers}")

    @property
    def pixels(self) -> int:
        """Side of the square image that the positions were learnt for; 0 where tokens are cells of a grid."""
        return self.patch * self.side


def base() -> AlbefConfig:
    """ViT-B/16 at 256 pixels and BERT-base, six layers each for text and fusion."""
    return AlbefConfig()


def small(features: int = 1280, side: int = 12) -> AlbefConfig:
    """Cells of a backbone's grid and MiniLM, three layers each for text and fusion.

    The cells have been through a whole backbone: one narrow layer among themselves is enough for them.
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
        explain="look",
    )
