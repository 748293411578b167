"""Triplet loss: published numbers, by hand, its gradient, and the loss that scores few pairs with gradient."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.layers.padding import PaddedRegions
from deixis.methods.scan.losses.triplet import matching_loss, triplet_loss
from deixis.methods.scan.network import ScanConfig, ScanNet

GOLDEN = Path(__file__).parents[3] / "golden" / "scan.npz"
SCORES = torch.tensor([[0.5, 0.6, 0.4], [0.2, 0.3, 0.45]], dtype=torch.float64)
OWNER = torch.tensor([0, 0, 1])  # two captions of the first image, one of the second


@pytest.mark.parametrize("hardest", [True, False])
def test_it_agrees_with_the_published_matcher(hardest: bool) -> None:
    with np.load(GOLDEN, allow_pickle=False) as file:
        scores, expected = (
            torch.from_numpy(np.asarray(file[name]))
            for name in ("sim_t2i_LogSumExp", f"contrastive_loss_maxviol_{hardest}")
        )
    loss = triplet_loss(scores, torch.arange(6), hardest=hardest)
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=0)


def test_by_hand() -> None:
    """Margin .2. Captions against images: .2 - .5 + .2 < 0, .2 - .6 + .3 < 0, .2 - .45 + .4 = .15.

    Images against captions: the first image's hardest foreign caption has .4, so .2 - .5 + .4 = .1 and
    .2 - .6 + .4 = 0; the second image's has .3: .2 - .45 + .3 = .05. All foreign ones: .05 and .2 - .45 + .2 < 0.
    """
    assert triplet_loss(SCORES, OWNER).item() == pytest.approx(0.15 + 0.1 + 0.05)
    wider = triplet_loss(SCORES, OWNER, margin=0.3, hardest=False).item()
    # images .0 (.3 - .5 + .2), .0, .25; captions .2, .1, and .15 + .05 of the second image
    assert wider == pytest.approx(0.25 + 0.2 + 0.1 + 0.15 + 0.05)


def test_captions_of_one_image_are_no_negatives_of_each_other() -> None:
    scores = torch.tensor([[0.1, 0.9], [0.0, 0.0]], dtype=torch.float64)
    assert triplet_loss(scores[:1], torch.tensor([0, 0])).item() == 0
    assert triplet_loss(scores, torch.tensor([0, 0]), margin=0.1).item() == pytest.approx(0)


@pytest.mark.parametrize("hardest", [True, False])
def test_gradient_of_the_triplet_loss(hardest: bool) -> None:
    scores = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    owner = torch.tensor([0, 1, 1, 2, 0])
    assert torch.autograd.gradcheck(lambda s: triplet_loss(s, owner, 0.3, hardest), (scores,))


def world() -> tuple[ScanNet, PaddedRegions, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    matcher = ScanNet(ScanConfig(vocabulary=20, features=6, words=4, embed=5)).double()
    torch.nn.init.normal_(matcher.embed.weight)
    mask = torch.rand(4, 5) < 0.8
    mask[:, 0] = True
    regions = PaddedRegions(torch.randn(4, 5, 6, dtype=torch.float64), mask, torch.zeros(4, 5, 4), None)
    words = torch.randint(4, 20, (6, 5))
    words[2, 3:] = 0
    return matcher, regions, words, torch.rand(6, 5) < 0.5, torch.tensor([0, 1, 2, 3, 1, 0])


@pytest.mark.parametrize("hardest", [True, False])
@pytest.mark.parametrize("margin", [0.05, 0.5])
def test_the_short_way_has_the_value_and_gradient_of_the_whole_matrix(hardest: bool, margin: float) -> None:
    matcher, regions, words, counts, owner = world()
    encoded = matcher.encode_regions(regions), matcher.encode_words(words, counts)
    short = matching_loss(matcher, *encoded, owner, margin, hardest)
    whole = triplet_loss(matcher.scores(*encoded), owner, margin, hardest)
    assert short.item() == pytest.approx(whole.item())
    assert short.item() > 0
    parameters = list(matcher.parameters())
    expected = torch.autograd.grad(whole, parameters, retain_graph=True)
    for found, wanted in zip(torch.autograd.grad(short, parameters), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_gradients_are_right() -> None:
    matcher, regions, words, counts, owner = world()

    def run(features: Tensor, *parameters: Tensor) -> Tensor:
        encoded = matcher.encode_regions(replace(regions, features=features))
        return matching_loss(matcher, encoded, matcher.encode_words(words, counts), owner)

    features = regions.features.clone().requires_grad_()
    assert torch.autograd.gradcheck(run, (features, *matcher.parameters()), fast_mode=True)


def test_nothing_to_learn_is_a_loss_of_nothing() -> None:
    matcher, regions, words, counts, owner = world()
    loss = matching_loss(
        matcher, matcher.encode_regions(regions), matcher.encode_words(words, counts), owner, margin=-5.0
    )
    loss.backward()
    assert loss.item() == 0
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in matcher.parameters())
