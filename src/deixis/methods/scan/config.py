"""Sizes of the matching network of SCAN and POS-SCAN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BLOCK = 2**21
"""Similarities of regions and words that are in memory at once when all pairs are scored (8 MB, several times)."""

SENTENCES = 64
"""Sentences that are embedded together during inference."""

TINY = 1e-8  # as in SCAN's code


@dataclass(frozen=True)
class ScanConfig:
    """Sizes of the network, and the choices in which variants of SCAN differ."""

    vocabulary: int
    features: int  # width of a region feature
    words: int = 300  # word embedding (POS-SCAN Sec. 4.2)
    embed: int = 1024  # d_1, joint embedding and GRU state (POS-SCAN Sec. 4.2)
    direction: Literal["text-to-image", "image-to-text"] = "text-to-image"  # words attend to regions, or the reverse
    temperature: float = 9.0  # tau of Eq. 5, the inverse temperature; SCAN takes 4 for image-to-text
    aggregation: Literal["mean", "logsumexp", "max", "sum"] = "mean"  # Eq. 6 is the mean
    sharpness: float = 6.0  # lambda of logsumexp; SCAN takes 6 for text-to-image, 5 for image-to-text
    leak: float = 0.0  # slope of similarities below 0: 0 in the papers, .1 in the published code
    rivals: Literal["all", "counted"] = "all"  # words of the norm in Eq. 4: all n; in the published code: counted ones
    count: str = "all"  # words in the score: "all" (SCAN), "nouns" (POS-SCAN Eq. 8), or parts of speech: "NOUN+ADJ"

    def __post_init__(self) -> None:
        if not 0 < self.temperature <= 32:
            # exp would overflow above
            raise ValueError(f"an inverse temperature of {self.temperature} is outside 0 to 32")
        if self.direction == "image-to-text" and self.count != "all":
            raise ValueError("words can be counted selectively only with direction 'text-to-image'")
