"""What can be said truly about a drawn scene: who is to be seen, with which boxes, and how they stand to each other.

Everything here is measured on the drawing. A relation is kept only if the visible boxes bear it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deixis.data.scenes.canvas import around
from deixis.data.scenes.drawing import Drawing, plain
from deixis.data.scenes.kinds import ANIMALS, NOUN, PEOPLE, VEHICLES
from deixis.data.scenes.layout import Scene
from deixis.data.scenes.things import Thing
from deixis.types import Box

SCENE = "scene"
"""Id of the entity that is the place itself."""

_VISIBLE_SHARE, _VISIBLE_SIDE = 0.35, 0.035  # what a caption may name: share of the thing, and side in picture widths
_BOX_SHARE, _BOX_SIDE = 0.1, 0.02  # what gets a box at all
_PART_SIDE = 0.012
_CLOTHES = (
    "shirt", "jacket", "sweater", "coat", "dress", "pants", "jeans", "shorts", "skirt", "hat", "cap", "shoes", "scarf",
)  # fmt: skip
_BODY = ("hair", "face", "head", "beard", "arms", "legs", "body", "tail", "ears", "mane", "horns", "wings", "beak")
_HEAD = ("face", "hair", "beard")  # what the head of a person is made of


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
    """Everything that captions may name if it is to be seen, unit by unit."""
    ids = thing_ids(scene.things)
    shown = [_seen(drawing, thing, _VISIBLE_SHARE, _VISIBLE_SIDE) for thing in range(len(ids))]
    out: list[Referent] = []
    for number, (first, unit) in enumerate(zip(scene.offsets(), scene.units, strict=True)):
        members = tuple(first + k for k in unit.members)
        for k in range(first, first + len(unit.things)):
            leads = k == first
            if k not in members:
                kind = scene.things[k].kind
                out.append(Referent(ids[k], kind, (k,), number, unit.zone, False, leads, shown[k]))
            elif k == members[0]:
                # With a member half hidden, the number in a caption would be a matter of taste.
                nameable = all(shown[member] for member in members)
                name = f"group.{unit.group}"
                out.append(Referent(name, unit.group, members, number, unit.zone, True, leads, nameable))
    return out


def _seen(drawing: Drawing, thing: int, share: float, side: float) -> bool:
    box = drawing.boxes[thing]
    if box is None or drawing.visible[thing] < share:
        return False
    return min(box[2] - box[0], box[3] - box[1]) >= side * drawing.size


def places(scene: Scene, drawing: Drawing, everyone: Sequence[Referent]) -> list[Place]:
    """Boxes of all visible things, groups and parts. A part's id is the thing's id, a point and the part's name."""
    ids = thing_ids(scene.things)
    parts = _parts(scene, drawing)
    out: list[Place] = []
    for referent in everyone:
        found = [(k, drawing.boxes[k]) for k in referent.things if _seen(drawing, k, _BOX_SHARE, _BOX_SIDE)]
        shown = [(k, box) for k, box in found if box is not None]
        if referent.plural and shown:
            boxes = tuple(box for _, box in shown)
            out.append(Place(referent.id, NOUN.get(referent.kind, referent.kind), (kind_type(referent.kind),), boxes))
        for k, box in shown:
            kind = scene.things[k].kind
            out.append(Place(ids[k], NOUN.get(kind, kind), (kind_type(kind),), (box,)))
            out += [Place(f"{ids[k]}.{part}", part, (part_type(part),), tuple(b)) for part, b in parts[k].items()]
    return out


def _parts(scene: Scene, drawing: Drawing) -> list[dict[str, list[Box]]]:
    """The boxes of each thing's parts, one per instance."""
    found: list[dict[str, list[Box]]] = [{} for _ in scene.things]
    for (owner, key), box in zip(drawing.keys, drawing.key_boxes, strict=True):
        part = plain(key)
        if part and box is not None and min(box[2] - box[0], box[3] - box[1]) >= _PART_SIDE * drawing.size:
            found[owner].setdefault(part, []).append(box)
    for thing, parts in zip(scene.things, found, strict=True):
        head = [box for piece in _HEAD for box in parts.get(piece, ())]
        if thing.kind in PEOPLE and head:
            parts["head"] = [around(head)]
    return found


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


def spatial(drawing: Drawing, everyone: Sequence[Referent]) -> list[Relation]:
    """Left of, next to, in front of and above, between nameable referents of different units.

    The converse (right of, behind, below) is left to the wording.
    """
    out = []
    for a in everyone:
        for b in everyone:
            if a.unit == b.unit or not (a.nameable and b.nameable):
                continue
            box_a, box_b = _box(drawing, a), _box(drawing, b)
            zones = a.zone, b.zone
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


def _box(drawing: Drawing, referent: Referent) -> Box:
    """Around all of a referent, in picture widths."""
    x1, y1, x2, y2 = around([box for thing in referent.things if (box := drawing.boxes[thing]) is not None])
    return x1 / drawing.size, y1 / drawing.size, x2 / drawing.size, y2 / drawing.size


def in_front(drawing: Drawing, front: Sequence[int], back: Sequence[int]) -> bool:
    """Whether the first things hide at least a twelfth of the others, and are not hidden by them."""
    hidden = sum(drawing.hides.get((a, b), 0) for a in front for b in back)
    covered = any(drawing.hides.get((b, a), 0) for a in front for b in back)
    return hidden * 12 >= sum(drawing.areas[b] for b in back) and not covered


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
