"""The momentum copy of a model and its queue."""

import torch
from torch.nn import functional as F

from deixis.methods.albef.momentum import Momentum, MomentumConfig
from deixis.methods.albef.network import AlbefConfig, AlbefNet

SIZES = AlbefConfig(
    vocabulary=30,
    hidden=8,
    heads=2,
    feed=6,
    positions=8,
    text_layers=1,
    fusion_layers=1,
    patch=0,
    features=5,
    side=2,
    image_hidden=8,
    image_heads=2,
    image_feed=6,
    image_layers=1,
    shared=4,
    map_layer=0,
)


def units(count: int) -> torch.Tensor:
    return F.normalize(torch.randn(count, 4, generator=torch.Generator().manual_seed(0)), dim=-1)


def test_the_copy_follows_slowly_and_learns_nothing() -> None:
    model = AlbefNet(SIZES)
    momentum = Momentum(model, MomentumConfig(momentum=0.9, queue=4))
    before = model.match.weight.detach().clone()
    with torch.no_grad():
        model.match.weight += 1.0
    momentum.update(model)
    torch.testing.assert_close(momentum.slow.match.weight, before + 0.1)
    assert not any(parameter.requires_grad for parameter in momentum.parameters())


def test_without_a_queue_nothing_is_remembered() -> None:
    momentum = Momentum(AlbefNet(SIZES), MomentumConfig(queue=0))
    momentum.enqueue(units(3), units(3))
    assert momentum.images.shape == momentum.texts.shape == (0, 4)
    assert momentum.place.item() == 0


def test_the_queue_forgets_the_oldest_and_is_part_of_the_state() -> None:
    model = AlbefNet(SIZES)
    momentum = Momentum(model, MomentumConfig(queue=5))
    first = torch.arange(12.0).view(3, 4)
    momentum.enqueue(first, first + 100)
    momentum.enqueue(first + 50, first + 150)
    assert torch.equal(momentum.images[[3, 4, 0]], first + 50)
    assert torch.equal(momentum.images[[1, 2]], first[1:])
    assert torch.equal(momentum.texts[[3, 4, 0]], first + 150)
    assert momentum.place.item() == 1
    other = Momentum(model, MomentumConfig(queue=5))
    other.load_state_dict(momentum.state_dict())
    assert torch.equal(other.images, momentum.images)
    assert other.place.item() == 1
