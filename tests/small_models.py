"""Small untrained models and pictures of noise that several tests share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.language.vocabulary import Vocabulary
from deixis.language.wordpiece import WordPieces
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.network import AlbefConfig, AlbefNet
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.vision.extractor import named_extractor

VOCABULARY = Vocabulary.build([["a", "dog", "runs", "ball", "and", "red"]], minimum=1)
FEATURES = 16  # width of the tiny backbone


def noise(seed: int = 0, size: tuple[int, int] = (60, 40)) -> Image.Image:
    """Return a picture of noise; ``size`` is its width and height."""
    pixels = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def save_noise(path: Path, seed: int = 0, size: tuple[int, int] = (60, 40)) -> Path:
    """Write a picture of noise and return its path."""
    noise(seed, size).save(path)
    return path


def small_captioner(
    generation: GenerationConfig | None = None,
    vocabulary: Vocabulary = VOCABULARY,
    name: str = "small",
    branches: int = 2,
    proposals: str = "grid",
) -> Captioner:
    """Return an untrained captioner."""
    torch.manual_seed(0)
    sizes = {"words": 8, "hidden": 12, "attention": 6, "dropout": 0.0}
    decoder = Decoder(DecoderConfig(len(vocabulary), FEATURES, branches=branches, **sizes))
    return Captioner(decoder, vocabulary, named_extractor("tiny", proposals).to_json(), name, generation)


def small_matcher(
    vocabulary: Vocabulary = VOCABULARY, name: str = "matcher", proposals: str = "grid", aggregation: str = "mean"
) -> ScanGrounder:
    """Return an untrained matcher, whose attention differs between words."""
    torch.manual_seed(0)
    config = ScanConfig(len(vocabulary), FEATURES, words=8, embed=12, aggregation=aggregation)  # type: ignore[arg-type]
    network = ScanNet(config)
    torch.nn.init.normal_(network.embed.weight)
    return ScanGrounder(network, vocabulary, named_extractor("tiny", proposals).to_json(), name)


def small_fusion(texts: Sequence[str], name: str = "fusion", pixels: bool = True) -> AlbefGrounder:
    """Return an untrained fusion model that reads pixels, or feature grids and proposals."""
    torch.manual_seed(0)
    pieces = WordPieces.build(list(texts), 1)
    text = {"hidden": 8, "heads": 2, "feed": 8, "positions": 32, "text_layers": 1, "fusion_layers": 1}
    image = {"side": 2 if pixels else 4, "image_hidden": 8, "image_heads": 2, "image_feed": 8, "image_layers": 1}
    patches = {"patch": 8} if pixels else {"patch": 0, "features": FEATURES}
    network = AlbefNet(AlbefConfig(vocabulary=len(pieces), **text, **image, **patches, shared=4, map_layer=0))
    network.match.weight.data.normal_()
    extractor = None if pixels else named_extractor("tiny", "grid").to_json()
    return AlbefGrounder(network, pieces, extractor, name)


def assert_close(found: object, expected: object, tolerance: float = 1e-5) -> None:
    """Compare values read from JSON; numbers may differ by a share of their size, or by ``tolerance`` below 1."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        assert found.keys() == expected.keys()
        for name in expected:
            assert_close(found[name], expected[name], tolerance)
    elif isinstance(expected, list):
        assert isinstance(found, list)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other, tolerance)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert found == expected
