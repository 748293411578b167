"""A fusion model of a few numbers in double precision, and a batch for it."""

import torch
from torch import Tensor
from torch.nn import functional as F

from deixis.methods.albef.network import AlbefConfig, AlbefNet, Texts

SIZES = AlbefConfig(
    vocabulary=30,
    hidden=8,
    heads=2,
    feed=6,
    positions=8,
    text_layers=1,
    fusion_layers=2,
    dropout=0.0,
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
EYE = torch.eye(3, dtype=torch.bool)


def tiny(seed: int = 0) -> AlbefNet:
    torch.manual_seed(seed)
    model = AlbefNet(SIZES).double()
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model


def batch() -> tuple[Tensor, Texts]:
    ids = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0], [1, 8, 9, 2]])
    return torch.randn(3, 2, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)), Texts(ids, ids > 0)


def units(*shape: int, seed: int) -> Tensor:
    return F.normalize(torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)), dim=-1)
