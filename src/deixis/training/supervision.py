"""Supervision of a model: captions, and any use of boxes in its losses, validation, proposals and source models.

The text is computed from the settings of a run and written to the model card and ``recipe.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deixis.model_folder import PROPOSALS, read_supervision, with_proposals
from deixis.training.data import TrainingData
from deixis.training.recipe import Recipe

CAPTIONS = "photographs with captions"
PAIRS = f"{CAPTIONS}, no boxes"

BOX_SCORES = frozenset({"accuracy", "mean_iou", "pointing", "F1_all", "F1_loc"})
"""Validation scores that need boxes of the validation set."""


@dataclass(frozen=True)
class SourceModel:
    """Initial model, teacher or reward model of a run."""

    role: str  # "initial model", "teacher" or "reward model"
    path: Path  # a model folder, or a published checkpoint
    supervision: str

    @classmethod
    def read(cls, role: str, path: Path) -> SourceModel:
        """Read the supervision of a source model from its ``recipe.json``."""
        return cls(role, path, read_supervision(path))


def supervision_of(recipe: Recipe, data: TrainingData, sources: Sequence[SourceModel] = ()) -> str:
    """Describe the supervision of a run; "no boxes" only if no part of it used boxes."""
    boxes = "".join(f", and {source}" for source in recipe.box_sources())
    parts = []
    if recipe.monitor in BOX_SCORES:
        parts.append(f"best epoch selected by {recipe.monitor} on boxes of the validation set")
    for source in sources:
        text = source.supervision.split(PROPOSALS)[0]  # the proposals are those of this run
        if text not in (CAPTIONS, PAIRS):
            parts.append(f"{source.role}: {text}")
    proposals = str(data.extractor["description"].get("proposals", {}).get("supervision", ""))
    if recipe.uses_regions and proposals.startswith("boxes"):
        parts.append(f"proposals: {proposals}")
    return "; ".join([f"{CAPTIONS}{boxes}", *parts]) if boxes or parts else PAIRS


def short_supervision(supervision: str, proposals: str) -> str:
    """Return a short text about the supervision of a run, including the boxes used for its proposals."""
    shown = "captions" if supervision == PAIRS else supervision.replace(CAPTIONS, "captions")
    return with_proposals(shown, proposals)
