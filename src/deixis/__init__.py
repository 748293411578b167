"""Deixis: words tied to pixels.

The types are here, and the models by name: they are imported when first asked for, so that ``import deixis`` stays
light. Data sets and metrics are imported from their own folders.
"""

from typing import TYPE_CHECKING, Any

from deixis.errors import DeixisError
from deixis.types import GroundedCaption, Grounding, HeatMap, Labels, Phrase, Regions

if TYPE_CHECKING:
    from deixis.models.captioner import Captioner
    from deixis.models.pretrained import load_captioner, load_finder

__version__ = "0.1.0"
__all__ = [
    "Captioner",
    "DeixisError",
    "GroundedCaption",
    "Grounding",
    "HeatMap",
    "Labels",
    "Phrase",
    "Regions",
    "__version__",
    "load_captioner",
    "load_finder",
]

_MODELS = {
    "Captioner": "deixis.models.captioner",
    "load_captioner": "deixis.models.pretrained",
    "load_finder": "deixis.models.pretrained",
}


def __getattr__(name: str) -> Any:
    if name not in _MODELS:
        raise AttributeError(f"module 'deixis' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_MODELS[name]), name)
