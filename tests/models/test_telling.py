"""What people are told: a sentence after the second look, whether it is sure, and why not."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from deixis.models import telling
from deixis.models.looks import Looks
from deixis.models.pretrained import load_captioner
from deixis.models.second_look import Seen
from deixis.models.telling import Teller, Told
from deixis.types import GroundedCaption

LOOKS = Looks(np.zeros((1, 1, 1), np.float32), np.ones((1, 1), bool))


def test_notes_say_why() -> None:
    caption = GroundedCaption(("a", "dog"))
    assert Told(caption, LOOKS, sure=True).note == ""
    assert Told(caption, LOOKS, sure=False).note.startswith("Not sure: it might say the same")
    assert Told(caption, LOOKS, sure=False, doubted="dog").note.startswith("Not sure: it speaks of a dog")
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
