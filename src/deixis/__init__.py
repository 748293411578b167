"""Deixis: words tied to pixels.

The types are here, and the models by name. They are imported when first asked for, so that ``import deixis`` waits for
nothing. Data sets and metrics are imported from their own folders.
"""

from typing import TYPE_CHECKING, Any

from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.methods.updown.model import Captioner
    from deixis.pipelines.caption import load_teller
    from deixis.pipelines.load import load_captioner, load_finder
    from deixis.types import GroundedCaption, Grounding, HeatMap, Labels, Phrase, Regions

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
    "load_teller",
]

_HOMES = {
    "Captioner": "deixis.methods.updown.model",
    "load_captioner": "deixis.pipelines.load",
    "load_finder": "deixis.pipelines.load",
    "load_teller": "deixis.pipelines.caption",
} | dict.fromkeys(("GroundedCaption", "Grounding", "HeatMap", "Labels", "Phrase", "Regions"), "deixis.types")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'deixis' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
