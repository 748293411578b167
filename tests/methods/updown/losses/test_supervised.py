"""Supervised attention and region classification: published numbers, by hand, and gradients."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.methods.updown.losses.supervised import attention_nll, region_classification
from deixis.methods.updown.network import Decoder, DecoderConfig

GOLDEN = Path(__file__).parents[3] / "golden" / "cyclical.npz"


def test_supervised_attention_agrees_with_the_published_code() -> None:
    """The published code is for video: attention is counted within the frame that was annotated."""
    with np.load(GOLDEN, allow_pickle=False) as file:
        names = ("roi_attn", "frame_mask", "att2_target", "att2_loss")
        attention, frame_mask, target, expected = (torch.from_numpy(file[name]) for name in names)
    inside = attention.masked_fill(frame_mask.unsqueeze(1), 0)
    inside = inside / inside.sum(-1, keepdim=True)
    loss = attention_nll(inside[:, None, :, None], target.unsqueeze(1))
    torch.testing.assert_close(loss, expected, atol=1e-5, rtol=0)


def test_supervised_attention_by_hand() -> None:
    """Two branches, one word, two right regions: the mean of four negative logs."""
    attention = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]).view(1, 1, 1, 2, 3)
    positive = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    expected = -np.log([0.5, 0.25, 0.1, 0.8]).mean()
    assert attention_nll(attention, positive).item() == pytest.approx(expected, abs=1e-6)
    assert attention_nll(attention, ~positive & positive).item() == 0


def test_gradient_of_supervised_attention() -> None:
    torch.manual_seed(0)
    attention = torch.rand(2, 2, 3, 2, 4, dtype=torch.float64).softmax(-1).requires_grad_()
    positive = torch.rand(2, 2, 3, 4) < 0.4
    assert torch.autograd.gradcheck(lambda a: attention_nll(a, positive), attention)


def classifier() -> Decoder:
    torch.manual_seed(0)
    sizes = {"vocabulary": 11, "features": 6, "words": 4, "hidden": 6, "attention": 4}
    return Decoder(DecoderConfig(**sizes, classes=3)).double()


CLASSES = torch.tensor([[0, -1, 2, -1], [-1, -1, -1, 1]])


def test_region_classification_counts_only_known_regions() -> None:
    decoder, features = classifier(), torch.randn(2, 4, 6, dtype=torch.float64)
    logits = decoder.classify(features)
    picked = logits.log_softmax(-1).gather(-1, CLASSES.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(region_classification(decoder, features, CLASSES), -picked[CLASSES >= 0].mean())
    assert region_classification(decoder, features, torch.full((2, 4), -1)).item() == 0


def test_gradient_of_region_classification() -> None:
    decoder, features = classifier(), torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)

    def run(features: Tensor, *parameters: Tensor) -> Tensor:
        return region_classification(decoder, features, CLASSES)

    assert torch.autograd.gradcheck(run, (features, *decoder.classify.parameters()), fast_mode=True)
