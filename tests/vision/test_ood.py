"""What photographs are like, and which pictures are unlike them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from deixis.pipelines.load import load_captioner, model_folder
from PIL import Image, ImageDraw
from safetensors.numpy import save_file
from skimage import data as photographs

from deixis.errors import DeixisError
from deixis.model_folder import FAMILIAR, pack_model
from deixis.pipelines.caption import Teller
from deixis.types import Regions
from deixis.vision import ood as familiar
from deixis.vision.ood import Familiar


def seen(*features: tuple[float, ...]) -> Regions:
    return Regions(np.zeros((len(features), 4)), np.array(features), (8, 8))


def test_what_lies_beside_the_directions_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Photographs differ by x much and by y a little around (1, 1, 1); one direction is x, what counts is y and z."""
    monkeypatch.setattr(familiar, "DIRECTIONS", 1)
    known = [seen((9, 1, 1)), seen((-7, 1, 1)), seen((1, 2, 1)), seen((1, 0, 1))]
    others = [seen((50, 1 + y, 1)) for y in np.linspace(0, 2, 51)]
    usual = Familiar.learn(known, others)
    assert usual.mean.tolist() == [1, 1, 1]
    assert np.abs(usual.directions).tolist() == [[1, 0, 0]]
    assert usual.beside(seen((0, 0, 3), (0, 0, 9))) == 26  # (1, 1, 1) is 1 away along x, 1 along y, 5 along z
    assert usual.limit == pytest.approx(1.96**2, rel=1e-6)  # that of the 50th of 51
    assert [usual.is_strange(seen((100, 1 + y, 1))) for y in (1.9, 2.0)] == [False, True]


def test_few_photographs_leave_no_directions_of_noise() -> None:
    usual = Familiar.learn([seen((1, 1, 1)), seen((3, 1, 1)), seen((5, 1, 1))], [seen((3, 1, 1))])
    assert usual.directions.shape == (1, 3)
    assert usual.beside(seen((9, 4, 1))) == pytest.approx(9, rel=1e-3)
    alike = Familiar.learn([seen((1, 1))] * 2, [seen((1, 1))])
    assert (len(alike.directions), alike.limit, alike.is_strange(seen((1, 1)))) == (0, 0, False)


def test_it_goes_with_the_model(tmp_path: Path) -> None:
    captioner = load_captioner(device="cpu")
    assert captioner.familiar is not None
    captioner.save_pretrained(tmp_path / "run", {"recipe.json": "{}"})
    pack_model(tmp_path / "run", tmp_path / "packed", "new", {})
    again = load_captioner(tmp_path / "packed", "cpu").familiar
    assert again is not None
    assert np.array_equal(again.directions, captioner.familiar.directions)
    assert np.array_equal(again.mean, captioner.familiar.mean)
    assert again.limit == captioner.familiar.limit
    captioner.familiar = None  # what was there before is not this model's
    captioner.save_pretrained(tmp_path / "run", {"recipe.json": "{}"})
    assert load_captioner(tmp_path / "run", "cpu").familiar is None
    pack_model(tmp_path / "run", tmp_path / "other", "new", {})
    assert not (tmp_path / "other" / FAMILIAR).exists()


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    assert Familiar.load(tmp_path, 3) is None
    (tmp_path / FAMILIAR).write_bytes(b"no tensors")
    with pytest.raises(DeixisError, match=r"cannot be read.*delete it"):
        Familiar.load(tmp_path, 3)
    parts = {"mean": np.zeros(3, np.float32), "directions": np.zeros((2, 4), np.float16)}
    save_file(parts, tmp_path / FAMILIAR)
    with pytest.raises(DeixisError, match=r"cannot be read.*limit"):
        Familiar.load(tmp_path, 3)
    limit = {"limit": np.ones(1, np.float32)}
    save_file({**parts, **limit}, tmp_path / FAMILIAR)
    for width in (3, 4):  # one part is as wide as that, and the other is not
        with pytest.raises(DeixisError, match=f"does not fit features of {width} numbers"):
            Familiar.load(tmp_path, width)
    save_file({**parts, **limit, "directions": np.zeros((2, 3), np.float16)}, tmp_path / FAMILIAR)
    assert Familiar.load(tmp_path, 3) is not None


@pytest.mark.parametrize("name", ["deixis-8k", "deixis-8k-pairs"])
def test_the_captioners_of_the_package_know_photographs(name: str) -> None:
    """Also of cats and cups, which they have hardly seen; a drawing and a field of stars are none."""
    captioner = load_captioner(name, "cpu")
    usual = captioner.familiar
    assert usual is not None
    drawing = Image.new("RGB", (400, 300), "#cceeff")
    pen = ImageDraw.Draw(drawing)
    pen.rectangle((0, 200, 400, 300), fill="#77bb55")
    pen.polygon([(100, 120), (200, 50), (300, 120)], fill="#aa3333", outline="black")
    stars = Image.fromarray(photographs.hubble_deep_field())
    for strange in (drawing, stars, Image.new("RGB", (320, 240), "grey")):
        assert usual.is_strange(captioner.eyes.look(strange))
    for photo in (photographs.astronaut(), photographs.chelsea(), photographs.coffee()):
        assert not usual.is_strange(captioner.eyes.look(Image.fromarray(photo)))
    assert (model_folder(name) / FAMILIAR).stat().st_size < 200_000


@pytest.mark.parametrize("plain", [False, True])
def test_nothing_is_sure_of_a_strange_picture(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the captioner's sentence nor a plain one."""
    teller = Teller(load_captioner(device="cpu"))
    monkeypatch.setattr("deixis.pipelines.caption.SURE", -99)
    at = teller.second_look.at
    monkeypatch.setattr(teller.second_look, "at", lambda *given: replace(at(*given), plain=float(plain), doubted=""))
    photo = Image.fromarray(photographs.chelsea())
    told = teller.caption(photo)
    assert (told.sure, told.strange) == (True, False)
    assert teller.captioner.familiar is not None
    teller.captioner.familiar = replace(teller.captioner.familiar, limit=0.0)
    told = teller.caption(photo)
    assert (told.sure, told.strange, told.plain) == (False, True, plain)
    assert told.note == "Not sure: the picture is unlike the photographs that the model learnt from."
