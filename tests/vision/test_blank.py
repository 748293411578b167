"""Regions of blank images: extraction, files of a model's folder, and the models of the package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from deixis.errors import DeixisError
from deixis.files import TMP_PREFIX
from deixis.language.vocabulary import Vocabulary
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.model_folder import BLANK, pack_model
from deixis.pipelines.models import Models, load_captioner
from deixis.vision.blank import SIZE, BlankRegions, blank_images
from deixis.vision.extractor import RegionExtractor, named_extractor


def make_extractor(grid: int = 0) -> RegionExtractor:
    return RegionExtractor(named_extractor("tiny", "grid", 20).description, grid)


def make_captioner(blank: BlankRegions | None) -> Captioner:
    torch.manual_seed(0)
    vocabulary = Vocabulary.build([["a", "dog"]], minimum=1)
    config = DecoderConfig(len(vocabulary), 16, words=4, hidden=6, attention=4)
    return Captioner(Decoder(config), vocabulary, make_extractor().to_json(), "test", blank=blank)


def assert_same(a: BlankRegions, b: BlankRegions) -> None:
    assert len(a.regions) == len(b.regions)
    for one, other in zip(a.regions, b.regions, strict=True):
        assert (one.size, one.extractor) == (other.size, other.extractor)
        np.testing.assert_array_equal(one.boxes, other.boxes)
        np.testing.assert_array_equal(one.features, other.features)
        assert one.features.dtype == other.features.dtype == np.float16
        assert (one.grid is None) == (other.grid is None)
        if one.grid is not None and other.grid is not None:
            np.testing.assert_array_equal(one.grid, other.grid)


def test_every_blank_image_has_the_region_of_the_whole_image() -> None:
    extractor = make_extractor()
    blank = BlankRegions.extract(extractor)
    assert len(blank.regions) == len(blank_images()) == 2
    for image, regions in zip(blank_images(), blank.regions, strict=True):
        assert image.size == regions.size == SIZE
        assert regions.boxes.tolist() == [[0, 0, *SIZE]]
        extractor.require(regions)
    assert not np.array_equal(*(regions.features for regions in blank.regions))
    assert_same(BlankRegions.extract(make_extractor()), blank)  # the noise is the same every time


@pytest.mark.parametrize("grid", [0, 3])
def test_saved_regions_are_read_again(grid: int, tmp_path: Path) -> None:
    blank = BlankRegions.extract(make_extractor(grid))
    BlankRegions.save_or_remove(blank, tmp_path)
    again = BlankRegions.load(tmp_path, make_extractor().name, 16)
    assert again is not None
    assert_same(again, blank)
    assert (again.regions[0].grid is not None) == bool(grid)
    assert not list(tmp_path.glob(f"{TMP_PREFIX}*"))
    BlankRegions.save_or_remove(None, tmp_path)
    assert BlankRegions.load(tmp_path, make_extractor().name, 16) is None
    BlankRegions.save_or_remove(None, tmp_path)  # there may be nothing to remove


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    (tmp_path / BLANK).write_bytes(b"no tensors")
    with pytest.raises(DeixisError, match=rf"{BLANK} cannot be read.*Delete it"):
        BlankRegions.load(tmp_path, "any", 16)
    save_file({"other": np.zeros((2, 1, 16), np.float16)}, tmp_path / BLANK)
    with pytest.raises(DeixisError, match=rf"{BLANK} cannot be read.*features"):
        BlankRegions.load(tmp_path, "any", 16)
    for shape in ((2, 1, 8), (2, 16), (3,), (2, 3, 16), (0, 1, 16), ()):
        save_file({"features": np.zeros(shape, np.float16)}, tmp_path / BLANK)
        with pytest.raises(DeixisError, match=rf"{BLANK} does not fit features of width 16.*Delete it"):
            BlankRegions.load(tmp_path, "any", 16)
    good = {"features": np.zeros((2, 1, 16), np.float16)}
    for grid in ((1, 2, 2, 8), (2, 2)):
        save_file({**good, "grid": np.zeros(grid, np.float16)}, tmp_path / BLANK)
        with pytest.raises(DeixisError, match=rf"{BLANK} does not fit"):
            BlankRegions.load(tmp_path, "any", 16)
    save_file(good, tmp_path / BLANK)
    assert BlankRegions.load(tmp_path, "any", 16) is not None


def test_the_regions_go_with_the_model(tmp_path: Path) -> None:
    blank = BlankRegions.extract(make_extractor())
    captioner = make_captioner(blank)
    captioner.save_pretrained(tmp_path / "run", {"recipe.json": "{}"})
    pack_model(tmp_path / "run", tmp_path / "packed", "new", {})
    for folder in ("run", "packed"):
        again = load_captioner(tmp_path / folder, "cpu")
        assert again.blank is not None
        assert_same(again.blank, blank)
        assert Models(again).blank is again.blank
    captioner.blank = None  # the file that is there belongs to an earlier model
    captioner.save_pretrained(tmp_path / "run", {"recipe.json": "{}"})
    again = load_captioner(tmp_path / "run", "cpu")
    assert again.blank is None
    models = Models(again)
    assert_same(models.blank, blank)  # extracted, once
    assert models.blank is models.blank


@pytest.mark.parametrize("name", ["deixis-base", "deixis-8k-pairs"])
def test_the_regions_of_the_package_are_those_of_the_extractor(name: str) -> None:
    """But for the rounding of other processors."""
    captioner = load_captioner(name, "cpu")
    assert captioner.blank is not None
    fresh = BlankRegions.extract(captioner.extractor)
    for kept, now in zip(captioner.blank.regions, fresh.regions, strict=True):
        assert kept.extractor == now.extractor
        np.testing.assert_allclose(
            kept.features, now.features, rtol=0.01, atol=0.01
        )  # other processors round otherwise
