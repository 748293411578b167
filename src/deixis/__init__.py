"""Deixis: grounded captions, and phrases found in photographs.

    import deixis

    caption = deixis.load_captioner()
    result = caption("photo.jpg")
    print(result.text, [(g.text, g.box) for g in result.groundings])

    ground = deixis.load_grounder()
    ground("photo.jpg", ["a dog", "a red ball"])

    deixis.check("photo.jpg", "a dog runs after a red ball")

Everything is imported when it is first used, so that ``import deixis`` is fast. Data sets, metrics and methods are
imported from their own packages.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.pipelines.api import CaptionPipeline, GroundPipeline, check, load_captioner, load_grounder
    from deixis.pipelines.caption import CaptionOptions
    from deixis.pipelines.results import CaptionResult, CheckResult, GroundResult
    from deixis.types import GroundedCaption, Grounding, HeatMap, Labels, Phrase, Regions

__version__ = "0.2.0"
__all__ = [
    "CaptionOptions",
    "CaptionPipeline",
    "CaptionResult",
    "CheckResult",
    "DeixisError",
    "GroundPipeline",
    "GroundResult",
    "GroundedCaption",
    "Grounding",
    "HeatMap",
    "Labels",
    "Phrase",
    "Regions",
    "check",
    "load_captioner",
    "load_grounder",
]

_MODULES = {
    "deixis.pipelines.api": ("CaptionPipeline", "GroundPipeline", "check", "load_captioner", "load_grounder"),
    "deixis.pipelines.caption": ("CaptionOptions",),
    "deixis.pipelines.results": ("CaptionResult", "CheckResult", "GroundResult"),
    "deixis.types": ("GroundedCaption", "Grounding", "HeatMap", "Labels", "Phrase", "Regions"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

_RENAMED = {
    "load_teller": "load_captioner",
    "Teller": "CaptionPipeline",
    "Told": "CaptionResult",
    "load_finder": "load_grounder",
    "Captioner": "deixis.methods.updown.model.Captioner",
}
"""Names of version 0.1 -> what takes their place."""


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name in _RENAMED:
        raise AttributeError(f"deixis.{name} was renamed in version 0.2: use {_RENAMED[name]}.")
    raise AttributeError(f"module 'deixis' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
