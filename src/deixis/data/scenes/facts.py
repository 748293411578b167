"""Facts of a drawn scene, measured on the drawing: what is visible, with which boxes, and in which relations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from deixis import boxes as geometry
from deixis.data.scenes.draw import Drawing
from deixis.data.scenes.kinds import KINDS
from deixis.data.scenes.layout import Scene
from deixis.types import Box

NAMED = (0.35, 0.035)  # what a caption may name: visible share, and side in picture widths
BOXED = (0.1, 0.02)  # what has a box
PART_SIDE, NAMED_PART_SIDE = 0.012, 0.02  # parts that have a box, and parts that a caption may name
_CLOTHES = ("shirt", "jacket", "sweater", "dress", "pants", "shorts", "skirt", "hat", "cap", "shoes", "scarf")
_BODY = ("hair", "face", "head", "beard", "arms", "legs", "body", "tail", "ears", "mane", "horns", "wings", "beak")


class Referent(NamedTuple):
    """Something that a caption may name: a thing or a group of things."""

    id: str  # "dog1", or "group.dog"
    kind: str
    things: tuple[int, ...]
    unit: int
    nameable: bool  # enough of it is visible


class Relation(NamedTuple):
    """``subject`` is <name> ``object``; both are ids of referents."""

    name: str
    subject: str
    object: str


def label_and_type(key: str) -> tuple[str, str]:
    """Return the label of an entity, and its type as in Flickr30k Entities."""
    label = key.rpartition(".")[2].rstrip("0123456789")
    part_type = "clothing" if label in _CLOTHES else "bodyparts" if label in _BODY else "other"
    return label, "scene" if label == "scene" else KINDS[label].type if label in KINDS else part_type


def thing_ids(scene: Scene) -> list[str]:
    """Return an id for each thing: its kind, numbered."""
    kinds = [thing.look.kind for thing in scene.things]
    return [f"{kind}{kinds[: k + 1].count(kind)}" for k, kind in enumerate(kinds)]


def find_referents(scene: Scene, drawing: Drawing) -> list[Referent]:
    """Return all things and groups, unit by unit."""
    ids, out = thing_ids(scene), []
    for number, unit in enumerate(scene.units):
        members = tuple(scene.members(number))
        for things in [members] if unit.group else [(k,) for k in members]:
            # Captions count the members of a group, so all of them must be visible.
            nameable = all(_is_visible(drawing, k, NAMED) for k in things)
            key = f"group.{unit.group}" if unit.group else ids[things[0]]
            out.append(Referent(key, unit.group or scene.things[things[0]].look.kind, things, number, nameable))
    return out


def find_boxes(scene: Scene, drawing: Drawing, part_side: float = PART_SIDE) -> dict[str, list[Box]]:
    """Return the visible boxes of all things, groups and parts that are big enough; a part is "<thing>.<part>"."""
    ids, out = thing_ids(scene), dict[str, list[Box]]()
    for number, unit in enumerate(scene.units):
        for k in (k for k in scene.members(number) if _is_visible(drawing, k, BOXED)):
            if unit.group:
                out.setdefault(f"group.{unit.group}", []).append(drawing.boxes[k])
            out[ids[k]] = [drawing.boxes[k]]
            for part, boxes in drawing.parts[k].items():
                big = [box for box in boxes if _side(box) >= part_side * len(drawing.pixels)]
                out |= {f"{ids[k]}.{part}": big} if part and big else {}
    return out


def _is_visible(drawing: Drawing, thing: int, least: tuple[float, float]) -> bool:
    return drawing.visible[thing] >= least[0] and _side(drawing.boxes[thing]) >= least[1] * len(drawing.pixels)


def _side(box: Box) -> float:
    return min(box[2] - box[0], box[3] - box[1])


def find_built_in(scene: Scene, referents: Sequence[Referent]) -> list[Relation]:
    """Return the relations that units are made for, where both ends may be named."""
    pairs = [(a, b) for a in referents for b in referents if a.unit == b.unit and a.things < b.things]
    return [Relation(scene.units[a.unit].relation, a.id, b.id) for a, b in pairs if a.nameable and b.nameable]


def find_spatial(scene: Scene, drawing: Drawing, referents: Sequence[Referent]) -> list[Relation]:
    """Return left of, next to, in front of and above, between nameable referents of different units."""
    named, size = [referent for referent in referents if referent.nameable], len(drawing.pixels)
    boxes = {r.id: (geometry.union([drawing.boxes[k] for k in r.things]) / size).tolist() for r in named}
    out = []
    for a, b in ((a, b) for a in named for b in named if a.unit != b.unit):
        (ax1, ay1, ax2, ay2), (bx1, by1, bx2, by2) = boxes[a.id], boxes[b.id]
        sky = [scene.units[r.unit].zone == "sky" for r in (a, b)]
        middle, narrower = (ax1 + ax2) / 2, min(ax2 - ax1, bx2 - bx1)
        beside = min(ay2, by2) - max(ay1, by1) > 0.3 * min(ay2 - ay1, by2 - by1)
        front = is_in_front(drawing, a.things, b.things)
        apart = beside and not any(sky) and not front and not is_in_front(drawing, b.things, a.things)
        holds = {
            "front": front,
            "above": sky == [True, False] and not front and ay2 < by1 + 0.04 and bx1 - 0.03 < middle < bx2 + 0.03,
            "left": apart and middle + 0.08 < (bx1 + bx2) / 2 and ax2 - bx1 < 0.3 * narrower,
            "next": apart and -0.3 * narrower < max(ax1 - bx2, bx1 - ax2) < 0.07 and abs(ay2 - by2) < 0.13,
        }
        out += [Relation(name, a.id, b.id) for name, true in holds.items() if true]
    return out


def is_in_front(drawing: Drawing, front: Sequence[int], back: Sequence[int]) -> bool:
    """Whether the first things hide at least a twelfth of the others, and are not hidden by them."""
    hidden = sum(drawing.covers[a][b] for a in front for b in back)
    covered = any(drawing.covers[b][a] for a in front for b in back)
    return 12 * hidden >= sum(row[b] for row in drawing.covers for b in back) and not covered
