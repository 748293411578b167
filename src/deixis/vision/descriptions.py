"""Descriptions of extractors: their short names and bounds."""

from __future__ import annotations

import hashlib
import json

from deixis.types import Json

MAX_NAME, MAX_SIDE, MAX_BOXES = 300, 4096, 10_000
"""Bounds of a stored description: characters of a name, pixels of the backbone's input, boxes of an image."""


def extractor_name(description: Json) -> str:
    """Return the short name of a description: ``efficientnet-lite2+selective-search-1a2b3c4d``."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:8]
    return f"{description['backbone']['name']}+{description['proposals']['name']}-{digest}"


def check_description(description: Json, name: str) -> None:
    """Raise ValueError if a description has no names, or if its sizes are out of bounds."""
    if not isinstance(description, dict) or not isinstance(name, str) or len(name) > MAX_NAME:
        raise ValueError("an extractor must have a name and a description")
    for part, size, largest in (("backbone", "long_side", MAX_SIDE), ("proposals", "limit", MAX_BOXES)):
        about = description.get(part, {})  # features from elsewhere may have no such part, and parts without a name
        called = about.get("name", "") if isinstance(about, dict) else None
        if not isinstance(called, str) or len(called) > MAX_NAME:
            raise ValueError(f"the {part} of the extractor's description are not valid")
        value = about.get(size, 1)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
            raise ValueError(f"{size} of the extractor's {part} must be 1 to {largest}")
