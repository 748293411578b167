"""Vectors of the class names of regions."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from deixis.errors import DeixisError
from deixis.layers.text_vectors import Vectors, text_vectors
from deixis.types import Regions


def name_vectors(regions: Regions, top: int = 0) -> Vectors:
    """Vectors ``[N, E]`` of the class names of the regions of one image (E_ext of Eq. 3).

    The vectors of the ``top`` classes (0: all that are stored) are averaged by probability. Eq. 3 is an inner product,
    so this is the average of the similarities.
    """
    labels = regions.labels
    if labels is None:
        raise DeixisError(
            f"the regions of {regions.extractor or 'this image'} have no class names, which this model needs. "
            "Use an extractor with a classifier, or a recipe with --model.names none."
        )
    kept = slice(0, top or None)
    weight = labels.probs[:, kept].astype(np.float32)
    weight /= np.maximum(weight.sum(1, keepdims=True), 1e-9)
    return np.einsum("nk,nke->ne", weight, _table(labels.names)[labels.ids[:, kept]])


@lru_cache(maxsize=8)
def _table(names: tuple[str, ...]) -> Vectors:
    return text_vectors(names)
