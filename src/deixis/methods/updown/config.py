"""Sizes of the caption decoder, and the choices in which the papers differ.

Short names of papers: see :mod:`deixis.methods.updown.network`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deixis.layers.padded import SEGMENT_WIDTH


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of the decoder, and the choices in which the papers differ."""

    vocabulary: int
    features: int  # width of a region feature
    words: int = 512  # word embedding (DA Sec. 4.1; Cyclical App. D)
    hidden: int = 1024  # both LSTMs (DA Sec. 4.1; Cyclical App. D)
    attention: int = 512  # W_aa in R^{512x1} (Cyclical App. D)
    dropout: float = 0.5  # Cyclical App. D
    branches: int = 1  # K of DA Eq. 7; 1 is the baseline of every paper
    eliminate: bool = True  # DA Eq. 7: regions selected by earlier branches are excluded; False: DA Table 3
    language_to_attention: bool = True  # h2_{t-1} into the attention LSTM (POS-SCAN Eq. 10); GVD, DA Eq. 1: False
    attend_from: Literal["current", "previous"] = "current"  # h1_t (POS-SCAN Eq. 12, GVD) or h1_{t-1} (DA Eq. 2)
    heads: int = 0  # > 0: multi-head attention instead of branches (DA Sec. 4.4)
    grid: int = 0  # width of the image's feature grid; > 0: attention over it is added (DA Eq. 4)
    classes: int = 0  # > 0: region-class similarity is appended to the region feature (Cyclical App. D, GVD)
    location: int = 0  # > 0: width of an appended location embedding; 300 in Cyclical App. D
    # > 0: width of the detector's fc7 layer on the region feature. Its output, the class similarity and the location
    # embedding are layer-normalised before they are joined (GVD, Cyclical App. D; 2048). 0: joined as they are.
    fc7: int = 0
    interact: int = 0  # layers of self-attention over the regions (GVD's obj_interact: 2)
    interact_heads: int = 6  # of that self-attention
    grid_attention: Literal["shared", "own"] = "shared"  # query and energy: of the first branch (Cyclical), own (GVD)
    # whole image: mean region, mean cell (GVD), given vector, mean temporal row with the segment's place (GVD)
    image: Literal["regions", "grid", "vector", "temporal"] = "regions"
    image_features: int = 0  # width of the given vector
    grid_side: int = 0  # cells per side of the grids that the model's extractor makes
    # > 0: it describes clips of this many frames. The location embedding also has the frame, and every branch takes
    # its best region of each frame out of reach of the next one (DA is silent about video).
    frames: int = 0
    temporal: int = 0  # width of the temporal features of a video; > 0: attention over them, as over a grid (GVD)
    motion: int = 0  # width of their motion part (GVD: 1024 of 3072), which has an embedding of its own
    steps: int = 480  # temporal rows, cut or padded with zeros (GVD)
    see_time: bool = True  # False: a control whose location embedding does not have the frame

    def __post_init__(self) -> None:
        if self.heads and self.branches > 1:
            raise ValueError("a decoder has several branches or several heads, not both")
        if self.heads > min(self.hidden, self.attention):
            raise ValueError(f"{self.heads} heads are too many for hidden {self.hidden}, attention {self.attention}")
        if self.interact and not 1 <= self.interact_heads <= self.hidden:
            raise ValueError(f"{self.interact_heads} heads of the self-attention do not fit hidden {self.hidden}")
        if self.image == "vector" and not self.image_features:
            raise ValueError("a decoder that reads a vector of the whole image needs its width, image_features")
        if self.temporal and (self.grid or not self.frames):
            raise ValueError("a decoder with temporal features describes clips, and has no grid")
        if (self.image == "temporal" and not self.temporal) or not 0 <= self.motion <= self.temporal:
            raise ValueError("the video vector and the motion part need temporal features")

    @property
    def image_width(self) -> int:
        """Width of the feature of the whole image."""
        widths = {"regions": self.features, "grid": self.grid, "vector": self.image_features}
        return {**widths, "temporal": self.temporal + SEGMENT_WIDTH}[self.image]
