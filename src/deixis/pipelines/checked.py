"""A caption held against a photograph: which of its phrases are there, and which are doubtful."""

from __future__ import annotations

from dataclasses import dataclass

from deixis.types import GroundedCaption, Grounding, Json

DOUBT = 0.5
"""A noun whose phrase matches the photograph with a smaller probability is doubtful."""


@dataclass(frozen=True)
class Checked:
    """A caption held against a photograph."""

    caption: GroundedCaption  # the groundings are its noun phrases; their score is the probability of a match
    match: float | None  # that of the whole caption; None where the model has no such score

    @property
    def doubtful(self) -> tuple[Grounding, ...]:
        """The phrases that are more likely not in the photograph."""
        return tuple(grounding for grounding in self.caption.groundings if grounding.score < DOUBT)

    def to_json(self) -> Json:
        """The caption's JSON, ``match``, and ``doubtful``: the texts of the doubtful phrases."""
        return {
            **self.caption.to_json(),
            "match": self.match,
            "doubtful": [grounding.text for grounding in self.doubtful],
        }
