"""Relation classification by hand, its category weights and its gradient."""

import math

import pytest
import torch
from torch import Tensor

from deixis.methods.reir.losses.relation_classification import (
    RelationClassifier,
    inverse_frequency_weights,
    relation_loss,
)


def test_relation_loss_by_hand() -> None:
    """Category 2 of the pair (0, 1) and nothing else; the logits are biases."""
    classifier = RelationClassifier(attended=3, hidden=4, categories=3)
    with torch.no_grad():
        classifier.output.weight.zero_()
        classifier.output.bias.copy_(torch.tensor([1.0, 2, 4]).log())
    relation = torch.tensor([[[0, 2], [0, 0]]])
    assert relation_loss(classifier, torch.randn(1, 2, 3), relation).item() == pytest.approx(-math.log(2 / 7))
    assert relation_loss(classifier, torch.randn(1, 2, 3), relation * 0).item() == 0


def test_rare_relations_count_more() -> None:
    weights = inverse_frequency_weights([400, 100, 25])
    torch.testing.assert_close(weights, torch.tensor([0.05, 0.1, 0.2]) / (0.35 / 3))


def test_gradients_of_the_relation_loss() -> None:
    torch.manual_seed(0)
    classifier = RelationClassifier(3, 4, 3, inverse_frequency_weights([5, 2, 1])).double()
    seen = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    relation = torch.zeros(2, 3, 3, dtype=torch.long)
    relation[0, 0, 1], relation[1, 2, 0], relation[1, 0, 2] = 1, 3, 2

    def run(seen: Tensor, *parameters: Tensor) -> Tensor:
        return relation_loss(classifier, seen, relation)

    assert torch.autograd.gradcheck(run, (seen, *classifier.parameters()), fast_mode=True)
