"""Box proposals of photographs.

The default method has no box supervision; ``describe()["supervision"]`` states the supervision of each method. A limit
counts all boxes, including the whole image. A smaller limit gives a prefix of the same list.
"""

from __future__ import annotations

from pathlib import Path

from deixis.errors import DeixisError
from deixis.vision.proposals.base import Proposals, Proposer
from deixis.vision.proposals.coco_ssd import CocoSsd, CocoSsdAndSearch
from deixis.vision.proposals.detectors import TorchvisionDetector, TransformersDetector
from deixis.vision.proposals.grid import Grid
from deixis.vision.proposals.lookup import SUFFIXES, BoxFile, Truth
from deixis.vision.proposals.people import CocoSsdAndParts
from deixis.vision.proposals.selective import SelectiveSearch

__all__ = [
    "BoxFile",
    "CocoSsd",
    "CocoSsdAndParts",
    "CocoSsdAndSearch",
    "Grid",
    "Proposals",
    "Proposer",
    "SelectiveSearch",
    "TorchvisionDetector",
    "TransformersDetector",
    "Truth",
    "by_name",
    "default",
]

CHOICES = (
    "selective-search, fast-search, grid, coco-ssd, coco-ssd+ss, coco-ssd+parts, truth:DATASET, "
    "a file of boxes (.json, .json.gz, .npz), transformers:FOLDER[:PHRASE,PHRASE...] or torchvision:MODEL:WEIGHTS"
)


def default() -> Proposer:
    """Return the default proposer: selective search with 100 boxes, without box supervision."""
    return SelectiveSearch()


def fast_search(limit: int = 48) -> SelectiveSearch:
    """Return selective search at two scales instead of three, which takes three quarters of the time."""
    return SelectiveSearch(limit=limit, coarseness=(100, 300))


def by_name(name: str, limit: int = 100) -> Proposer:
    """Return the proposer with this name and at most ``limit`` boxes, including the whole image."""
    if limit < 1:
        raise DeixisError("the number of boxes must be at least 1 (the whole image).")
    if name == "selective-search":
        return SelectiveSearch(limit=limit)
    if name == "fast-search":
        return fast_search(limit)
    if name == "grid":
        return Grid(limit=limit)
    if name == "coco-ssd":
        return CocoSsd(limit=limit)
    if name == "coco-ssd+ss":
        return CocoSsdAndSearch(limit=limit)
    if name == "coco-ssd+parts":
        return CocoSsdAndParts(limit=limit)
    if name.endswith(SUFFIXES):
        return BoxFile(Path(name), limit=limit)
    match name.split(":", 2):
        case ["truth", root] if root:
            return Truth(Path(root), limit=limit)
        case ["transformers", folder, *phrases] if folder:
            text = tuple(phrase.strip() for phrase in ",".join(phrases).split(",") if phrase.strip())
            return TransformersDetector(Path(folder), text, limit=limit)
        case ["torchvision", model, weights]:
            return TorchvisionDetector(model, Path(weights), limit=limit)
    raise DeixisError(f"unknown proposals '{name}'. Use {CHOICES}.")
