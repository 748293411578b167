"""What people are told: a sentence after the second look, whether it is sure, and why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.language.sentence import is_out_of_sight
from deixis.pipelines import caption as telling
from deixis.pipelines.caption import Teller, Told, load_teller
from deixis.pipelines.load import load_captioner
from deixis.pipelines.looks import Looks
from deixis.pipelines.place import reground
from deixis.pipelines.second_look import Seen
from deixis.types import GroundedCaption

LOOKS = Looks(np.zeros((1, 1, 1), np.float32), np.ones((1, 1), bool))


def test_notes_say_why() -> None:
    caption = GroundedCaption(("a", "dog"))
    assert Told(caption, LOOKS, sure=True).note == ""
    assert Told(caption, LOOKS, sure=False).note.startswith("Not sure: it might say the same")
    assert Told(caption, LOOKS, sure=False, doubted="dog").note.startswith("Not sure: it speaks of a dog")
    assert Told(caption, LOOKS, sure=False, doubted="people").note.startswith("Not sure: it speaks of people, ")
    assert Told(caption, LOOKS, sure=True, plain=True, doubted="dog").note.startswith("Named plainly: ")
    assert Told(caption, LOOKS, sure=False, plain=True, doubted="dog").note.startswith("Not sure, and named plainly: ")
    assert Told(caption, LOOKS, sure=False, fits=False).note.startswith("Not sure: the finder takes it for the caption")
    assert Told(caption, LOOKS, sure=False, strange=True, plain=True).note.startswith("Not sure: the picture is unlike")
    told = Told(caption, LOOKS, sure=False).to_json()
    assert GroundedCaption.from_json(told) == caption
    assert (told["sure"], told["plain"], told["note"][:8]) == (False, False, "Not sure")


@pytest.mark.parametrize(
    ("doubted", "plain", "nats", "sure"),
    [
        ("", 0.0, -9, True),
        ("", 0.0, 9, False),
        ("dog", 0.0, -9, False),
        ("dog", 0.69, -9, False),
        ("dog", 0.7, 9, True),
    ],
)
def test_who_decides_whether_it_is_sure(
    doubted: str, plain: float, nats: float, sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain sentence is as sure as its name; the captioner's own as its gain, unless its subject is doubted."""
    monkeypatch.setattr(telling, "SURE", nats)
    teller = Teller(load_captioner(device="cpu"))
    teller.captioner.familiar = None  # a grey picture is strange
    photo = Image.new("RGB", (64, 48), "grey")
    monkeypatch.setattr(teller.second_look, "at", lambda caption, looks, *_: Seen(caption, looks, doubted, plain))
    (told,) = teller.tell([teller.captioner.eyes.look(photo)], [photo.copy], ["x.jpg"])
    assert (told.sure, told.plain, told.doubted) == (sure, bool(plain), doubted)
    assert told.caption.image == "x.jpg"


def test_the_captioner_of_the_package_has_the_finder_of_the_package_and_shares_its_eyes() -> None:
    teller = load_teller(device="cpu")
    assert teller.finder is not None
    assert teller.captioner.eyes is teller.finder.eyes
    assert teller.captioner.judge is not None
    assert teller.name == "deixis-8k, placed by deixis-8k-grounder"
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8))
    regions = teller.captioner.eyes.look(photo)
    (own, _) = next(teller.captioner.looks([regions]))
    teller.second_look.at = lambda caption, looks, *_: Seen(caption, looks)  # type: ignore[method-assign]
    (told,) = teller.tell([regions], [photo.copy], heats=True)
    placed = reground(teller.finder, regions, own, heats=True)
    assert told.caption.words == own.words
    assert [one.box for one in told.caption.groundings] == [
        one.box for one in placed.groundings if not is_out_of_sight(own.words, one.start)
    ]
    assert told.caption.model == teller.name
    alone = load_teller(finder="none", device="cpu")
    assert alone.finder is None
    assert alone.captioner.judge is None
    assert alone.name == "deixis-8k"


def test_one_photograph_is_told_as_many_are(tmp_path: Path) -> None:
    teller = load_teller(finder="none", device="cpu")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8))
    image.save(tmp_path / "photo.png")
    (told,) = teller.tell([teller.captioner.eyes.look(image)], [image.copy], [str(tmp_path / "photo.png")])
    assert teller.caption(tmp_path / "photo.png").to_json() == told.to_json()
    assert teller.caption(image).caption == replace(told.caption, image="")


@pytest.mark.parametrize(("chance", "sure"), [(0.5, True), (0.49, False)])
def test_a_sentence_that_the_finder_takes_for_one_of_another_photograph_is_not_sure(
    chance: float, sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "SURE", -99)
    teller = load_teller(device="cpu")
    teller.captioner.familiar = None  # a grey picture is strange
    image = Image.new("RGB", (64, 48), "grey")
    monkeypatch.setattr(teller.second_look, "at", lambda caption, looks, *_: Seen(caption, looks))
    monkeypatch.setattr(teller.finder, "match", lambda regions, text: chance)
    told = teller.caption(image)
    assert (told.sure, told.fits) == (sure, sure)
    assert bool(told.note) is not sure
