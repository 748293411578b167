"""Region extraction: backbone, proposals, RoI pooling, feature store.

``default_extractor().extract(image)`` returns the regions of a photograph. The names below are imported when first
used, because torch is slow to import and proposals and stores do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deixis.vision.extractor import RegionExtractor, default_extractor

__all__ = ["RegionExtractor", "default_extractor"]


def __getattr__(name: str) -> Any:
    if name in ("RegionExtractor", "default_extractor"):
        from deixis.vision import extractor

        return getattr(extractor, name)
    raise AttributeError(f"module 'deixis.vision' has no attribute '{name}'")
