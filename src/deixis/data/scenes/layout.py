"""Layout: what is in a scene, who holds, rides or sits on what, and where everything stands.

A scene is made of units. The things of a unit belong together (a man and his dog; a table and the book on it; three
sheep) and are arranged around an origin of their own; then the unit is placed as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from deixis import boxes as geometry
from deixis.data.scenes.colours import mix_paint
from deixis.data.scenes.figures import Frame, Look, extent, skeleton
from deixis.data.scenes.kinds import KINDS, PEOPLE, SETTINGS
from deixis.data.scenes.outlines import Pair
from deixis.data.scenes.rng import Rng
from deixis.types import Box

_SIZES = {"": 1.0, "big": 1.3, "small": 0.7}


@dataclass(frozen=True)
class Thing:
    """One thing: its look, and where its origin is in the picture."""

    look: Look
    height: float  # of one own unit, in picture widths
    x: float = 0.0
    y: float = 0.0
    flip: bool = False  # faces left
    layer: int = 0  # added to the layers of its shapes

    @property
    def frame(self) -> Frame:
        """Its origin, and picture widths per own unit along x and y."""
        return self.x, self.y, -self.height if self.flip else self.height, self.height

    @property
    def bounds(self) -> Box:
        """The box x1, y1, x2, y2 around its shapes in the picture, hidden or not."""
        x1, y1, x2, y2 = extent(self.look)
        (left, top), (right, bottom) = self.outside((x1, y1)), self.outside((x2, y2))
        return min(left, right), top, max(left, right), bottom

    def outside(self, own: Pair) -> Pair:
        """Return a point in own units as a point of the picture."""
        x, y, across, down = self.frame
        return x + own[0] * across, y + own[1] * down

    def put(self, point: Pair, own: Pair) -> Thing:
        """Return the thing moved so that its own point is at a point of the picture."""
        x, y = self.outside(own)
        return replace(self, x=self.x + point[0] - x, y=self.y + point[1] - y)


@dataclass(frozen=True)
class Unit:
    """Things that belong together."""

    things: tuple[Thing, ...]  # the first one is what the unit is about
    relation: str = ""  # of the first thing to the second: hold, lead, ride, kick, sit, on or under
    zone: str = "ground"  # ground, far, sky or sea
    group: str = ""  # what its things are together: "dog", "people"
    moves: str = ""  # how it can move: walk, run, ride, drive, sail, roll, fly or rise
    drift: Pair = (0.0, 0.0)  # video: its way from the first to the last frame, in picture widths
    depth: float = 0.0  # its ground line, in picture widths from the top


@dataclass(frozen=True)
class Scene:
    """Everything that is in a picture before it is painted."""

    setting: str
    horizon: float  # in picture widths
    shore: float  # where dry ground begins: at the horizon, or where the sea ends
    units: tuple[Unit, ...] = ()  # the first one is what the scene is about

    @property
    def things(self) -> tuple[Thing, ...]:
        """All things, unit by unit; drawings and captions count them in this order."""
        return tuple(thing for unit in self.units for thing in unit.things)

    def members(self, unit: int) -> range:
        """Return the indices of the things of a unit."""
        first = sum(len(other.things) for other in self.units[:unit])
        return range(first, first + len(self.units[unit].things))


class _NoKindLeft(Exception):
    """None of the wanted kinds may enter the scene."""


@dataclass
class _Cast:
    """Maker of the things of a scene. Each kind comes once, so that a noun has one meaning."""

    rng: Rng
    place: str
    used: set[str] = field(default_factory=set)

    def add(self, kinds: str, **traits: str) -> Thing:
        """Return a thing of a kind that is not in the scene yet; ``kinds`` may be the name of a list of the setting."""
        place = SETTINGS[self.place]
        here = f"{place.scenery}, {place.animals}, {place.items}, {place.airborne}, {place.people}".split(", ")
        allowed = {*here} - {"", *self.used}
        free = [kind for kind in getattr(place, kinds, kinds).split(", ") if kind in allowed]
        if not free:
            raise _NoKindLeft
        kind = self.rng.pick(free)
        self.used.add(kind)
        return self.make(kind, **traits)

    def make(self, kind: str, **traits: str) -> Thing:
        """Return a thing with random colours and traits; some traits may be given. It faces right."""
        rng, spec = self.rng, KINDS[kind]
        colours = {"main": spec.colours, **spec.paints} if spec.colours else spec.paints
        paints = {slot: mix_paint(rng, slot, rng.word(names)) for slot, names in colours.items()}
        if spec.patterns and rng.chance(0.3):
            slot = "top" if kind in PEOPLE else "main"
            paints[slot] = paints[slot]._replace(pattern=rng.word(spec.patterns))
        chosen = {name: rng.word(values) for name, values in spec.traits.items()}
        known = {"place": self.place, "pose": "stand", "size": "", **chosen, **traits}
        poses = spec.traits.get("pose", "stand")  # a pose that its kind does not have is not taken over
        known["pose"] = known["pose"] if kind in PEOPLE or known["pose"] in poses.split(", ") else rng.word(poses)
        height = spec.height * rng.uniform(0.94, 1.06) * _SIZES[known["size"]]
        return Thing(Look(kind, paints, known, rng.uniform(0, 1)), height)


# Subject and its pose (if empty, that of the user of the object), object, how they move
_PAIRS = {
    "hold": ("people", "", "items", ""),
    "lead": ("people", "lead", "dog", "walk"),
    "kick": ("people", "kick", "ball", ""),
    "ride": ("man, woman", "", "horse, bicycle", "ride"),
    "sit": ("man, woman, boy, girl, cat", "sit", "bench, chair, sofa", ""),
    "on": ("bird, cat, book, box, bag, ball", "stand", "rock, bench, table, chair, car, house", ""),
    "under": ("dog, cat, sheep, ball, bag", "stand", "tree, bench, table, umbrella", ""),
}
_SINGLES = {"people": "stand, walk, run, wave", "animals": "", "scenery": "", "airborne": "fly"}  # and their poses
_MAIN = "people, hold, hold, hold, lead, kick, ride, ride, sit, on, under, animals, group, group"
_OTHERS = "people, hold, animals, scenery, scenery, scenery, scenery, on, under, group, airborne, sit, twins"


def _pair(cast: _Cast, relation: str) -> Unit:
    """Two things in a relation: one stands on the ground, and the other is put at a point of it."""
    kinds, pose, others, moves = _PAIRS[relation]
    target = cast.add(others, size="", pose="walk")
    spec, layer, zone = KINDS[target.look.kind], -1, "ground"
    subject = cast.add(kinds, size="", pose=pose or spec.use)
    joints = skeleton(subject.look)
    if relation == "hold":
        target, layer = target.put(subject.outside(joints["grip"][:2]), (0.0, spec.grip / 100)), 1
    elif relation in ("lead", "kick"):
        target = target.put(subject.outside((0.3, 0.0)), (-0.6, 0.0))
    elif relation == "under":
        low, high, clearance = spec.cover
        x, layer = cast.rng.pick((-1, 1)) * cast.rng.uniform(low, high) / 100, 1 if low == 0 else -1
        subject = replace(subject, height=min(subject.height, clearance / 100 * target.height))
        subject = subject.put(target.outside((x, -0.05 if low == 0 else 0.03)), (0.0, 0.0))
    else:
        (x1, x2, y), zone = spec.top, spec.zone
        seat = target.outside((cast.rng.uniform(x1, x2) / 100, y / 100))
        subject = subject.put(seat, joints["hip"][:2] if joints else (0.0, 0.0))
    return Unit((subject, replace(target, layer=layer)), relation, zone, moves=moves)


def _row(things: Sequence[Thing], group: str = "") -> Unit:
    spec, pose = KINDS[things[0].look.kind], things[0].look.traits["pose"]
    moves = spec.moves or (pose if pose in ("walk", "run", "fly") else "")
    return Unit(tuple(things), zone="sky" if pose == "fly" else spec.zone, group=group, moves=moves)


def _group(cast: _Cast) -> Unit:
    """Several of a kind, or several people, in a row."""
    rng = cast.rng
    if not cast.used & {*PEOPLE} and rng.chance(0.3):
        kinds = rng.some(PEOPLE, rng.pick((2, 3, 4))) if rng.chance(0.6) else [rng.pick(PEOPLE)] * 2
        pose = rng.word(_SINGLES["people"])
    else:
        look = cast.add(rng.word("animals, groups")).look
        kinds = [look.kind] * rng.pick((2, 3) if KINDS[look.kind].height > 0.23 else (2, 3, 4))
        pose = look.traits["pose"]
    cast.used |= {*kinds}
    things: list[Thing] = []
    alike, edge = rng.chance(0.5) and kinds[0] not in PEOPLE, 0.0
    for k, kind in enumerate(kinds):
        thing = cast.make(kind, pose=pose, size="")
        look = replace(things[0].look, phase=rng.uniform(0, 1)) if alike and things else thing.look
        y, height = rng.uniform(-0.1, 0.1) if pose == "fly" else 0.04 * (k % 2), 0.88 * min(thing.height, 0.56)
        thing = Thing(look, height, y=y)
        things.append(replace(thing, x=edge - thing.bounds[0]))
        edge = things[-1].bounds[2] + rng.uniform(-0.025, 0.03)
    return _row(things, group=kinds[0] if len({*kinds}) == 1 else "people")


def _twins(cast: _Cast) -> list[Unit]:
    """Two things of a kind in different colours; captions name them with their colours."""
    first = cast.add("car, dog, cat, house, bird, bicycle, chair, boat, horse", twin="yes")
    second = cast.make(first.look.kind, twin="yes")
    same = first.look.paints["main"].name == second.look.paints["main"].name
    return [_row([thing]) for thing in ((first,) if same else (first, second))]


def _build(cast: _Cast, names: str, moving: bool = False) -> list[Unit]:
    """Return the units of one of these names; with ``moving``, one that can move."""
    while True:
        before, name = set(cast.used), cast.rng.word(names)
        try:
            if name in _SINGLES:
                units = [_row([cast.add(name, pose=cast.rng.word(_SINGLES[name]))])]
            elif name in _PAIRS:
                units = [_pair(cast, name)]
            else:
                units = _twins(cast) if name == "twins" else [_group(cast)]
            if units[0].moves or not moving:
                return units
        except _NoKindLeft:
            pass
        cast.used = before


def _put(rng: Rng, scene: Scene, unit: Unit) -> Unit:
    """Return the unit at a random place of its zone."""
    low, high = {
        "ground": (scene.shore + 0.14, 0.96),
        "far": (scene.shore + 0.02, scene.shore + 0.14),
        "sky": (0.2, scene.horizon - 0.04),
        "sea": (scene.horizon + 0.05, scene.shore + 0.01),
    }[unit.zone]
    x1, y1, x2, y2 = geometry.union([thing.bounds for thing in unit.things]).tolist()
    y = rng.uniform(low, high)
    nearness = 1.0 if unit.zone == "sky" else (y - scene.horizon) / (1 - scene.horizon)
    # Things shrink towards the horizon, and never rise above the picture or spread beyond it.
    scale = min(0.72 + 0.3 * nearness, 0.96 / (x2 - x1), (y - 0.02) / -y1)
    side = -scale if rng.chance(0.5) else scale
    left, right = sorted((x1 * side, x2 * side))
    spill = 0.12 * (right - left) if rng.chance(0.12) else 0.0
    x, y = rng.uniform(0.01 - left - spill, 0.99 - right + spill), min(y, 1.0 - y2 * scale)
    places = [(x + side * thing.x, y + scale * thing.y, thing.height * scale) for thing in unit.things]
    moved = [Thing(t.look, h, tx, ty, side < 0, t.layer) for t, (tx, ty, h) in zip(unit.things, places, strict=True)]
    return replace(unit, things=tuple(moved), depth=y)


def _place(rng: Rng, scene: Scene, units: Sequence[Unit]) -> Scene:
    """Give every unit its place; some overlap, and a unit without a good place is left out."""
    placed: list[tuple[Unit, Box]] = []
    for unit in units:
        least, most = (0.12, 0.45) if placed and rng.chance(0.45) else (0.0, 0.05)
        tries: list[tuple[float, Unit, Box]] = []
        while len(tries) < 16 and all(miss for miss, _, _ in tries):
            candidate = _put(rng, scene, unit)
            box = geometry.as_box(geometry.union([thing.bounds for thing in candidate.things]))
            others = [other for _, other in placed]
            smaller = geometry.area(others).clip(max=geometry.area(box))
            shares = (geometry.intersection([box], others)[0] / smaller).tolist()
            worst = max(shares, default=0.0)
            tries.append((max(least - worst, worst - most, 0.0) + max(sum(shares) - 0.6, 0.0), candidate, box))
        miss, candidate, box = min(tries, key=lambda entry: entry[0])
        placed += [(candidate, box)] if miss < 0.3 else []
    return replace(scene, units=tuple(unit for unit, _ in placed))


def make_layout(rng: Rng, moving: bool = False) -> Scene:
    """Return a scene that is ready to be painted; with ``moving``, its first unit can move."""
    name = rng.pick(tuple(SETTINGS))
    horizon = rng.uniform(0.55, 0.62) if name == "room" else rng.uniform(0.46, 0.56)
    shore = horizon + (rng.uniform(0.12, 0.17) if name == "beach" else 0.0)
    cast = _Cast(rng, name)
    units = _build(cast, _MAIN, moving)
    for _ in range(rng.pick((1, 2, 2, 3, 3))):
        units += _build(cast, _OTHERS)
    scene = _place(rng, Scene(name, horizon, shore), units)
    return replace(scene, units=tuple(_with_drift(rng, unit) for unit in scene.units)) if moving else scene


def _with_drift(rng: Rng, unit: Unit) -> Unit:
    way = rng.uniform(0.25, 0.5) if unit.moves in ("rise", "sail") else rng.uniform(0.4, 0.9) if unit.moves else 0.0
    side = -way if unit.things[0].flip else way
    return replace(unit, drift=(0.0, -way) if unit.moves == "rise" else (side, 0.0))
