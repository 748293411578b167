"""What people are told: a sentence after the second look, whether it is sure, and why not."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from deixis.models import telling
from deixis.models.looks import Looks
from deixis.models.pretrained import load_captioner
from deixis.models.regrounding import reground
from deixis.models.second_look import Seen
from deixis.models.telling import Teller, Told, is_direction, load_teller
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
    photo = Image.new("RGB", (64, 48), "grey")
    monkeypatch.setattr(teller.second_look, "at", lambda caption, looks, *_: Seen(caption, looks, doubted, plain))
    (told,) = teller.tell([teller.captioner.eyes.look(photo)], [photo.copy], ["x.jpg"])
    assert (told.sure, told.plain, told.doubted) == (sure, bool(plain), doubted)
    assert told.caption.image == "x.jpg"


@pytest.mark.parametrize(
    ("words", "at", "direction"),
    [
        ("a man in front of a house", 3, True),
        ("a dog on the top of a hill", 4, True),
        ("the front of a house", 1, False),
        ("a man in a red top", 5, False),
        ("a man in front", 3, False),
        ("a cup of coffee", 1, False),
    ],
)
def test_a_noun_that_only_says_where_has_no_place(words: str, at: int, direction: bool) -> None:
    assert is_direction(tuple(words.split()), at) is direction


def test_the_captioner_of_the_package_has_the_finder_of_the_package_and_shares_its_eyes() -> None:
    teller = load_teller(device="cpu")
    assert teller.finder is not None
    assert teller.captioner.eyes is teller.finder.eyes
    assert teller.name == "deixis-8k, placed by deixis-8k-grounder"
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8))
    regions = teller.captioner.eyes.look(photo)
    (own, _) = next(teller.captioner.looks([regions]))
    teller.second_look.at = lambda caption, looks, *_: Seen(caption, looks)  # type: ignore[method-assign]
    (told,) = teller.tell([regions], [photo.copy], heats=True)
    placed = reground(teller.finder, regions, own, heats=True)
    assert told.caption.words == own.words
    assert [one.box for one in told.caption.groundings] == [
        one.box for one in placed.groundings if not is_direction(own.words, one.start)
    ]
    assert told.caption.model == teller.name
    alone = load_teller(finder="none", device="cpu")
    assert alone.finder is None
    assert alone.name == "deixis-8k"
