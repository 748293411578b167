"""The fusion model on NumPy arrays against the network of torch: pair scores, logits, maps by both sources."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from deixis.methods.albef import inference
from deixis.methods.albef.config import AlbefConfig, Pieces
from deixis.methods.albef.inference import ArrayAlbef, TorchAlbef, weight_shapes
from deixis.methods.albef.network import AlbefNet

CELLS = AlbefConfig(
    vocabulary=30,
    hidden=12,
    heads=2,
    feed=16,
    positions=16,
    text_layers=2,
    fusion_layers=3,
    patch=0,
    features=5,
    side=4,
    image_hidden=8,
    image_heads=2,
    image_feed=16,
    image_layers=2,
    shared=6,
    map_layer=0,
)
VARIANTS = {
    "attention": replace(CELLS, map_source="attention"),
    "first layer": CELLS,
    "middle layer": replace(CELLS, map_layer=1),
    "last layer": replace(CELLS, map_layer=2),
    "pixels": replace(CELLS, patch=4, features=0, map_layer=1, word_head=False),
    "one layer": replace(CELLS, fusion_layers=1, text_layers=0, image_layers=0),
}
TEXTS = Pieces([(1, 9, 8, 2), (1, 7, 2), (1, 3, 4, 5, 6, 2), (1, 9, 8, 2), (1, 20, 21, 2), (1, 2)])


def both(config: AlbefConfig) -> tuple[ArrayAlbef, TorchAlbef]:
    torch.manual_seed(0)
    network = AlbefNet(config).eval()
    with torch.no_grad():
        for name, value in network.named_parameters():
            if "norm" in name or name.endswith("bias"):
                value += 0.3 * torch.randn_like(value)
            elif value.dim() > 1:
                value *= 3  # attention that differs between tokens
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    return ArrayAlbef(config, weights), TorchAlbef(network)


def images(config: AlbefConfig, scale: int = 1) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    side = config.side * scale
    size = (3, config.patch * side, config.patch * side) if config.patch else (side, side, config.features)
    return rng.standard_normal((2, *size)).astype(np.float32)


@pytest.mark.parametrize("sep", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_both_models_agree(variant: str, sep: bool) -> None:
    config, texts = VARIANTS[variant], replace(TEXTS, sep=sep)
    arrays, tensors = both(config)
    given = images(config)
    for a, b in zip(arrays.encode(given), tensors.encode(given), strict=True):
        np.testing.assert_allclose(arrays.pair_scores(a, texts), tensors.pair_scores(b, texts), atol=1e-5)
        np.testing.assert_allclose(arrays.match_logits(a, texts), tensors.match_logits(b, texts), atol=2e-5)
        maps = tensors.maps(b, texts)
        assert maps.max() > 1e-4
        np.testing.assert_allclose(arrays.maps(a, texts), maps, atol=1e-5)
        logits, found = arrays.match_and_map(a, texts)
        np.testing.assert_allclose(found, maps, atol=1e-5)
        np.testing.assert_allclose(logits, tensors.match_logits(b, texts), atol=2e-5)


def test_a_model_for_a_small_image_reads_a_larger_one() -> None:
    config = VARIANTS["pixels"]
    arrays, tensors = both(config)
    given = images(config, 2)
    a, b = arrays.encode(given)[1], tensors.encode(given)[1]
    np.testing.assert_allclose(arrays.maps(a, TEXTS), tensors.maps(b, TEXTS), atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_shapes_of_the_weights_are_those_of_the_network(variant: str) -> None:
    expected = {name: tuple(value.shape) for name, value in AlbefNet(VARIANTS[variant]).state_dict().items()}
    assert weight_shapes(VARIANTS[variant]) == expected


def test_states_of_texts_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, _ = both(CELLS)
    image = arrays.encode(images(CELLS))[0]
    first = arrays.pair_scores(image, TEXTS)
    computed: list[int] = []
    real = arrays._text_states
    monkeypatch.setattr(arrays, "_text_states", lambda ids, table: computed.append(len(ids)) or real(ids, table))
    np.testing.assert_allclose(arrays.pair_scores(image, TEXTS), first, atol=1e-6)
    assert computed == []
    monkeypatch.setattr(inference, "KEPT", 100)  # less than one text
    assert arrays.pair_scores(image, Pieces([(1, 4, 2), (1, 5, 2)])).shape == (2,)
    assert computed == [2]
    assert len(arrays._texts) == 1
