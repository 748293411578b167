"""Names of the ImageNet classes."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


@cache
def imagenet_classes() -> tuple[str, ...]:
    """Short names of the 1,000 ImageNet classes, in the usual order of classifiers."""
    names = json.loads(resources.files("deixis.vision").joinpath("imagenet.json").read_text(encoding="utf-8"))
    return tuple(names)
