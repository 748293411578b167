"""Relation classification: the relation between two phrases from their attended features (ReIR Eq. 16, 17)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from deixis.distributed import total


class RelationClassifier(nn.Module):
    """F_rel (Eq. 16), in training only. ``weights [categories]`` are weights of the categories in the loss."""

    weights: Tensor | None

    def __init__(self, attended: int, hidden: int, categories: int, weights: Tensor | None = None) -> None:
        super().__init__()
        self.subject = nn.Linear(attended, hidden)
        self.object = nn.Linear(attended, hidden, bias=False)
        self.output = nn.Linear(hidden, categories)
        self.register_buffer("weights", weights)

    def forward(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """Logits ``[B, categories]`` of pairs ``[B, D]``."""
        logits: Tensor = self.output(F.relu(self.subject(subjects) + self.object(objects)))
        return logits


def relation_loss(classifier: RelationClassifier, attended: Tensor, relation: Tensor) -> Tensor:
    """Cross-entropy over the pairs of phrases with a frequent relation (Eq. 17); 0 if there is none.

    ``attended [I, P, D]``; ``relation [I, P, P]`` is the category from 1 for (subject, object), 0 for none.
    """
    image, subject, object_ = relation.nonzero(as_tuple=True)
    logits, wanted = classifier(attended[image, subject], attended[image, object_]), relation[relation > 0] - 1
    weight = torch.tensor(float(len(wanted))) if classifier.weights is None else classifier.weights[wanted].sum()
    summed = F.cross_entropy(logits, wanted, classifier.weights, reduction="sum")
    whole = total(weight.to(summed))
    return summed / torch.where(whole > 0, whole, 1)


def inverse_frequency_weights(counts: Sequence[int]) -> Tensor:
    """Weights ``[categories]``: inverse square roots of the frequencies, mean 1 (the published code)."""
    weights = torch.tensor(counts, dtype=torch.float32).clamp_min(1).rsqrt()
    return weights / weights.mean()
