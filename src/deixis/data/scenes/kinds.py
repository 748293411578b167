"""The kinds of things there are: how high they are, what colours they come in, and how one of them is made."""

from __future__ import annotations

from collections.abc import Mapping

from deixis.data.scenes.backdrop import Setting
from deixis.data.scenes.canvas import HAIR, Paint, Rgb, mix_paint
from deixis.data.scenes.dice import Dice
from deixis.data.scenes.look import Look
from deixis.data.scenes.things import Thing

PEOPLE = ("man", "woman", "boy", "girl")
ANIMALS = ("dog", "cat", "horse", "cow", "sheep", "bird", "duck")
VEHICLES = ("car", "bus", "truck", "bicycle", "boat")
NOUN = {"pine": "tree", "palm": "tree"}
"""Kinds that captions call by another kind's name."""

HEIGHT = {
    "man": 0.56, "woman": 0.53, "boy": 0.4, "girl": 0.39,
    "dog": 0.23, "cat": 0.2, "horse": 0.44, "cow": 0.33, "sheep": 0.26, "bird": 0.12, "duck": 0.17,
    "car": 0.24, "bus": 0.36, "truck": 0.32, "bicycle": 0.3, "boat": 0.26,
    "house": 0.5, "tree": 0.68, "pine": 0.66, "palm": 0.7, "bush": 0.18, "flower": 0.22, "plant": 0.28,
    "rock": 0.13, "bench": 0.22, "table": 0.25, "chair": 0.34, "sofa": 0.27, "lamp": 0.6, "sign": 0.42,
    "picture": 0.2, "snowman": 0.4, "ball": 0.11, "balloon": 0.34, "umbrella": 0.34, "kite": 0.3, "flag": 0.34,
    "book": 0.09, "cup": 0.085, "box": 0.15, "bucket": 0.13, "bag": 0.15,
}  # fmt: skip
"""Height in picture widths when it stands in front."""

_BRIGHT = ("red", "orange", "yellow", "green", "blue", "purple", "pink")
_CLOTH = (*_BRIGHT, "white", "black", "grey", "brown")
_SKIN: tuple[Rgb, ...] = ((252, 220, 192), (238, 194, 158), (206, 152, 112), (150, 104, 76), (112, 78, 60))
_COLOURS: dict[str, tuple[str, ...]] = {
    "dog": ("brown", "black", "white", "grey"),
    "cat": ("orange", "black", "white", "grey"),
    "horse": ("brown", "black", "white", "grey"),
    "cow": ("white", "brown", "black"),
    "sheep": ("white", "black", "grey"),
    "bird": ("red", "blue", "yellow", "black", "green"),
    "duck": ("white", "brown", "yellow", "grey"),
    "car": (*_BRIGHT, "white", "black", "grey"),
    "house": ("white", "yellow", "pink", "blue", "grey", "orange"),
    "tree": ("green", "green", "green", "orange", "yellow"),
    "pine": ("green",),
    "palm": ("green",),
    "bush": ("green",),
    "rock": ("grey", "grey", "brown"),
    "bench": ("brown", "green", "red", "white", "grey"),
    "table": ("brown", "white", "red", "blue", "black"),
    "chair": ("brown", "white", "red", "blue", "green", "black"),
    "sofa": (*_BRIGHT, "grey", "brown"),
    "lamp": ("black", "grey", "green"),
    "sign": ("red", "blue", "yellow"),
    "box": ("brown", "red", "blue", "green", "yellow", "white", "purple"),
    "book": ("red", "blue", "green", "purple", "black", "orange"),
    "bag": ("red", "blue", "green", "brown", "black", "yellow", "pink"),
    "cup": (*_BRIGHT, "white", "black"),
}
_PATTERNS = {
    "dog": ("spotted",), "cat": ("striped",), "cow": ("spotted",), "horse": ("spotted",), "umbrella": ("striped",),
    "ball": ("striped", "spotted"), "flag": ("striped",), "cup": ("striped",), "bucket": ("striped",),
    "bag": ("striped",), "balloon": ("striped",), "sofa": ("striped",),
}  # fmt: skip
_SIZED = ("dog", "cat", "bird", "tree", "house", "ball", "box", "rock", "boat", "bush", "balloon", "kite")


def colours(kind: str) -> tuple[str, ...]:
    """The colours that a kind comes in."""
    return _COLOURS.get(kind, _BRIGHT)


def make_thing(dice: Dice, kind: str, setting: Setting, given: Mapping[str, str]) -> Thing:
    """Any thing but a person, with its colours and sometimes a size; some traits may be given."""
    traits = dict(given)
    colour = dice.pick(colours(kind))
    pattern = dice.pick(_PATTERNS.get(kind, ("",))) if dice.chance(0.6 if kind == "cow" else 0.25) else ""
    paints = {"main": mix_paint(dice, colour, pattern)}

    def other(slot: str, *names: str, striped: float = 0.0) -> None:
        name = dice.pick([name for name in names if name != colour])
        paints[slot] = mix_paint(dice, name, "striped" if dice.chance(striped) else "")

    if kind == "house":
        other("roof", "red", "brown", "grey", "blue", "green")
        other("door", "red", "blue", "green", "brown", "white", "yellow")
    elif kind in ("tree", "pine", "palm"):
        other("trunk", "brown")
        if kind == "pine" and setting.name == "snow":
            traits["snowy"] = "yes"
    elif kind == "bush":
        other("berries", "red", "pink", "yellow", "white")
    elif kind == "truck":
        other("cab", "white", "grey", "black")
    elif kind == "boat":
        other("sail", "white", "red", "yellow", "orange", "blue", striped=0.3)
    elif kind == "snowman":
        other("scarf", *_BRIGHT, striped=0.4)
    elif kind == "dog" and dice.chance(0.45):
        other("collar", "red", "blue", "green", "yellow")
    elif kind == "lamp" and setting.name == "room":
        traits["indoors"] = "yes"
        other("main", *_BRIGHT, striped=0.25)
    elif kind == "umbrella" and traits.get("pose") != "held":
        traits["standing"] = "yes"
    if kind in ("dog", "cat"):
        traits.setdefault("pose", dice.pick(("stand", "sit", "walk", "run")))
    elif kind in ("horse", "cow", "sheep"):
        traits.setdefault("pose", dice.pick(("stand", "walk")))
    if kind in _SIZED and dice.chance(0.4):
        traits.setdefault("size", dice.pick(("big", "small")))
    height = HEIGHT[kind] * dice.between(0.93, 1.07)
    height *= {"big": 1.3, "small": 0.7}.get(traits.get("size", ""), 1.0)
    height *= 1.8 if traits.get("standing") else 1.0
    return Thing(Look(kind, paints, traits, dice.between(0, 1)), height, flip=dice.chance(0.5))


def make_person(dice: Dice, kind: str, setting: Setting, pose: str) -> Thing:
    """A person who faces right."""
    male, cold, astride = kind in ("man", "boy"), setting.name == "snow", pose in ("ride", "cycle")
    top = dice.pick(("jacket", "sweater", "coat") if cold else ("shirt", "shirt", "shirt", "jacket", "sweater"))
    bottom = "pants" if cold or astride or dice.chance(0.5) else "shorts" if male else "skirt"
    if bottom == "pants" and dice.chance(0.3):
        bottom = "jeans"
    if not (male or cold or astride) and dice.chance(0.4):
        top = bottom = "dress"
    traits = {"pose": pose, "top": top, "bottom": bottom}
    traits["hair"] = dice.pick(("short", "short", "curly") if male else ("long", "long", "tied", "curly"))
    colour = dice.pick(_CLOTH if top != "dress" else _BRIGHT)
    others = [name for name in ("blue", "black", "grey", "brown", "green", "white", "red") if name != colour]
    hair = dice.pick(tuple(HAIR) if kind in ("man", "woman") else ("black", "brown", "blond", "red"))
    paints = {
        "skin": Paint("skin", dice.pick(_SKIN)),
        "hair": mix_paint(dice, hair, palette=HAIR),
        "top": mix_paint(dice, colour, "striped" if top != "coat" and dice.chance(0.28) else ""),
        "bottom": mix_paint(dice, "blue" if bottom == "jeans" else dice.pick(others)),
        "shoes": mix_paint(dice, dice.pick(("black", "brown", "white", "red"))),
    }
    if dice.chance(0.6 if cold else 0.35):
        traits["hat"] = "beanie" if cold else dice.pick(("hat", "cap"))
        paints["hat"] = mix_paint(dice, dice.pick([name for name in _CLOTH if name != colour]))
    if kind == "man" and dice.chance(0.35):
        traits["beard"] = "yes"
    if dice.chance(0.2):
        traits["glasses"] = "yes"
    return Thing(Look(kind, paints, traits, dice.between(0, 1)), HEIGHT[kind] * dice.between(0.95, 1.05))
