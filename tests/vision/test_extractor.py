"""Extraction: one image of any kind, and many images in processes that may die."""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.errors import DeixisError
from deixis.types import Labels, Regions
from deixis.vision.backbone import EfficientNetLite, Tiny
from deixis.vision.bulk import Job, Workers, outcome_of
from deixis.vision.extractor import RegionExtractor, default_extractor, extractor_name, named_extractor
from deixis.vision.feature_map import FeatureMap
from deixis.vision.grid_extractor import describe
from deixis.vision.proposals import Proposals
from deixis.vision.store import Contents, FeatureStore, StoreWriter


@dataclass(frozen=True)
class Quarters:
    """The whole image and its four quarters."""

    fatal: str = ""  # the image whose worker dies
    names: tuple[str, ...] = ()  # classes of its own

    def propose(self, image: np.ndarray, image_id: str = "") -> Proposals:
        if image_id and image_id == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        height, width = image.shape[:2]
        x, y = width / 2, height / 2
        boxes = [[0, 0, width, height], [0, 0, x, y], [x, 0, width, y], [0, y, x, height], [x, y, width, height]]
        sure = np.array([[0.0], [1.0], [0.0], [1.0], [1.0]])
        labels = Labels(np.zeros((5, 1), dtype=int), sure, self.names) if self.names else None
        return Proposals(np.array(boxes, dtype=np.float32), np.linspace(1, 0, 5, dtype=np.float32), labels)

    def describe(self) -> dict[str, Any]:
        return {"name": "quarters", "supervision": "none"}


def make() -> RegionExtractor:
    return RegionExtractor.of(Tiny(), Quarters())


def photo(seed: int = 0, width: int = 60, height: int = 40) -> Image.Image:
    """A picture with some structure: blocks of colour."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)


# One image --------------------------------------------------------------------------------------------------------


def test_a_region_knows_only_what_lies_under_its_box() -> None:
    extractor = RegionExtractor.of(Tiny(long_side=64), Quarters())
    halves = np.zeros((64, 128, 3), dtype=np.uint8)
    halves[:, 64:] = (255, 128, 0)
    left, right, both = extractor.extract(halves, boxes=[[0, 0, 40, 64], [88, 0, 128, 64], [0, 0, 128, 64]]).features
    dark, bright = (extractor.extract(np.full_like(halves, halves[0, x])).features[0] for x in (0, 127))
    np.testing.assert_allclose(left, dark, atol=1e-5)
    np.testing.assert_allclose(right, bright, atol=1e-5)
    assert not np.allclose(dark, bright, atol=0.1)
    np.testing.assert_allclose(both, (dark + bright) / 2, atol=0.1)


def test_regions_say_where_they_come_from() -> None:
    regions = make().extract(photo())
    assert regions.size == (60, 40)
    assert regions.extractor == make().name
    assert regions.labels is not None
    assert regions.labels.ids.shape == (5, 5)
    assert (np.diff(regions.labels.probs, axis=1) <= 0).all()


def test_a_detector_names_its_own_boxes_and_the_backbone_the_others() -> None:
    labels = RegionExtractor.of(Tiny(), Quarters(names=("person",))).extract(photo()).labels
    plain = make().extract(photo()).labels
    assert labels is not None
    assert plain is not None
    assert [labels.best(i) for i in range(5)] == [
        plain.best(0),
        ("person", 1.0),
        plain.best(2),
        ("person", 1.0),
        ("person", 1.0),
    ]


def test_given_boxes_take_the_place_of_the_proposals() -> None:
    regions = make().extract(photo(), boxes=[[0, 0, 60, 40], [30, 20, 60, 40]])
    proposed = make().extract(photo())
    np.testing.assert_array_equal(regions.features, proposed.features[[0, 4]])
    assert regions.scores is None
    assert len(make().extract(photo(), boxes=[])) == 0


def test_arrays_pillow_images_and_grey_images_are_the_same_to_it() -> None:
    image = photo()
    np.testing.assert_array_equal(make().extract(image).features, make().extract(np.asarray(image)).features)
    grey = image.convert("L")
    np.testing.assert_array_equal(make().extract(grey).features, make().extract(grey.convert("RGB")).features)
    with pytest.raises(ValueError, match="uint8 RGB"):
        make().extract(np.zeros((4, 4, 4), dtype=np.uint8))


def test_the_grid_is_pooled_and_leaves_the_regions_and_the_name_alone() -> None:
    plain, kept, pooled = (RegionExtractor.of(Tiny(), Quarters(), grid=grid).extract(photo()) for grid in (0, 99, 3))
    assert plain.grid is None
    assert kept.grid is not None
    assert pooled.grid is not None
    assert kept.grid.shape == (5, 8, 16)
    assert pooled.grid.shape == (3, 3, 16)
    np.testing.assert_array_equal(plain.features, pooled.features)
    assert plain.extractor == pooled.extractor


class Ruler(Tiny):
    """Its map tells where each cell lies: x and y in pixels of the input, the outer cells on the outer pixels."""

    def input_size(self, width: int, height: int) -> tuple[int, int]:
        return 65, 33

    def feature_map(self, pixels: torch.Tensor) -> FeatureMap:
        x, y = torch.meshgrid(torch.arange(0, 65.0, 8), torch.arange(0, 33.0, 8), indexing="xy")
        return FeatureMap(torch.stack([x, y])[None], 8, (0.5, 0.5))

    def classify(self, features: torch.Tensor) -> torch.Tensor:
        return torch.ones(len(features), 8) / 8


@pytest.mark.parametrize("grid", [3, 4, 99])
def test_the_cells_of_a_grid_cover_the_image_evenly(grid: int) -> None:
    found = RegionExtractor.of(Ruler(), Quarters(), grid=grid).extract(photo()).grid
    assert found is not None
    rows, columns, _ = found.shape
    assert (rows, columns) == (min(grid, 5), min(grid, 9))
    # a pixel's centre is half a pixel from its edge, and what lies beyond the outermost centre is like it
    x = (np.arange(columns) + 0.5) * 65 / columns - 0.5
    y = (np.arange(rows) + 0.5) * 33 / rows - 0.5
    half = 2.0**-11  # the relative error of float16
    np.testing.assert_allclose(found[:, :, 0], np.tile(x, (rows, 1)), rtol=half, atol=1e-3)
    np.testing.assert_allclose(found[:, :, 1], np.tile(y[:, None], (1, columns)), rtol=half, atol=1e-3)


def test_frames_of_a_video_become_one_value() -> None:
    extractor = RegionExtractor.of(Tiny(), Quarters(), grid=2)
    regions = extractor.extract_video([photo(0), photo(1), photo(2)], "clip")
    assert regions.frames is not None
    assert regions.frames.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    np.testing.assert_array_equal(regions.features[5:10], extractor.extract(photo(1)).features)
    assert regions.grid is not None
    assert regions.grid.shape == (3, 2, 2, 16)
    with pytest.raises(DeixisError, match="frames of clip have different sizes"):
        extractor.extract_video([photo(0), photo(1, width=61)], "clip")


def test_names_follow_from_everything_that_matters() -> None:
    assert make().name == make().name
    names = {
        RegionExtractor.of(Tiny(seed), proposer).name
        for seed in (0, 1)
        for proposer in (Quarters(), named_extractor("tiny", "selective-search", boxes=7).proposer)
    }
    assert len(names) == 4
    assert all(name.startswith("tiny+") for name in names)
    assert make().name == extractor_name(json.loads(json.dumps(make().description)))


def test_a_description_is_enough_to_build_the_extractor_again() -> None:
    first = named_extractor("tiny", "selective-search", boxes=7)
    again = RegionExtractor(json.loads(json.dumps(first.description)), grid=3)
    assert (again.name, again.grid) == (first.name, 3)
    assert_same_regions(again.extract(photo()), RegionExtractor.of(Tiny(), first.proposer, grid=3).extract(photo()))
    assert again.to_json() == first.to_json()
    other = RegionExtractor({**first.description, "version": 0})
    with pytest.raises(DeixisError, match=r"the model expects regions from extractor tiny\+.* provides tiny\+"):
        other.extract(photo())
    with pytest.raises(DeixisError, match=r"does not support the extractor tiny\+quarters-"):
        RegionExtractor(make().description).extract(photo())


def test_nothing_is_built_before_the_first_photograph() -> None:
    """A model whose extractor is not installed can still use regions from a store."""
    described = RegionExtractor(make().description, grid=2, name="given name")
    assert (described.name, described.is_detector) == ("given name", False)
    regions = replace(make().extract(photo()), extractor="given name")
    described.require(regions)
    assert not described.accepts(regions)  # a grid is needed
    assert described.accepts(replace(regions, grid=np.zeros((2, 2, 16))))
    assert RegionExtractor(make().description, name="given name").accepts(regions)
    with pytest.raises(DeixisError, match=r"tiny\+quarters"):
        _ = described.backbone


def test_regions_of_another_extractor_are_refused() -> None:
    regions = replace(make().extract(photo()), extractor="another")
    assert not make().accepts(regions)
    with pytest.raises(DeixisError, match=r"another.*tiny\+quarters"):
        make().require(regions)


@pytest.mark.parametrize(("supervision", "detector"), [("none", False), ("boxes (COCO)", True)])
def test_a_detector_is_told_by_the_supervision_of_its_proposals(supervision: str, detector: bool) -> None:
    description = {"backbone": {"name": "x"}, "proposals": {"name": "y", "supervision": supervision}}
    assert RegionExtractor(description).is_detector is detector


def test_the_default_extractor_sees_a_cat() -> None:
    data = pytest.importorskip("skimage.data")
    extractor = default_extractor(Quarters())
    regions = extractor.extract(data.chelsea())
    assert regions.features.shape == (5, 1280)
    assert regions.labels is not None
    assert "cat" in regions.labels.best(0)[0]
    assert isinstance(extractor.backbone, EfficientNetLite)


# One precision ------------------------------------------------------------------------------------------------------


def assert_same_regions(a: Regions, b: Regions) -> None:
    """Check that two values have the same numbers, in the same precision."""
    assert (a.size, a.extractor) == (b.size, b.extractor)
    for name in ("boxes", "features", "scores", "grid", "frames"):
        x, y = getattr(a, name), getattr(b, name)
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_array_equal(x, y)
            assert name == "frames" or x.dtype == y.dtype
    assert (a.labels is None) == (b.labels is None)
    if a.labels is not None and b.labels is not None:
        np.testing.assert_array_equal(a.labels.ids, b.labels.ids)
        np.testing.assert_array_equal(a.labels.probs, b.labels.probs)
        assert a.labels.probs.dtype == b.labels.probs.dtype
        assert a.labels.names == b.labels.names


EXTRACTORS: dict[str, Callable[[], RegionExtractor]] = {
    "quarters": make,
    "quarters, grid": lambda: RegionExtractor.of(Tiny(), Quarters(), grid=3),
    "quarters, own classes": lambda: RegionExtractor.of(Tiny(), Quarters(names=("person", "dog")), grid=2),
    "quarters, own classes only": lambda: RegionExtractor.of(Nameless(), Quarters(names=("person", "dog"))),
    "grid": lambda: named_extractor("tiny", "grid", 20, grid=4),
    "selective search": lambda: named_extractor("tiny", "selective-search", 30, grid=2),
}


class Nameless(Tiny):
    """A backbone without classes."""

    classes = ()


BATCHED = {
    **EXTRACTORS,
    "lite2": lambda: named_extractor("efficientnet-lite2@96", "coco-ssd", 20, grid=2),
    "v2": lambda: RegionExtractor(describe("v2"), grid=2),
    "v2-detector": lambda: RegionExtractor(describe("v2-detector")),
}


@pytest.mark.parametrize("name", BATCHED)
def test_a_batch_has_the_regions_of_single_photographs(name: str) -> None:
    extractor = BATCHED[name]()
    photos = [photo(0), photo(1, 40, 60), photo(2).convert("L"), photo(3, 90, 30), photo(4)]
    together = extractor.extract_batch(photos, [""] * len(photos))
    for image, regions in zip(photos, together, strict=True):
        alone = extractor.extract(image)
        np.testing.assert_array_equal(regions.boxes, alone.boxes)
        np.testing.assert_allclose(regions.features, alone.features, rtol=2e-3, atol=2e-3)  # of float16
        assert regions.size == image.size
        assert regions.grid is None or alone.grid is not None
        if regions.grid is not None and alone.grid is not None:
            np.testing.assert_allclose(regions.grid, alone.grid, rtol=2e-3, atol=2e-3)
        if regions.labels is not None and alone.labels is not None:
            np.testing.assert_allclose(regions.labels.probs, alone.labels.probs, atol=2e-3)


def test_a_batch_is_one_pass_of_the_backbone_for_each_input_size() -> None:
    passes: list[int] = []

    class Counting(Tiny):
        def feature_map(self, pixels: torch.Tensor) -> FeatureMap:
            passes.append(len(pixels))
            return super().feature_map(pixels)

    extractor = RegionExtractor.of(Counting(), Quarters())
    extractor.extract_batch([photo(0), photo(1, 40, 60), photo(2), photo(3)], [""] * 4)
    assert passes == [3, 1]


@pytest.mark.parametrize("name", EXTRACTORS)
def test_regions_of_a_store_are_those_of_the_photograph(name: str, tmp_path: Path) -> None:
    """Number for number, so that a model gives the same answer for both; boxes and scores are float32."""
    extractor = EXTRACTORS[name]()
    contents = Contents(extractor.name, extractor.description)
    fresh = {str(seed): extractor.extract(photo(seed), image_id=str(seed)) for seed in range(3)}
    with StoreWriter(tmp_path, contents) as writer:
        for image_id, regions in fresh.items():
            writer.add(image_id, regions)
    store = FeatureStore(tmp_path)
    for image_id, regions in fresh.items():
        assert_same_regions(store[image_id], regions)
        assert extractor.accepts(store[image_id])
        assert regions.features.dtype == np.float16
        assert regions.labels is not None
        assert regions.labels.probs.dtype == np.float16
        assert regions.grid is None or regions.grid.dtype == np.float16
        assert regions.boxes.dtype == np.float32
        assert regions.scores is not None
        assert regions.scores.dtype == np.float32


def test_regions_of_a_video_are_the_same_in_a_store(tmp_path: Path) -> None:
    extractor = RegionExtractor.of(Tiny(), Quarters(), grid=2)
    regions = extractor.extract_video([photo(0), photo(1)], "clip")
    with StoreWriter(tmp_path, Contents(extractor.name, extractor.description)) as writer:
        writer.add("clip", regions)
    assert_same_regions(FeatureStore(tmp_path)["clip"], regions)


def test_features_are_rounded_once() -> None:
    """To the nearest float16 of what the network computed; classes are found from the full precision."""
    extractor = make()
    regions = extractor.extract(photo())
    full = []
    real = extractor.backbone.classify
    extractor.backbone.classify = lambda features: full.append(features) or real(features)  # type: ignore[method-assign]
    assert_same_regions(extractor.extract(photo()), regions)
    assert full[0].dtype == torch.float32
    np.testing.assert_array_equal(full[0].numpy().astype(np.float16), regions.features)
    assert not np.array_equal(full[0].numpy(), regions.features)


# Images of every kind ---------------------------------------------------------------------------------------------


def rotated() -> tuple[Image.Image, dict[str, Any]]:
    exif = Image.Exif()
    exif[0x0112] = 6
    return photo(), {"exif": exif}


GOOD: dict[str, Callable[[], tuple[Image.Image, dict[str, Any]]]] = {
    "colour.jpg": lambda: (photo(), {}),
    "grey.jpg": lambda: (photo().convert("L"), {}),
    "cmyk.jpg": lambda: (photo().convert("CMYK"), {}),
    "turned.jpg": rotated,
    "palette.png": lambda: (photo().convert("P"), {}),
    "palette-clear.gif": lambda: (photo().convert("P"), {"transparency": 3}),
    "moving.gif": lambda: (photo(0), {"save_all": True, "append_images": [photo(1)]}),
    "clear.png": lambda: (photo().convert("RGBA"), {}),
    "bits.png": lambda: (photo().convert("1"), {}),
    "deep.png": lambda: (Image.fromarray(np.linspace(0, 65535, 2400).reshape(40, 60).astype(np.uint16)), {}),
    "float.tiff": lambda: (Image.fromarray(np.full((40, 60), np.nan, dtype=np.float32)), {}),
    "dot.png": lambda: (photo(width=1, height=1), {}),
    "line.png": lambda: (photo(width=3000, height=1), {}),
    "photo.webp": lambda: (photo(), {}),
}


@pytest.mark.parametrize("name", GOOD)
def test_images_of_every_mode_become_regions(tmp_path: Path, name: str) -> None:
    image, options = GOOD[name]()
    image.save(tmp_path / name, **options)
    outcome = outcome_of(make(), Job(name, (tmp_path / name,)))
    assert outcome.reason == ""
    assert outcome.regions is not None
    size = image.size[::-1] if name == "turned.jpg" else image.size
    assert outcome.regions.size == size
    np.testing.assert_array_equal(outcome.regions.boxes[0], [0, 0, *size])
    assert np.isfinite(outcome.regions.features).all()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is enormous."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def jpeg() -> bytes:
    data = io.BytesIO()
    photo().save(data, "JPEG")
    return data.getvalue()


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty.jpg": (lambda: b"", "unknown format"),
    "text.jpg": (lambda: b"not an image", "unknown format"),
    "cut.jpg": (lambda: jpeg()[:-300], "truncated"),
    "large.png": (lambda: bomb(12_000, 12_000), "over the limit of 100,000,000"),
    "bomb.png": (lambda: bomb(500_000, 500_000), "far more than 100,000,000 pixels"),
    "flat.png": (lambda: bomb(0, 10), "flat.png"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_images_are_named_with_the_reason(tmp_path: Path, name: str) -> None:
    content, reason = BAD[name]
    (tmp_path / name).write_bytes(content())
    outcome = outcome_of(make(), Job(name, (tmp_path / name,)))
    assert outcome.regions is None
    assert str(tmp_path / name) in outcome.reason
    assert reason in outcome.reason


def test_damaged_files_never_do_worse_than_be_refused(tmp_path: Path) -> None:
    rng, extractor, refused = np.random.default_rng(0), make(), 0
    kinds = [("a.jpg", {}), ("a.png", {}), ("a.webp", {}), ("a.tiff", {"compression": "tiff_lzw"}), ("a.gif", {})]
    for number in range(60):
        name, options = kinds[number % len(kinds)]
        photo(number).save(tmp_path / name, **options)
        data = bytearray((tmp_path / name).read_bytes())
        for _ in range(4):
            data[rng.integers(min(len(data), 300))] = rng.integers(256)
        (tmp_path / name).write_bytes(data)
        outcome = outcome_of(extractor, Job(name, (tmp_path / name,)))
        refused += outcome.regions is None
        assert (outcome.regions is None) == bool(outcome.reason)
        assert "could not be processed" not in outcome.reason  # opening images names every fault itself
    assert refused > 5


# Processes that die -----------------------------------------------------------------------------------------------


def make_fatal() -> RegionExtractor:
    return RegionExtractor.of(Tiny(), Quarters(fatal="fatal.png"))


def make_nothing() -> RegionExtractor:
    raise DeixisError("there is no such backbone.")


def test_a_killed_worker_costs_only_the_image_that_kills_it(tmp_path: Path) -> None:
    names = ["a.png", "fatal.png", "b.png", "c.png"]
    for name in names:
        photo().save(tmp_path / name)
    with Workers(make_fatal, 1) as workers:
        outcomes = {one.job.image_id: one for one in workers.run(Job(name, (tmp_path / name,)) for name in names)}
    assert set(outcomes) == set(names)
    assert [name for name in names if outcomes[name].regions is None] == ["fatal.png"]
    assert outcomes["fatal.png"].reason.startswith("its worker process died 2 times (SIGKILL")
    assert [cause[:7] for cause in workers.deaths] == ["SIGKILL"] * 2


def test_an_extractor_that_cannot_be_made_says_why() -> None:
    with pytest.raises(DeixisError, match=r"there is no such backbone\."):
        Workers(make_nothing, 1)
