"""Image-text contrast by hand, its soft targets and its gradient."""

import pytest
import torch
from tiny_albef import EYE, units
from torch.nn import functional as F

from deixis.methods.albef.losses.image_text_contrast import image_text_contrast


def test_contrast_by_hand() -> None:
    """Without distillation: cross-entropy of the own text among the batch and the queue, both ways, halved."""
    image, text = units(3, 4, seed=0), units(3, 4, seed=1)
    slow, queue = (units(3, 4, seed=2), units(3, 4, seed=3)), (units(5, 4, seed=4), units(5, 4, seed=5))
    temperature = torch.tensor(0.5, dtype=torch.float64)
    expected = 0.0
    for one, others in ((image, torch.cat([slow[1], queue[1]])), (text, torch.cat([slow[0], queue[0]]))):
        for row in range(3):
            odds = [float((one[row] @ other / 0.5).exp()) for other in others]
            expected -= float(torch.tensor(odds[row] / sum(odds)).log()) / 3
    loss = image_text_contrast((image, text), slow, queue, temperature, EYE)
    assert loss.item() == pytest.approx(expected / 2, abs=1e-6)


def test_contrast_follows_the_copy_as_far_as_it_is_told() -> None:
    image, text = units(3, 4, seed=0), units(3, 4, seed=1)
    slow, queue = (units(3, 4, seed=2), units(3, 4, seed=3)), (units(5, 4, seed=4), units(5, 4, seed=5))
    temperature = torch.tensor(0.5, dtype=torch.float64)

    def loss(soft: float) -> float:
        return image_text_contrast((image, text), slow, queue, temperature, EYE, soft).item()

    wholly = 0.0
    for query, key in ((0, 1), (1, 0)):
        others = torch.cat([slow[key], queue[key]])
        momentum = (slow[query] @ others.T / 0.5).softmax(1)
        wholly += F.cross_entropy((image, text)[query] @ others.T / 0.5, momentum).item() / 2
    assert loss(1.0) == pytest.approx(wholly)
    assert loss(0.4) == pytest.approx(0.4 * wholly + 0.6 * loss(0.0))


def test_equal_texts_share_the_target() -> None:
    """Two rows with one text: either is right, so that the loss is lowest when both are equally likely."""
    same = torch.tensor([[1, 1, 0], [1, 1, 0], [0, 0, 1]]).bool()
    image = torch.eye(3, 4, dtype=torch.float64)
    text = torch.stack([image[0] + image[1], image[0] + image[1], image[2]])
    text = F.normalize(text, dim=1)
    queue = torch.zeros(0, 4, dtype=torch.float64), torch.zeros(0, 4, dtype=torch.float64)
    cold = torch.tensor(0.01, dtype=torch.float64)
    shared = image_text_contrast((image, text), (image, text), queue, cold, same)
    alone = image_text_contrast((image, text), (image, text), queue, cold, EYE)
    torch.testing.assert_close(shared, alone)  # log 2 for the two rows either way ...
    uneven = F.normalize(text + torch.tensor([[0.5, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]]), dim=1)
    assert image_text_contrast((image, uneven), (image, uneven), queue, cold, same) > shared
    assert image_text_contrast((image, uneven), (image, uneven), queue, cold, EYE) < alone


def test_gradient_of_contrast() -> None:
    slow, queue = (units(3, 4, seed=2), units(3, 4, seed=3)), (units(5, 4, seed=4), units(5, 4, seed=5))
    inputs = units(3, 4, seed=0), units(3, 4, seed=1), torch.tensor(0.3, dtype=torch.float64)
    # the copy's share is a target, which must not move with the temperature: 0 here, where numbers can tell
    assert torch.autograd.gradcheck(
        lambda image, text, t: image_text_contrast((image, text), slow, queue, t, EYE),
        tuple(value.requires_grad_() for value in inputs),
    )


def test_no_gradient_through_the_copy() -> None:
    slow = units(3, 4, seed=2), units(3, 4, seed=3)
    temperature = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    image, text = units(3, 4, seed=0), units(3, 4, seed=1)
    queue = units(5, 4, seed=4), units(5, 4, seed=5)
    grads = []
    for soft in (0.0, 1.0):
        loss = image_text_contrast((image, text), slow, queue, temperature, EYE, soft)
        grads.append(torch.autograd.grad(loss, temperature)[0].item())
    half = image_text_contrast((image, text), slow, queue, temperature, EYE, 0.5)
    assert torch.autograd.grad(half, temperature)[0].item() == pytest.approx(sum(grads) / 2)
