"""Out-of-distribution detection: residuals by hand, files of a model's folder, and the models of the package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from safetensors.numpy import load_file, save_file
from skimage import data as photographs

from deixis.errors import DeixisError
from deixis.files import TMP_PREFIX
from deixis.model_folder import OOD, pack_model
from deixis.pipelines.caption import caption
from deixis.pipelines.models import Models, load_captioner, model_folder
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import CaptionResult
from deixis.pipelines.second_look import SecondLook
from deixis.types import Regions
from deixis.vision import ood
from deixis.vision.ood import OodDetector


def make_regions(*features: tuple[float, ...]) -> Regions:
    return Regions(np.zeros((len(features), 4)), np.array(features), (8, 8))


def test_the_residual_outside_the_components_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training features vary much along x and little along y around (1, 1, 1); the one component is x."""
    monkeypatch.setattr(ood, "COMPONENTS", 1)
    training = [make_regions(one) for one in ((9, 1, 1), (-7, 1, 1), (1, 2, 1), (1, 0, 1))]
    validation = [make_regions((50, 1 + y, 1)) for y in np.linspace(0, 2, 51)]
    detector = OodDetector.fit(training, validation)
    assert detector.mean.tolist() == [1, 1, 1]
    assert np.abs(detector.components).tolist() == [[1, 0, 0]]
    # the mean (0, 0, 6) is 1 away from (1, 1, 1) along x, 1 along y, 5 along z
    assert detector.residual(make_regions((0, 0, 3), (0, 0, 9))) == 26
    assert detector.limit == pytest.approx(0.25 * 1.96**2 + 0.75 * 2**2, rel=1e-6)  # of the last two of 51
    assert [detector.is_ood(make_regions((100, 1 + y, 1))) for y in (1.98, 2.0)] == [False, True]


def test_few_photographs_give_no_components_of_noise() -> None:
    training = [make_regions((x, 1, 1)) for x in (1, 3, 5)]
    detector = OodDetector.fit(training, training[1:2])
    assert detector.components.shape == (1, 3)
    assert detector.residual(make_regions((9, 4, 1))) == pytest.approx(9, rel=1e-3)
    same = OodDetector.fit([make_regions((1, 1))] * 2, [make_regions((1, 1))])
    assert (len(same.components), same.limit, same.is_ood(make_regions((1, 1)))) == (0, 0, False)


def test_half_precision_features_give_the_same_residual() -> None:
    """The mean is computed in float32, whatever the precision of the features."""
    rng = np.random.default_rng(0)
    training = [Regions(np.zeros((60, 4)), rng.normal(20, 9, (60, 8)).astype(np.float16), (8, 8)) for _ in range(20)]
    wide = [replace(one, features=one.features.astype(np.float64)) for one in training]
    detector = OodDetector.fit(training[:4], training)
    for half, full in zip(training, wide, strict=True):
        assert detector.residual(half) == pytest.approx(detector.residual(full), rel=1e-3, abs=1e-5)


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_saved_detector_is_read_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    known = [make_regions(*map(tuple, rng.normal(size=(4, 5)))) for _ in range(9)]
    detector = OodDetector.fit(known[:6], known[6:])
    OodDetector.save_or_remove(detector, tmp_path)
    again = OodDetector.load(tmp_path, 5)
    assert again is not None
    np.testing.assert_array_equal(again.mean, detector.mean)
    np.testing.assert_array_equal(again.components, detector.components)
    assert again.limit == pytest.approx(detector.limit, rel=1e-6)
    for one in known:
        assert again.residual(one) == detector.residual(one)
    assert set(load_file(tmp_path / OOD)) == {"mean", "directions", "limit"}  # as version 0.1 named them
    assert not list(tmp_path.glob(f"{TMP_PREFIX}*"))
    OodDetector.save_or_remove(None, tmp_path)
    assert OodDetector.load(tmp_path, 5) is None
    OodDetector.save_or_remove(None, tmp_path)  # there may be nothing to remove


def test_the_detector_goes_with_the_model(tmp_path: Path) -> None:
    captioner = load_captioner(device="cpu")
    assert captioner.ood is not None
    captioner.save_pretrained(tmp_path / "run", {"recipe.json": "{}"})
    pack_model(tmp_path / "run", tmp_path / "packed", "new", {})
    again = load_captioner(tmp_path / "packed", "cpu").ood
    assert again is not None
    assert np.array_equal(again.components, captioner.ood.components)
    assert np.array_equal(again.mean, captioner.ood.mean)
    assert again.limit == captioner.ood.limit
    captioner.ood = None  # the file that is there belongs to an earlier model
    captioner.save_pretrained(tmp_path / "run", {"recipe.json": "{}"})
    assert load_captioner(tmp_path / "run", "cpu").ood is None
    pack_model(tmp_path / "run", tmp_path / "other", "new", {})
    assert not (tmp_path / "other" / OOD).exists()


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    assert OodDetector.load(tmp_path, 3) is None
    (tmp_path / OOD).write_bytes(b"no tensors")
    with pytest.raises(DeixisError, match=r"cannot be read.*Delete it"):
        OodDetector.load(tmp_path, 3)
    parts = {"mean": np.zeros(3, np.float32), "directions": np.zeros((2, 4), np.float16)}
    save_file(parts, tmp_path / OOD)
    with pytest.raises(DeixisError, match=r"cannot be read.*limit"):
        OodDetector.load(tmp_path, 3)
    limit = {"limit": np.ones(1, np.float32)}
    save_file({**parts, **limit}, tmp_path / OOD)
    for width in (3, 4):  # one part is as wide as that, and the other is not
        with pytest.raises(DeixisError, match=f"does not fit features of width {width}"):
            OodDetector.load(tmp_path, width)
    save_file({**parts, **limit, "directions": np.zeros((2, 3), np.float16)}, tmp_path / OOD)
    assert OodDetector.load(tmp_path, 3) is not None


# Models of the package ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deixis-base", "deixis-8k-pairs"])
def test_photographs_are_in_distribution_and_drawings_are_not(name: str) -> None:
    """Also photographs of cats and cups, which are rare in the training set."""
    captioner = load_captioner(name, "cpu")
    detector = captioner.ood
    assert detector is not None
    drawing = Image.new("RGB", (400, 300), "#cceeff")
    pen = ImageDraw.Draw(drawing)
    pen.rectangle((0, 200, 400, 300), fill="#77bb55")
    pen.polygon([(100, 120), (200, 50), (300, 120)], fill="#aa3333", outline="black")
    stars = Image.fromarray(photographs.hubble_deep_field())
    for other in (drawing, stars, Image.new("RGB", (320, 240), "grey")):
        assert detector.is_ood(captioner.extractor.extract(other))
    for photo in (photographs.astronaut(), photographs.chelsea(), photographs.coffee()):
        assert not detector.is_ood(captioner.extractor.extract(Image.fromarray(photo)))
    assert (model_folder(name) / OOD).stat().st_size < 200_000


@pytest.mark.parametrize("template", [False, True])
def test_no_caption_of_an_ood_image_is_confident(template: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the captioner's sentence nor a template."""
    models = Models(load_captioner(device="cpu"))
    monkeypatch.setattr("deixis.pipelines.checks.MIN_GAIN", -99)
    looked = {"missing_subject": "dog", "template_prob": 1.0} if template else {}
    monkeypatch.setattr("deixis.pipelines.checks.second_look", lambda one, *given: SecondLook(one, **looked))
    photo = Photo(Image.fromarray(photographs.chelsea()))

    def codes(result: CaptionResult) -> list[str]:
        return [warning.code for warning in result.warnings]

    others = ["template_caption"] if template else []
    (result,) = caption([photo], models)
    assert (result.confident, result.template, codes(result)) == (True, template, others)
    detector = models.captioner.ood
    assert detector is not None
    models.captioner.ood = replace(detector, limit=0.0)
    (result,) = caption([photo], models)
    assert (result.confident, result.template) == (False, template)
    assert codes(result) == ["out_of_distribution", *others]
    assert result.note == "Low confidence: the image is unlike the training photographs."
