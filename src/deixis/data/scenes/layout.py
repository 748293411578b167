"""What happens in a scene: who is there, who holds, rides or sits on what, and where everything stands.

A scene is made of units. The things of a unit belong together (a man, his dog and the leash; a table and the cup on
it; three sheep) and are built around an origin of their own; then the unit as a whole finds its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from deixis.data.scenes.backdrop import Setting, choose_setting
from deixis.data.scenes.canvas import around, mix_paint
from deixis.data.scenes.dice import Dice
from deixis.data.scenes.kinds import HEIGHT, NOUN, PEOPLE, colours, make_person, make_thing
from deixis.data.scenes.people import hand, hip
from deixis.data.scenes.things import Thing
from deixis.types import Box


@dataclass(frozen=True)
class Fact:
    """Something that is so by construction: ``subject`` and ``object`` count the things of a unit."""

    relation: str  # hold, fly, lead, ride, kick, chase, sit, on or under
    subject: int
    object: int


@dataclass(frozen=True)
class Unit:
    """Things that belong together."""

    things: tuple[Thing, ...]  # the first one is what the unit is about
    facts: tuple[Fact, ...] = ()
    zone: str = "ground"  # ground, far, near, sky, sea or wall
    group: str = ""  # what its members are together: "dog", "people"
    members: tuple[int, ...] = ()  # the things that captions count as one group
    moves: str = ""  # how it moves if it moves: walk, run, ride, drive, sail, roll, fly or rise
    drift: tuple[float, float] = (0.0, 0.0)  # video: its way from the first to the last frame, in picture widths
    depth: float = 0.0  # its ground line, in picture widths from the top; higher is nearer


@dataclass(frozen=True)
class Scene:
    """Everything that is in a picture before it is painted."""

    setting: Setting
    units: tuple[Unit, ...]  # the first one is what the scene is about

    @property
    def things(self) -> tuple[Thing, ...]:
        """All things, unit by unit; drawings and captions count them in this order."""
        return tuple(thing for unit in self.units for thing in unit.things)

    def offsets(self) -> list[int]:
        """Index of the first thing of each unit."""
        return [sum(len(unit.things) for unit in self.units[:k]) for k in range(len(self.units))]


# What may be where --------------------------------------------------------------------------------------------------

_TWINS = ("car", "dog", "cat", "house", "bird", "bicycle", "chair", "balloon", "boat", "horse", "duck")
_SCENERY = {
    "park": ("tree", "bush", "bench", "rock", "lamp", "flower", "house", "bicycle", "pine"),
    "beach": ("palm", "boat", "umbrella", "rock", "bucket", "chair", "ball"),
    "street": ("car", "bus", "truck", "bicycle", "lamp", "sign", "tree", "bench", "bag", "box"),
    "snow": ("pine", "snowman", "house", "rock", "car"),
    "field": ("tree", "house", "rock", "bush", "truck", "flower", "bucket"),
    "room": ("table", "chair", "sofa", "plant", "lamp", "picture", "box", "bag"),
}
_FAUNA = {
    "park": ("dog", "cat", "duck", "bird", "horse"),
    "beach": ("dog", "bird", "duck"),
    "street": ("dog", "cat", "bird"),
    "snow": ("dog", "horse", "bird"),
    "field": ("cow", "sheep", "horse", "dog", "duck"),
    "room": ("dog", "cat"),
}
_MANY = {
    "park": ("flower", "tree"),
    "beach": ("ball", "boat"),
    "street": ("car",),
    "snow": ("pine",),
    "field": ("flower",),
    "room": ("ball", "box"),
}
_HELD = {
    "park": ("balloon", "umbrella", "ball", "kite", "book", "flag", "bag"),
    "beach": ("kite", "ball", "bucket", "flag", "umbrella"),
    "street": ("umbrella", "bag", "box", "balloon", "flag", "cup"),
    "snow": ("flag", "box", "bag", "umbrella"),
    "field": ("bucket", "flag", "kite", "flower", "umbrella"),
    "room": ("book", "cup", "box", "balloon", "plant", "ball"),
}
# How it is held; what is not here is carried before the chest.
_HOLDS = {
    "balloon": "lift", "kite": "lift", "umbrella": "hold", "flag": "hold", "flower": "hold", "bag": "hang",
    "bucket": "hang",
}  # fmt: skip
_ON = {
    "park": (("bird", "cat", "book", "bag"), ("bench", "rock", "table")),
    "beach": (("bird", "cup", "book"), ("rock", "chair")),
    "street": (("cat", "bird", "bag", "box"), ("car", "bench", "bus")),
    "snow": (("bird",), ("rock", "house")),
    "field": (("bird", "cat"), ("rock", "house", "truck")),
    "room": (("cup", "book", "cat", "plant", "ball", "box"), ("table", "chair")),
}
# Where things lie on it, in own units: how far to either side of the middle, and how high.
_TOPS = {
    "bench": (0.6, -0.5), "rock": (0.1, -0.9), "table": (0.5, -0.99), "chair": (0.06, -0.47), "car": (0.2, -0.97),
    "bus": (0.6, -0.99), "house": (0.16, -0.93), "truck": (-0.3, -0.99),
}  # fmt: skip
_UNDER = {
    "park": (("dog", "cat", "bag", "ball", "duck"), ("tree", "bench", "table")),
    "beach": (("dog", "bag", "bucket", "ball", "boy", "girl"), ("umbrella", "palm")),
    "street": (("dog", "bag", "cat"), ("tree", "bench")),
    "field": (("sheep", "dog", "bucket", "bag"), ("tree",)),
    "room": (("dog", "cat", "ball", "box", "bag"), ("table",)),
}
# How high a thing under it may be, and how far it may be to either side, in own units.
_CLEARANCE = {
    "tree": (0.4, 0.14), "palm": (0.5, 0.14), "umbrella": (0.56, 0.12), "table": (0.72, 0.3), "bench": (0.6, 0.5),
}  # fmt: skip
# Where one sits on it, in own units: how high, and how far to either side of the middle.
_SEATS = {"bench": (-0.46, 0.75), "sofa": (-0.5, 0.7), "chair": (-0.46, 0.0)}
_ZONES = {
    "house": "far", "tree": "far", "pine": "far", "palm": "far", "bush": "far", "lamp": "far", "sign": "far",
    "boat": "sea", "picture": "wall", "ball": "near", "flower": "near", "bucket": "near", "bag": "near",
}  # fmt: skip
_MOVES = {
    "car": "drive", "bus": "drive", "truck": "drive", "boat": "sail", "ball": "roll", "balloon": "rise", "kite": "rise",
}  # fmt: skip


class _Cast:
    """Who may still enter: each kind comes once, so that a caption never leaves open which of two is meant."""

    def __init__(self, dice: Dice, setting: Setting) -> None:
        self.dice = dice
        self.setting = setting
        self.used: set[str] = set()

    def free(self, kinds: Sequence[str]) -> list[str]:
        """The kinds that are not yet in the scene."""
        return [kind for kind in kinds if NOUN.get(kind, kind) not in self.used]

    def take(self, kinds: Sequence[str]) -> str | None:
        """One free kind, from now on in use; None if there is none."""
        free = self.free(kinds)
        if not free:
            return None
        kind = self.dice.pick(free)
        self.used.add(NOUN.get(kind, kind))
        return kind

    def thing(self, kinds: Sequence[str], **traits: str) -> Thing | None:
        """A thing or animal of a free kind."""
        kind = self.take(kinds)
        return None if kind is None else make_thing(self.dice, kind, self.setting, traits)

    def person(self, pose: str, kinds: Sequence[str] = PEOPLE) -> Thing | None:
        """A person of a free kind."""
        kind = self.take(kinds)
        return None if kind is None else make_person(self.dice, kind, self.setting, pose)


def _hang(thing: Thing, point: tuple[float, float]) -> Thing:
    """The thing with its string or leash held at a point of the picture."""
    return replace(thing, look=replace(thing.look, held=thing.inside(point)))


# Units --------------------------------------------------------------------------------------------------------------


def _posing(cast: _Cast) -> Unit | None:
    pose = cast.dice.pick(("stand", "walk", "run", "jump", "wave"))
    person = cast.person(pose)
    return None if person is None else Unit((person,), moves=pose if pose in ("walk", "run") else "")


def _holding(cast: _Cast) -> Unit | None:
    dice = cast.dice
    kind = cast.take(_HELD[cast.setting.name])
    if kind is None:
        return None
    pose = _HOLDS.get(kind, "carry")
    person = cast.person(pose)
    if person is None:
        return None
    if kind == "balloon" and dice.chance(0.4):
        return _balloons(cast, person)
    item = replace(make_thing(dice, kind, cast.setting, {"pose": "held"}), layer=1)
    x, y = palm = person.outside(hand(person.look))
    if kind == "kite":
        item = replace(item, x=x + dice.between(0.12, 0.22), y=y - dice.between(0.08, 0.16), flip=False)
        return Unit((person, _hang(item, palm)), (Fact("fly", 0, 1),))
    if pose == "carry":
        item = replace(item, height=item.height * {"box": 0.9, "plant": 0.7, "book": 1.2, "ball": 1.1}.get(kind, 1.0))
        item = replace(item, x=person.x, y=y + item.height * (0.35 if kind == "plant" else 0.5))
    elif pose == "hang":
        item = replace(item, x=x, y=y + 0.94 * item.height)
    else:
        item = replace(item, x=x, y=y + {"flag": 0.18, "flower": 0.2}.get(kind, 0.0) * item.height, flip=False)
    return Unit((person, item), (Fact("hold", 0, 1),))


def _balloons(cast: _Cast, person: Thing) -> Unit:
    """A person with two or three balloons, which are a group of their own."""
    x, y = palm = person.outside(hand(person.look))
    things = [person]
    for dx, dy in ((0.02, 0.03), (0.13, 0.0), (-0.06, 0.1))[: cast.dice.whole(2, 3)]:
        balloon = make_thing(cast.dice, "balloon", cast.setting, {"size": ""})
        things.append(_hang(replace(balloon, x=x + dx, y=y - dy, flip=False, layer=1), palm))
    return Unit(tuple(things), (Fact("hold", 0, 1),), group="balloon", members=tuple(range(1, len(things))))


def _leading(cast: _Cast) -> Unit | None:
    if cast.setting.name == "room":
        return None
    dog, person = cast.thing(("dog",), pose="walk"), cast.person("lead")
    if dog is None or person is None:
        return None
    collar = mix_paint(cast.dice, cast.dice.pick(("red", "blue", "green")))
    look = replace(dog.look, paints={"collar": collar, **dog.paints})
    x = 0.3 * person.height + 0.62 * dog.height + cast.dice.between(0.0, 0.05)
    dog = _hang(replace(dog, look=look, x=x, y=0.012, flip=False), person.outside(hand(person.look)))
    return Unit((person, dog), (Fact("lead", 0, 1),), moves="walk")


def _riding(cast: _Cast) -> Unit | None:
    if cast.setting.name not in ("park", "field", "street"):
        return None
    mount = cast.thing(("bicycle",) if cast.setting.name == "street" else ("horse", "bicycle"), pose="walk")
    if mount is None:
        return None
    person = cast.person("ride" if mount.kind == "horse" else "cycle", ("man", "woman"))
    if person is None:
        return None
    if mount.kind == "horse":
        saddle = mix_paint(cast.dice, cast.dice.pick(("red", "brown", "blue")))
        look = replace(mount.look, paints={**mount.paints, "saddle": saddle})
        mount = replace(mount, look=look, height=HEIGHT["horse"], flip=False, layer=-1)
        person = replace(person, height=0.84 * person.height)
        x, y = mount.outside((-0.02, -0.68))
    else:
        mount = replace(mount, height=1.12 * HEIGHT["bicycle"], flip=False, layer=-1)
        x, y = mount.outside((-0.19, -0.88))
    person = replace(person, x=x, y=y - person.height * hip(person.look)[1])
    return Unit((person, mount), (Fact("ride", 0, 1),), moves="ride")


def _playing(cast: _Cast) -> Unit | None:
    dice = cast.dice
    ball = cast.thing(("ball",))
    on_foot = dice.chance(0.6)
    player = cast.person("kick", ("man", "boy", "girl")) if on_foot else cast.thing(("dog",), pose="run")
    if player is None or ball is None:
        return None
    x = player.height * (0.3 if on_foot else 0.72) + 0.5 * ball.height + dice.between(0.0, 0.03)
    ball = replace(ball, x=x, y=player.height * (-0.05 if on_foot else 0.02))
    things = (replace(player, flip=False), ball)
    return Unit(things, (Fact("kick", 0, 1),)) if on_foot else Unit(things, (Fact("chase", 0, 1),), moves="run")


def _seated(cast: _Cast) -> Unit | None:
    places = {"room": ("sofa", "chair"), "beach": ("chair",), "park": ("bench",), "street": ("bench",)}
    seat = cast.thing(places.get(cast.setting.name, ()))
    if seat is None:
        return None
    sitter = cast.person("sit") if cast.dice.chance(0.65) else cast.thing(("cat", "dog"), pose="sit", size="")
    if sitter is None:
        return None
    height, room = _SEATS[seat.kind]
    x, y = seat.outside((cast.dice.between(-room, room), height))
    y += 0.27 * sitter.height if sitter.kind in PEOPLE else 0.015
    return Unit((replace(sitter, x=x, y=y), replace(seat, layer=-1)), (Fact("sit", 0, 1),))


def _on(cast: _Cast) -> Unit | None:
    """A small thing upon a bigger one."""
    items, bases = _ON[cast.setting.name]
    base, item = cast.thing(bases, size=""), cast.thing(items, pose="sit", size="")
    if base is None or item is None:
        return None
    room, top = _TOPS[base.kind]
    x, y = base.outside((cast.dice.between(-room, room), top))
    item = replace(item, x=x, y=y, layer=1)
    return Unit((item, base), (Fact("on", 0, 1),), zone="far" if base.kind == "house" else "ground")


def _under(cast: _Cast) -> Unit | None:
    """A small thing below a bigger one."""
    if cast.setting.name not in _UNDER:
        return None
    items, covers = _UNDER[cast.setting.name]
    cover, kind = cast.thing(covers), cast.take(items)
    if cover is None or kind is None:
        return None
    if kind in PEOPLE:
        item = make_person(cast.dice, kind, cast.setting, "stand")
    else:
        item = make_thing(cast.dice, kind, cast.setting, {"pose": "sit", "size": ""})
    clearance, room = _CLEARANCE[cover.kind]
    furniture = cover.kind in ("table", "bench")
    item = replace(item, height=min(item.height, clearance * cover.height), y=-0.015 if furniture else 0.02)
    aside = cast.dice.between(-room, room) if furniture else cast.dice.pick((-room, room))
    item = replace(item, x=aside * cover.height)
    return Unit((item, replace(cover, layer=1 if furniture else -1)), (Fact("under", 0, 1),))


def _single(cast: _Cast, kinds: Mapping[str, Sequence[str]]) -> Unit | None:
    thing = cast.thing(kinds[cast.setting.name])
    if thing is None:
        return None
    pose = thing.traits.get("pose", "")
    moves = pose if pose in ("walk", "run") else _MOVES.get(thing.kind, "")
    return Unit((thing,), zone=_ZONES.get(thing.kind, "ground"), moves=moves)


def _animal(cast: _Cast) -> Unit | None:
    return _single(cast, _FAUNA)


def _scenery(cast: _Cast) -> Unit | None:
    return _single(cast, _SCENERY)


def _airborne(cast: _Cast) -> Unit | None:
    """A bird, a lost balloon or a kite in the sky."""
    if cast.setting.name == "room":
        return None
    thing = cast.thing(("bird", "bird", "balloon", "kite"), pose="fly")
    if thing is None:
        return None
    flip = thing.flip and thing.kind == "bird"
    return Unit((replace(thing, flip=flip),), zone="sky", moves=_MOVES.get(thing.kind, "fly"))


def _flock(cast: _Cast) -> Unit | None:
    """Several of a kind."""
    dice = cast.dice
    if len(cast.free(PEOPLE)) == len(PEOPLE) and dice.chance(0.35):
        return _crowd(cast)
    kind = cast.take((*_FAUNA[cast.setting.name], *_MANY[cast.setting.name]))
    if kind is None:
        return None
    bulky = kind in ("horse", "cow", "car", "tree", "pine", "boat")
    count = dice.whole(2, 3) if bulky else dice.whole(2, 4)
    fly = kind == "bird" and dice.chance(0.6)
    first = make_thing(dice, kind, cast.setting, {"size": "", "pose": "fly"} if fly else {"size": ""})
    alike = dice.chance(0.5)
    shrink = {"tree": 0.66, "pine": 0.66}.get(kind, 0.85 if bulky else 0.95)
    things: list[Thing] = []
    edge = 0.0
    for k in range(count):
        thing = first if alike else make_thing(dice, kind, cast.setting, first.traits)
        look = replace(thing.look, phase=dice.between(0, 1))
        thing = Thing(look, HEIGHT[kind] * shrink * dice.between(0.92, 1.06), flip=first.flip)
        x = edge - thing.bounds[0]
        thing = replace(thing, x=x, y=dice.between(-0.1, 0.1) if fly else 0.05 * (k % 2))
        things.append(thing)
        edge = thing.bounds[2] + dice.between(-0.025, 0.03)
    pose = first.traits.get("pose", "")
    moves = pose if pose in ("walk", "run", "fly") else _MOVES.get(kind, "")
    zone = "sky" if fly else _ZONES.get(kind, "ground")
    return Unit(tuple(things), zone=zone, group=kind, members=tuple(range(count)), moves=moves)


def _crowd(cast: _Cast) -> Unit:
    dice = cast.dice
    cast.used.update(PEOPLE)
    count = dice.whole(2, 4)
    same = dice.pick(PEOPLE) if count < 4 and dice.chance(0.4) else ""
    pose = dice.pick(("stand", "walk", "stand", "run", "wave"))
    things = []
    x = 0.0
    for k in range(count):
        person = make_person(dice, same or dice.pick(PEOPLE), cast.setting, pose)
        things.append(replace(person, x=x, y=0.03 * (k % 2), height=0.88 * person.height))
        x += dice.between(0.15, 0.2)
    kinds = {person.kind for person in things}
    return Unit(
        tuple(things),
        group=kinds.pop() if len(kinds) == 1 else "people",
        members=tuple(range(count)),
        moves=pose if pose in ("walk", "run") else "",
    )


Builder = Callable[[_Cast], Unit | None]
_LEADS: tuple[tuple[float, Builder], ...] = (
    (1.2, _posing), (3.0, _holding), (1.4, _leading), (1.6, _riding), (1.2, _playing), (1.6, _seated),
    (1.0, _on), (1.0, _under), (1.2, _animal), (1.8, _flock),
)  # fmt: skip
_OTHERS: tuple[tuple[float, Builder], ...] = (
    (0.9, _posing), (0.8, _holding), (1.2, _animal), (4.0, _scenery), (0.8, _on), (0.8, _under), (0.8, _flock),
    (0.9, _airborne), (0.3, _seated),
)  # fmt: skip
_MOVERS: tuple[tuple[float, Builder], ...] = (
    (2.0, _posing), (1.6, _leading), (2.0, _riding), (1.0, _playing), (1.6, _animal), (1.6, _scenery), (1.6, _flock),
    (0.8, _airborne),
)  # fmt: skip


def _build(cast: _Cast, table: Sequence[tuple[float, Builder]], must_move: bool = False) -> Unit:
    """A unit of this table; builders that cannot work here are passed over."""
    while True:
        ticket = cast.dice.between(0, sum(weight for weight, _ in table))
        for weight, builder in table:
            ticket -= weight
            if ticket < 0:
                before = set(cast.used)
                unit = builder(cast)
                if unit is not None and (unit.moves or not must_move):
                    return unit
                cast.used = before
                break


def _add_twin(dice: Dice, units: list[Unit]) -> None:
    """Add a second thing of a kind in another colour; captions then tell the two apart by colour."""
    singles = [k for k, unit in enumerate(units) if len(unit.things) == 1 and unit.things[0].kind in _TWINS]
    if not singles:
        return
    unit = units[k := dice.pick(singles)]
    thing = unit.things[0]
    look = replace(thing.look, traits={**thing.traits, "twin": "yes"})
    units[k] = replace(unit, things=(replace(thing, look=look),))
    others = [name for name in colours(thing.kind) if name != thing.paints["main"].name]
    paints = {**thing.paints, "main": mix_paint(dice, dice.pick(others))}
    twin = replace(thing, look=replace(look, paints=paints, phase=dice.between(0, 1)), flip=dice.chance(0.5))
    units.append(replace(unit, things=(twin,)))


# Placing ------------------------------------------------------------------------------------------------------------


def _put(unit: Unit, x: float, y: float, scale: float, flip: bool) -> Unit:
    side = -scale if flip else scale
    things = tuple(
        replace(t, x=x + side * t.x, y=y + scale * t.y, height=t.height * scale, flip=t.flip != flip)
        for t in unit.things
    )
    return replace(unit, things=things, depth=y)


def _depth(dice: Dice, setting: Setting, zone: str) -> float:
    """The ground line of a unit, in picture widths from the top."""
    land = max(setting.horizon, setting.shore)
    low, high = {
        "ground": (land + 0.14, 0.95),
        "far": (land + 0.02, land + 0.14),
        "near": (max(land + 0.2, 0.78), 0.97),
        "sky": (0.16, setting.horizon - 0.04),
        "sea": (setting.horizon + 0.05, max(setting.shore, setting.horizon + 0.06)),
        "wall": (setting.horizon - 0.26, setting.horizon - 0.16),
    }[zone]
    return dice.between(low, high)


def _shared(a: Box, b: Box) -> float:
    """Overlap of two boxes as a share of the smaller one."""
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    return w * h / min((a[2] - a[0]) * (a[3] - a[1]), (b[2] - b[0]) * (b[3] - b[1]))


def _place(dice: Dice, setting: Setting, units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Give every unit its place; some overlap, and one that finds no place is left out."""
    placed: list[Unit] = []
    boxes: list[Box] = []
    for unit in units:
        x1, y1, x2, y2 = around(thing.bounds for thing in unit.things)
        least, most = (0.12, 0.45) if boxes and dice.chance(0.45) else (0.0, 0.05)
        best: tuple[float, Unit, Box] | None = None
        for _ in range(16):
            y = _depth(dice, setting, unit.zone)
            land = (y - setting.horizon) / (1 - setting.horizon)
            nearness = {"sky": 1.0, "wall": 1.0, "sea": 0.4}.get(unit.zone, land)
            # Things shrink towards the horizon, and never rise above the picture or spread beyond it.
            scale = min(0.72 + 0.3 * nearness, 0.96 / (x2 - x1), (y - 0.02) / -y1)
            flip = dice.chance(0.5)
            left, right = (-x2 * scale, -x1 * scale) if flip else (x1 * scale, x2 * scale)
            spill = 0.12 * (right - left) if dice.chance(0.12) else 0.0
            x = dice.between(0.01 - left - spill, 0.99 - right + spill)
            y = min(y, 1.0 - y2 * scale)
            box = (x + left, y + y1 * scale, x + right, y + y2 * scale)
            shares = [_shared(box, other) for other in boxes]
            worst = max(shares, default=0.0)
            miss = max(least - worst, worst - most, 0.0) + max(sum(shares) - 0.6, 0.0)
            if best is None or miss < best[0]:
                best = (miss, _put(unit, x, y, scale, flip), box)
            if miss == 0.0:
                break
        if best is not None and best[0] < 0.3:
            placed.append(best[1])
            boxes.append(best[2])
    return tuple(placed)


def make_layout(dice: Dice) -> Scene:
    """A still scene, ready to be painted."""
    setting = choose_setting(dice)
    cast = _Cast(dice, setting)
    units = [_build(cast, _LEADS)]
    units += [_build(cast, _OTHERS) for _ in range(dice.pick((1, 2, 2, 3, 3)))]
    if dice.chance(0.25):
        _add_twin(dice, units)
    return Scene(setting, _place(dice, setting, units))


# Moving -------------------------------------------------------------------------------------------------------------

# Way across the picture, in picture widths, and the length of one cycle of the gait in own units.
_PACE = {
    "walk": (0.35, 0.6, 0.55), "run": (0.6, 1.0, 0.9), "ride": (0.5, 0.9, 1.0), "drive": (0.6, 1.1, 1.0),
    "sail": (0.2, 0.4, 1.0), "roll": (0.4, 0.8, 3.1), "fly": (0.5, 1.0, 1.3), "rise": (0.0, 0.0, 1.0),
}  # fmt: skip


def make_moving_layout(dice: Dice) -> Scene:
    """A scene whose first unit moves, and perhaps others; see :func:`at_time`."""
    setting = choose_setting(dice)
    cast = _Cast(dice, setting)
    units = [_build(cast, _MOVERS, must_move=True)]
    units += [_build(cast, _OTHERS) for _ in range(dice.pick((1, 2, 2, 3)))]
    placed = _place(dice, setting, units)
    moving = [
        _set_going(dice, unit) if k == 0 or dice.chance(0.4) else _hold_still(unit) for k, unit in enumerate(placed)
    ]
    return Scene(setting, tuple(moving))


def _set_going(dice: Dice, unit: Unit) -> Unit:
    if not unit.moves:
        return unit
    low, high, _ = _PACE[unit.moves]
    way = dice.between(low, high)
    if unit.moves == "rise":
        return replace(unit, drift=(dice.between(-0.15, 0.15), -dice.between(0.25, 0.5)))
    return replace(unit, drift=(-way if unit.things[0].flip else way, 0.0))


def _hold_still(unit: Unit) -> Unit:
    """Whoever is not going anywhere does not walk on the spot (but a bird or a kite may stay in the air)."""
    if unit.moves not in ("walk", "run"):
        return replace(unit, moves="")
    things = tuple(
        replace(t, look=replace(t.look, traits={**t.traits, "pose": "stand"}))
        if t.traits.get("pose") in ("walk", "run")
        else t
        for t in unit.things
    )
    return replace(unit, things=things, moves="")


def at_time(scene: Scene, time: float) -> Scene:
    """The scene at a time 0..1; at 0.5 everything is where the layout put it."""
    units = []
    for unit in scene.units:
        if not unit.moves:
            units.append(unit)
            continue
        dx, dy = unit.drift[0] * (time - 0.5), unit.drift[1] * (time - 0.5)
        cycle = _PACE[unit.moves][2]
        things = []
        for thing in unit.things:
            steps = abs(unit.drift[0]) * time / (cycle * thing.height)
            look = replace(thing.look, phase=thing.look.phase + steps)
            things.append(replace(thing, look=look, x=thing.x + dx, y=thing.y + dy))
        units.append(replace(unit, things=tuple(things)))
    return Scene(scene.setting, tuple(units))
