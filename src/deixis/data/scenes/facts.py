"""What can be said truly about a drawn scene: who is to be seen, with which boxes, and how they stand to each other.

Everything here is measured on the drawing. A relation is kept only if the visible boxes bear it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deixis.data.scenes.drawing import Drawing, plain
from deixis.data.scenes.layout import ANIMALS, NOUN, PEOPLE, VEHICLES, Scene
from deixis.data.scenes.things import Thing
from deixis.types import Box

SCENE = "scene"
"""Id of the entity that is the place itself."""

_VISIBLE_SHARE, _VISIBLE_SIDE = 0.35, 0.035  # what a caption may name: share of the thing, and side in picture widths
_BOX_SHARE, _BOX_SIDE = 0.1, 0.02  # what gets a box at all
_PART_SIDE = 0.012
_CLOTHES = (
    "shirt",
    "jacket",
    "sweater",
    "coat",
    "dress",
    "pants",
    "jeans",
    "shorts",
    "skirt",
    "hat",
    "cap",
    "shoes",
    "scarf",
)
_BODY = ("hair", "face", "head", "beard", "arms", "legs", "body", "tail", "ears", "mane", "horns", "wings", "beak")
_MADE_OF = {"head": ("face", "hair", "beard")}  # parts of people that are made of smaller ones


@dataclass(frozen=True)
class Referent:
    """Something a caption may name: a thing or a group of things."""

    id: str
    kind: str
    things: tuple[int, ...]
    unit: int
    zone: str  # of its unit
    plural: bool
    leads: bool  # it is what its unit is about
    nameable: bool  # enough of it is to be seen


@dataclass(frozen=True)
class Relation:
    """``subject`` is <name> ``object``; both are ids of referents."""

    name: str
    subject: str
    object: str


@dataclass(frozen=True, eq=False)
class Place:
    """The visible boxes of an entity ``[M, 4]``, one per member or per instance of a part."""

    id: str
    label: str
    types: tuple[str, ...]
    boxes: tuple[Box, ...]


def kind_type(kind: str) -> str:
    """The type of a kind of thing, in the manner of Flickr30k Entities."""
    if kind in PEOPLE or kind == "people":
        return "people"
    return "animals" if kind in ANIMALS else "vehicles" if kind in VEHICLES else "other"


def part_type(part: str) -> str:
    """The type of a part."""
    return "clothing" if part in _CLOTHES else "bodyparts" if part in _BODY else "other"


def thing_ids(things: Sequence[Thing]) -> list[str]:
    """An id for each thing: its kind, numbered."""
    seen: dict[str, int] = {}
    ids = []
    for thing in things:
        kind = NOUN.get(thing.kind, thing.kind)
        seen[kind] = seen.get(kind, 0) + 1
        ids.append(f"{kind}{seen[kind]}")
    return ids


def referents(scene: Scene, drawing: Drawing) -> list[Referent]:
    """Everything that captions may name, or that stands in relation to it; the main one of each unit first."""
    size = drawing.pixels.shape[0]
    ids = thing_ids(scene.things)
    out: list[Referent] = []
    for number, (first, unit) in enumerate(zip(scene.offsets(), scene.units, strict=True)):
        members = tuple(first + k for k in unit.members)
        shown = tuple(k for k in members if _seen(drawing, k, size, _VISIBLE_SHARE, _VISIBLE_SIDE))
        for k in range(first, first + len(unit.things)):
            if k not in members:
                kind = scene.things[k].kind
                nameable = _seen(drawing, k, size, _VISIBLE_SHARE, _VISIBLE_SIDE)
                out.append(Referent(ids[k], kind, (k,), number, unit.zone, False, k == first, nameable))
            elif k == members[0]:
                # a half-hidden member would make the number in the caption a matter of taste
                nameable = len(shown) == len(members)
                out.append(
                    Referent(f"group.{unit.group}", unit.group, members, number, unit.zone, True, k == first, nameable)
                )
    return out


def _seen(drawing: Drawing, thing: int, size: int, share: float, side: float) -> bool:
    box = drawing.box(thing)
    if box is None or drawing.visible(thing) < share:
        return False
    return min(box[2] - box[0], box[3] - box[1]) >= side * size


def places(scene: Scene, drawing: Drawing) -> list[Place]:
    """Boxes of all visible things, groups and parts. A part's id is the thing's id, a point and the part's name."""
    size = drawing.pixels.shape[0]
    ids = thing_ids(scene.things)
    out: list[Place] = []
    for unit in referents(scene, drawing):
        shown = [k for k in unit.things if _seen(drawing, k, size, _BOX_SHARE, _BOX_SIDE)]
        if unit.plural and shown:
            boxes = tuple(box for k in shown if (box := drawing.box(k)) is not None)
            out.append(Place(unit.id, NOUN.get(unit.kind, unit.kind), (kind_type(unit.kind),), boxes))
        for k in shown:
            box = drawing.box(k)
            assert box is not None
            kind = scene.things[k].kind
            out.append(Place(ids[k], NOUN.get(kind, kind), (kind_type(kind),), (box,)))
            out += _parts(drawing, k, ids[k], kind, size)
    return out


def _parts(drawing: Drawing, thing: int, thing_id: str, kind: str, size: int) -> list[Place]:
    found: dict[str, list[Box]] = {}
    for (owner, key), box in zip(drawing.keys, drawing.boxes, strict=True):
        part = plain(key)
        if owner != thing or box is None or not part:
            continue
        if min(box[2] - box[0], box[3] - box[1]) >= _PART_SIDE * size:
            found.setdefault(part, []).append(box)
    if kind in PEOPLE:
        for part, pieces in _MADE_OF.items():
            boxes = [box for piece in pieces for box in found.get(piece, ())]
            if boxes:
                found[part] = [_around(boxes)]
    return [Place(f"{thing_id}.{part}", part, (part_type(part),), tuple(boxes)) for part, boxes in found.items()]


def _around(boxes: Sequence[Box]) -> Box:
    x1, y1, x2, y2 = zip(*boxes, strict=True)
    return min(x1), min(y1), max(x2), max(y2)


# Relations ----------------------------------------------------------------------------------------------------------


def built_in(scene: Scene, everyone: Sequence[Referent]) -> list[Relation]:
    """The relations that units are built for: hold, fly, lead, ride, kick, chase, sit, on, under."""
    owner = {thing: referent.id for referent in everyone for thing in referent.things}
    nameable = {referent.id for referent in everyone if referent.nameable}
    out = []
    for first, unit in zip(scene.offsets(), scene.units, strict=True):
        for fact in unit.facts:
            subject, target = owner[first + fact.subject], owner[first + fact.object]
            if subject in nameable and target in nameable:
                out.append(Relation(fact.relation, subject, target))
    return out


def spatial(scene: Scene, drawing: Drawing, everyone: Sequence[Referent]) -> list[Relation]:
    """Left of, next to, in front of and above, between nameable referents of different units.

    The converse (right of, behind, below) is left to the wording.
    """
    size = drawing.pixels.shape[0]
    out = []
    for a in everyone:
        for b in everyone:
            if a.unit == b.unit or not (a.nameable and b.nameable):
                continue
            box_a, box_b = _box(drawing, a, size), _box(drawing, b, size)
            zones = scene.units[a.unit].zone, scene.units[b.unit].zone
            if in_front(drawing, a.things, b.things):
                out.append(Relation("front", a.id, b.id))
            elif zones[0] == "sky" and zones[1] != "sky" and is_above(box_a, box_b):
                out.append(Relation("above", a.id, b.id))
            elif "sky" not in zones and "wall" not in zones and not in_front(drawing, b.things, a.things):
                if is_left_of(box_a, box_b):
                    out.append(Relation("left", a.id, b.id))
                if is_next_to(box_a, box_b):
                    out.append(Relation("next", a.id, b.id))
    return out


def _box(drawing: Drawing, referent: Referent, size: int) -> Box:
    """Around all of a referent, in picture widths."""
    boxes = [box for thing in referent.things if (box := drawing.box(thing)) is not None]
    x1, y1, x2, y2 = _around(boxes)
    return x1 / size, y1 / size, x2 / size, y2 / size


def in_front(drawing: Drawing, front: Sequence[int], back: Sequence[int]) -> bool:
    """Whether the first things hide at least a twelfth of the others, and are not hidden by them."""
    hidden = int(drawing.hides[np.ix_(front, back)].sum())
    return hidden * 12 >= int(drawing.whole[list(back)].sum()) and not drawing.hides[np.ix_(back, front)].any()


def is_left_of(a: Box, b: Box) -> bool:
    """Boxes in picture widths: a lies to the left, beside b and not above or below it."""
    return _beside(a, b) and (a[0] + a[2]) / 2 + 0.08 < (b[0] + b[2]) / 2 and a[2] - b[0] < 0.3 * _narrower(a, b)


def is_next_to(a: Box, b: Box) -> bool:
    """Boxes in picture widths: side by side, close, on about the same ground."""
    gap = max(a[0] - b[2], b[0] - a[2])
    return _beside(a, b) and -0.3 * _narrower(a, b) < gap < 0.07 and abs(a[3] - b[3]) < 0.13


def is_above(a: Box, b: Box) -> bool:
    """Boxes in picture widths: a ends where b begins or higher, and its middle is over b."""
    return a[3] < b[1] + 0.04 and b[0] - 0.03 < (a[0] + a[2]) / 2 < b[2] + 0.03


def _beside(a: Box, b: Box) -> bool:
    return min(a[3], b[3]) - max(a[1], b[1]) > 0.3 * min(a[3] - a[1], b[3] - b[1])


def _narrower(a: Box, b: Box) -> float:
    return min(a[2] - a[0], b[2] - b[0])
