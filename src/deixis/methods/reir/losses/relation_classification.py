"""Relation classification: from what two phrases see it must show how they stand to each other (ReIR Eq. 16, 17)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RelationClassifier(nn.Module):
    """F_rel; it exists only while training. ``weights [categories]`` count some categories more than others."""

    weights: Tensor | None

    def __init__(self, seen: int, hidden: int, categories: int, weights: Tensor | None = None) -> None:
        super().__init__()
        self.subject = nn.Linear(seen, hidden)
        self.object = nn.Linear(seen, hidden, bias=False)
        self.judge = nn.Linear(hidden, categories)
        self.register_buffer("weights", weights)

    def forward(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """Logits ``[B, categories]`` of pairs ``[B, D]``."""
        logits: Tensor = self.judge(F.relu(self.subject(subjects) + self.object(objects)))
        return logits


def relation_loss(classifier: RelationClassifier, seen: Tensor, relation: Tensor) -> Tensor:
    """Cross-entropy over the pairs of phrases that stand in a frequent relation; 0 where there is none.

    ``seen [I, P, D]``; ``relation [I, P, P]`` has the category from 1 for (subject, object), 0 for none.
    """
    image, subject, object_ = relation.nonzero(as_tuple=True)
    if len(image) == 0:
        return seen.sum() * 0
    logits = classifier(seen[image, subject], seen[image, object_])
    return F.cross_entropy(logits, relation[image, subject, object_] - 1, classifier.weights)


def rarity(counts: Sequence[int]) -> Tensor:
    """Weights ``[categories]`` by the inverse square root of the frequencies, 1 on average (the published code)."""
    weights = torch.tensor(counts, dtype=torch.float32).clamp_min(1).rsqrt()
    return weights / weights.mean()
