"""The supervision of a model: captions, and every use of boxes in its losses, validation, proposals and source models.

The text is derived from what a run used, written into the model card and into ``recipe.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deixis.model_folder import PROPOSALS, read_supervision
from deixis.training.data import TrainingData
from deixis.training.recipe import Recipe

CAPTIONS = "photographs with captions"
PAIRS = f"{CAPTIONS}, no boxes"

BOX_SCORES = frozenset({"accuracy", "mean_iou", "pointing", "F1_all", "F1_loc"})
"""Validation scores that are computed with boxes of the validation set."""


@dataclass(frozen=True)
class SourceModel:
    """A trained model that a run starts from or learns with."""

    role: str  # "initial model", "teacher" or "reward model"
    path: Path  # a model folder, or a published checkpoint
    supervision: str

    @classmethod
    def read(cls, role: str, path: Path) -> SourceModel:
        """The source model in a folder, with the supervision that its ``recipe.json`` states."""
        return cls(role, path, read_supervision(path))


def supervision_of(recipe: Recipe, data: TrainingData, sources: Sequence[SourceModel] = ()) -> str:
    """Describe what a run learns from besides pixels; "no boxes" only where no part of it has used any."""
    boxes = "".join(f", and {source}" for source in recipe.box_sources())
    parts = []
    if recipe.monitor in BOX_SCORES:
        parts.append(f"best epoch selected by {recipe.monitor} on boxes of the validation set")
    for source in sources:
        text = source.supervision.split(PROPOSALS)[0]  # they have the same proposals as this run
        if text not in (CAPTIONS, PAIRS):
            parts.append(f"{source.role}: {text}")
    proposals = str(data.extractor["description"].get("proposals", {}).get("supervision", ""))
    if recipe.uses_regions and proposals.startswith("boxes"):
        parts.append(f"proposals: {proposals}")
    return "; ".join([f"{CAPTIONS}{boxes}", *parts]) if boxes or parts else PAIRS
