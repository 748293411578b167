"""The fusion model: an image encoder, a text encoder, and a fusion encoder in which words look at the image."""

from deixis.models.fusion.config import FusionConfig, base, small
from deixis.models.fusion.maps import Matched, enlarged, explained, look_maps, maps_of, match_maps, normalised
from deixis.models.fusion.model import Encoded, Fusion, Texts
from deixis.models.fusion.pairs import pair_scores
from deixis.models.fusion.weights import load_minilm, load_published

__all__ = [
    "Encoded",
    "Fusion",
    "FusionConfig",
    "Matched",
    "Texts",
    "base",
    "enlarged",
    "explained",
    "load_minilm",
    "load_published",
    "look_maps",
    "maps_of",
    "match_maps",
    "normalised",
    "pair_scores",
    "small",
]
