"""The decoder on NumPy arrays against the network of torch: encodings, steps, sentences."""

from typing import Any

import numpy as np
import pytest
import torch

from deixis.layers.padded import RegionArrays, VideoArrays
from deixis.methods.updown.config import DecoderConfig
from deixis.methods.updown.decode import BOS, GenerationConfig, Sentences, beam_search, force_decode
from deixis.methods.updown.inference import ArrayDecoder, TorchDecoder, weight_shapes
from deixis.methods.updown.network import Decoder

SIZES: dict[str, Any] = {"vocabulary": 90, "features": 6, "words": 8, "hidden": 10, "attention": 5}

VARIANTS: dict[str, dict[str, Any]] = {
    "one branch": {},
    "branches": {"branches": 3},
    "branches that may share regions": {"branches": 2, "eliminate": False},
    "without language": {"language_to_attention": False, "attend_from": "previous", "branches": 2},
    "heads": {"heads": 3},
    "heads and grid": {"heads": 3, "grid": 4},
    "shared grid attention": {"grid": 4, "branches": 2},
    "own grid attention": {"grid": 4, "grid_attention": "own", "image": "grid"},
    "classes and location": {"classes": 7, "location": 4},
    "fc7": {"classes": 7, "location": 4, "fc7": 9},
    "self-attention": {"interact": 2, "interact_heads": 3},
    "image vector": {"image": "vector", "image_features": 5},
    "clips": {"frames": 3, "branches": 2, "location": 4},
    "clips without time": {"frames": 3, "branches": 2, "location": 4, "see_time": False},
}


def padded(images: int, clips: bool) -> RegionArrays:
    rng = np.random.default_rng(0)
    mask = np.ones((images, 7), bool)
    mask[0, 5:] = False
    cells = np.ones((images, 6), bool)
    cells[1, 4:] = False
    video = VideoArrays(
        np.broadcast_to(np.arange(7) % 3, (images, 7)).copy(),
        rng.uniform(0.5, 2, images).astype(np.float32),
        rng.standard_normal((images, 4, 6)).astype(np.float32),
        np.full(images, 4),
        np.tile(np.float32([0, 1, 0, 1]), (images, 1)),
    )
    return RegionArrays(
        rng.standard_normal((images, 7, 6)).astype(np.float32),
        mask,
        rng.uniform(size=(images, 7, 4)).astype(np.float32),
        rng.standard_normal((images, 6, 4)).astype(np.float32),
        image_vector=rng.standard_normal((images, 5)).astype(np.float32),
        grid_mask=cells,
        video=video if clips else None,
    )


def both(variant: str) -> tuple[ArrayDecoder, TorchDecoder]:
    torch.manual_seed(0)
    network = Decoder(DecoderConfig(**SIZES, **VARIANTS[variant])).eval()
    with torch.no_grad():
        network.output.weight *= 3
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    return ArrayDecoder(network.config, weights), TorchDecoder(network)


def assert_same(a: Sentences, b: Sentences) -> None:
    np.testing.assert_array_equal(a.words, b.words)
    np.testing.assert_array_equal(a.branch_mask, b.branch_mask)
    np.testing.assert_allclose(a.logprobs, b.logprobs, atol=1e-5)
    np.testing.assert_allclose(a.attention, b.attention, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_both_decoders_agree(variant: str) -> None:
    regions = padded(4, "frames" in VARIANTS[variant])
    arrays, tensors = both(variant)
    a, b = arrays.encode(regions), tensors.encode(regions)
    for name in ("regions", "keys", "image", "grid", "grid_keys"):
        found, expected = getattr(a, name), getattr(b, name)
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_allclose(found, expected.numpy(), atol=1e-5, err_msg=name)
    for generation in (
        GenerationConfig(beam=4, max_words=8, length_power=0.7),
        GenerationConfig(max_words=8, branches=min(2, arrays.config.branches)),
    ):
        written = beam_search(arrays, a, generation)
        assert_same(written, beam_search(tensors, b, generation))
        ids = np.concatenate([np.full_like(written.words[..., :1], BOS), written.words], -1)
        forced = force_decode(arrays, a, ids, generation)
        assert_same(forced, written)
        assert_same(forced, force_decode(tensors, b, ids, generation))


@pytest.mark.parametrize("variant", VARIANTS)
def test_shapes_of_the_weights_are_those_of_the_network(variant: str) -> None:
    config = DecoderConfig(**SIZES, **VARIANTS[variant])
    expected = {name: tuple(value.shape) for name, value in Decoder(config).state_dict().items()}
    assert weight_shapes(config) == expected


def test_a_batch_decodes_as_its_images_do_alone() -> None:
    regions = padded(4, clips=False)
    arrays, _ = both("branches")
    encoded = arrays.encode(regions)
    generation = GenerationConfig(beam=3, max_words=8)
    whole = beam_search(arrays, encoded, generation)
    for image in range(4):
        alone = beam_search(arrays, arrays.images(encoded, np.array([image])), generation)
        steps = alone.words.shape[-1]
        np.testing.assert_array_equal(whole.words[image, :, :steps], alone.words[0])
        np.testing.assert_allclose(whole.logprobs[image, :, :steps], alone.logprobs[0], atol=1e-5)


def test_a_beam_wider_than_the_number_of_sentences_leaves_some_out() -> None:
    torch.manual_seed(0)
    network = Decoder(DecoderConfig(**{**SIZES, "vocabulary": 7})).eval()
    encoded = TorchDecoder(network).encode(padded(2, clips=False))
    found = beam_search(TorchDecoder(network), encoded, GenerationConfig(beam=9, max_words=1))
    assert (found.scores > -np.inf).sum(1).tolist() == [4, 4]  # 7 words without pad, bos and unk
    assert (found.scores[:, 4:] == -np.inf).all()
