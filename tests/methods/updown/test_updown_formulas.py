"""The decoder's formulas against NumPy code of their own, to 1e-5."""

from dataclasses import replace

import numpy as np
import numpy_decoder as reference
import pytest
import torch
from torch import Tensor

from deixis.layers.padding import pad_regions
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.model_folder import current_names
from deixis.types import Regions

SIZES = {"vocabulary": 9, "features": 7, "words": 5, "hidden": 11, "attention": 6, "dropout": 0.0}
GVD = {"fc7": 8, "classes": 4, "location": 3, "language_to_attention": False}
CONFIGS: dict[str, dict[str, object]] = {
    "updown": {},
    "previous": {"attend_from": "previous"},
    "gvd": GVD,
    "gvd-without-classes": {**GVD, "classes": 0},
    "gvd-map": {**GVD, "grid": 3, "grid_attention": "own", "image": "grid"},
    "gvd-map-previous": {**GVD, "grid": 3, "grid_attention": "own", "image": "grid", "attend_from": "previous"},
    "gvd-self-attention": {**GVD, "interact": 2, "interact_heads": 6},
    "distributed-attention": {**GVD, "branches": 4, "grid": 3, "grid_attention": "own", "image": "grid"},
    "no-elimination": {"branches": 3, "eliminate": False},
    "cyclical": {"fc7": 8, "classes": 4, "location": 3, "grid": 3, "image": "grid"},
    "plain-parts": {"classes": 4, "location": 3},
    "vector": {"image": "vector", "image_features": 2},
    **{f"heads-{heads}": {"heads": heads} for heads in (2, 3, 4, 5, 6)},
    "heads-map": {"heads": 3, "grid": 3},
}


def decoder_of(name: str, seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    decoder = Decoder(DecoderConfig(**SIZES, **CONFIGS[name])).double().eval()  # type: ignore[arg-type]
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    if decoder.config.location:
        torch.nn.init.constant_(decoder.locate.bias, 1.0)  # some of the few units must be above zero
    return decoder


def weights_of(decoder: Decoder) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in decoder.state_dict().items()}


def images(seed: int = 0) -> list[Regions]:
    """Three images with 5, 2 and 1 regions and grids of different shapes."""
    rng = np.random.default_rng(seed)
    found = []
    for count, grid in ((5, (2, 3)), (2, (4, 1)), (1, (1, 1))):
        corners = np.sort(rng.uniform(0, 20, (count, 2, 2)), axis=1).reshape(count, 4)
        vector = rng.normal(size=2)
        features = rng.normal(size=(count, 7))
        found.append(Regions(corners, features, (20, 20), grid=rng.normal(size=(*grid, 3)), image_vector=vector))
    return found


def doubled(regions: list[Regions]) -> object:
    padded = pad_regions(regions)
    parts = {name: value.double() for name, value in vars(padded).items() if isinstance(value, Tensor)}
    return replace(padded, **{name: value for name, value in parts.items() if "mask" not in name})


@pytest.mark.parametrize("name", CONFIGS)
def test_words_and_attention_agree_with_the_equations(name: str) -> None:
    decoder, regions = decoder_of(name), images()
    words = torch.tensor([[[1, 4, 5, 6], [1, 8, 3, 2]]] * 3)
    with torch.no_grad():
        out = decoder(decoder.encode_regions(doubled(regions)), words)  # type: ignore[arg-type]
        probs = decoder.word_logprobs(out.states).exp()
    for i, one in enumerate(regions):
        cells = np.asarray(one.grid).reshape(-1, 3)
        for c in range(2):
            expected, alpha = reference.run(
                decoder.config,
                weights_of(decoder),
                one.features.astype(np.float32).astype(np.float64),
                (one.boxes / 20).astype(np.float32).astype(np.float64),
                words[i, c].tolist(),
                cells.astype(np.float32).astype(np.float64),
                np.asarray(one.image_vector, dtype=np.float32).astype(np.float64),
            )
            np.testing.assert_allclose(probs[i, c].numpy(), expected, atol=1e-5)
            np.testing.assert_allclose(out.attention[i, c, ..., : len(one)].numpy(), alpha, atol=1e-5)
            assert (out.attention[i, c, ..., len(one) :] == 0).all()


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    decoder = decoder_of(name)
    out = decoder(decoder.encode_regions(doubled(images())), torch.tensor([[[1, 4, 5, 6], [1, 8, 3, 2]]] * 3))  # type: ignore[arg-type]
    decoder.word_logprobs(out.states)[..., 3].sum().backward()
    for key, parameter in decoder.named_parameters():
        assert parameter.grad is not None, key
        assert float(parameter.grad.abs().max()) > 1e-12, key


def test_the_three_parts_of_a_region_have_the_same_norm() -> None:
    """Joined as they are, a class similarity of 481 classes has a norm of about .05 beside a feature of norm 32."""
    torch.manual_seed(0)
    sizes = {"vocabulary": 9, "features": 64, "words": 4, "hidden": 6, "attention": 4, "dropout": 0.0}
    decoder = Decoder(DecoderConfig(**sizes, fc7=64, classes=481, location=300)).eval()  # type: ignore[arg-type]
    joined, _ = decoder._region_parts(torch.randn(1, 3, 64) * 4, torch.rand(1, 3, 4), None)
    # the published epsilon of 1e-5 is larger than the variance of an even similarity, so its root mean square is < 1
    for part in joined.split([64, 481, 300], dim=-1):
        root_mean_square = part.pow(2).mean(-1).sqrt()
        assert torch.all((root_mean_square > 0.2) & (root_mean_square < 1.01))


def test_grids_of_different_shapes_in_one_batch_give_what_each_gives_alone() -> None:
    decoder, regions = decoder_of("distributed-attention"), images()
    words = torch.tensor([[[1, 4, 5, 6]]] * 3)
    with torch.no_grad():
        together = decoder(decoder.encode_regions(doubled(regions)), words).states  # type: ignore[arg-type]
        for i, one in enumerate(regions):
            alone = decoder(decoder.encode_regions(doubled([one])), words[:1]).states  # type: ignore[arg-type]
            torch.testing.assert_close(together[i : i + 1], alone)


def test_the_source_of_the_whole_image_must_be_there() -> None:
    features, mask = torch.randn(1, 3, 7).double(), torch.ones(1, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="image 'grid' needs the feature grid"):
        decoder_of("gvd-map").encode(features, mask, boxes=torch.rand(1, 3, 4).double())
    with pytest.raises(ValueError, match="needs the vectors"):
        decoder_of("vector").encode(features, mask)
    with pytest.raises(ValueError, match="image_features"):
        DecoderConfig(vocabulary=9, features=6, image="vector")


@pytest.mark.parametrize("heads", [3, 5, 6])
def test_a_width_need_not_be_a_multiple_of_the_heads(heads: int) -> None:
    decoder = Decoder(DecoderConfig(vocabulary=9, features=6, words=4, hidden=16, attention=8, heads=heads)).eval()
    out = decoder(decoder.encode(torch.randn(2, 4, 6), torch.ones(2, 4, dtype=torch.bool)), torch.ones(2, 1, 3).long())
    assert out.attention.shape == (2, 1, 3, 1, 4)
    torch.testing.assert_close(out.attention.sum(-1), torch.ones(2, 1, 3, 1))


def test_weights_of_heads_of_earlier_versions_still_load() -> None:
    """They had an energy vector and a key bias, which changed nothing."""
    decoder = Decoder(DecoderConfig(vocabulary=9, features=6, words=4, hidden=8, attention=8, heads=2))
    state = decoder.state_dict()
    stored = {**state, "energy": torch.zeros(1, 8), "key.bias": torch.zeros(8)}
    decoder.load_state_dict(current_names(decoder, stored))
