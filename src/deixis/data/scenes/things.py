"""How each kind of thing looks: its parts as shapes, in units of its own height, feet at the origin, facing right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deixis.data.scenes.canvas import (
    PALETTE,
    Paint,
    Pair,
    Points,
    Rgb,
    Shape,
    arc,
    bent,
    blend,
    blob,
    cloud,
    curve,
    ellipse,
    limb,
    polygon,
    rectangle,
    ribbon,
    stripes,
    tint,
)

_DARK: Rgb = (62, 58, 66)
_STEEL: Rgb = (168, 174, 184)
_WOOD: Rgb = (176, 124, 80)
_GLASS: Rgb = (190, 222, 236)
_BEAK: Rgb = (240, 165, 50)
_ROSE: Rgb = (240, 160, 150)
_LEAF: Rgb = (104, 164, 92)


LOOSE = ("leash", "string")
"""Parts that lead away from a thing: they are drawn with it, but its box does not hold them."""


@dataclass(frozen=True, eq=False)
class Look:
    """What a thing is and how it is painted, wherever it stands."""

    kind: str
    paints: Mapping[str, Paint]  # "main" is the colour a caption names
    traits: Mapping[str, str]  # "pose", "hair", "top", "size", ...
    phase: float = 0.0  # of its gait; whole numbers are the same
    held: Pair | None = None  # where the string or leash it hangs on ends, in own units

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """Its shapes, in the order of painting."""
        return tuple(_DRAW[self.kind](self))

    @cached_property
    def extent(self) -> tuple[float, float, float, float]:
        """The box x1, y1, x2, y2 around its shapes."""
        points = np.concatenate([shape.points for shape in self.shapes])
        (x1, y1), (x2, y2) = points.min(0).tolist(), points.max(0).tolist()
        return x1, y1, x2, y2


@dataclass(frozen=True)
class Thing:
    """One thing of a scene: its look, and where its origin stands in the picture."""

    look: Look
    height: float  # of one own unit, in picture widths
    x: float = 0.0
    y: float = 0.0
    flip: bool = False  # faces left
    layer: int = 0  # added to the layers of its shapes

    @property
    def kind(self) -> str:
        """What it is."""
        return self.look.kind

    @property
    def traits(self) -> Mapping[str, str]:
        """Pose, clothes and the like."""
        return self.look.traits

    @property
    def paints(self) -> Mapping[str, Paint]:
        """Its colours."""
        return self.look.paints

    @property
    def scale(self) -> Pair:
        """Picture widths per own unit along x and y."""
        return (-self.height if self.flip else self.height), self.height

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """The box x1, y1, x2, y2 around its shapes in the picture, hidden or not."""
        x1, y1, x2, y2 = self.look.extent
        if self.flip:
            x1, x2 = -x2, -x1
        h = self.height
        return self.x + h * x1, self.y + h * y1, self.x + h * x2, self.y + h * y2

    def outside(self, own: Pair) -> Pair:
        """A point in own units as a point of the picture."""
        return self.x + own[0] * self.scale[0], self.y + own[1] * self.scale[1]

    def inside(self, point: Pair) -> Pair:
        """The inverse of :meth:`outside`."""
        return (point[0] - self.x) / self.scale[0], (point[1] - self.y) / self.scale[1]


def _rgb(thing: Look, slot: str = "main") -> Rgb:
    return thing.paints[slot].rgb


def _solid(points: Points, rgb: Rgb, part: str, depth: float = 0.035, layer: int = 0, line: float = 1.0) -> Shape:
    """A shape lit from the upper left: a crescent at its lower right is darker."""
    lit = points - np.array([depth, depth])
    return Shape(points, tint(rgb, -0.14), part, line, ((lit, rgb),), layer=layer)


def _clothe(points: Points, paint: Paint, part: str, bands: int, layer: int = 0) -> Shape:
    """A piece of cloth: plain and shaded, or striped."""
    if paint.pattern != "striped":
        return _solid(points, paint.rgb, part, 0.02, layer)
    (x1, y1), (x2, y2) = points.min(0), points.max(0)
    bars = tuple((bar, paint.accent) for bar in stripes(float(x1), float(y1), float(x2), float(y2), bands))
    return Shape(points, paint.rgb, part, overlay=bars, layer=layer)


def _coat(points: Points, paint: Paint, part: str) -> Shape:
    """An animal's body: plain and shaded, or spotted."""
    if paint.pattern != "spotted":
        return _solid(points, paint.rgb, part, 0.04)
    low, high = points.min(0), points.max(0)
    size = high - low
    dark = tint(paint.rgb, -0.62) if paint.name != "black" else PALETTE["white"]
    places = ((0.18, 0.3, 0.13), (0.45, 0.18, 0.1), (0.4, 0.68, 0.12), (0.72, 0.42, 0.14), (0.9, 0.8, 0.08))
    x1, y1, wide, tall = float(low[0]), float(low[1]), float(size[0]), float(size[1])
    dots = tuple((ellipse(x1 + wide * x, y1 + tall * y, r * wide, r * wide * 0.8), dark) for x, y, r in places)
    return Shape(points, paint.rgb, part, overlay=dots)


def _eye(x: float, y: float, r: float, part: str, layer: int = 0) -> Shape:
    return Shape(ellipse(x, y, r, corners=12), (44, 38, 42), part, 0, layer=layer)


def _bend(root: Pair, target: Pair, length: float, wish: Pair) -> tuple[Pair, Pair]:
    """The joint between two bones of equal length, on the wished side, and where the second bone ends."""
    dx, dy = target[0] - root[0], target[1] - root[1]
    distance = max(math.sqrt(dx * dx + dy * dy), 1e-6)
    reach = min(distance, 1.99 * length)
    end = (root[0] + dx * reach / distance, root[1] + dy * reach / distance)
    out = math.sqrt(length * length - reach * reach / 4)
    across = (-dy / distance, dx / distance)
    if across[0] * wish[0] + across[1] * wish[1] < 0:
        out = -out
    return ((root[0] + end[0]) / 2 + across[0] * out, (root[1] + end[1]) / 2 + across[1] * out), end


def _swing(phase: float) -> tuple[float, float]:
    """Cosine and sine of a phase 0..1, from points that are the same on every machine."""
    x, y = arc(0, 0, 1, 1, phase * 360, phase * 360, corners=1)[0]
    return float(x), float(y)


# People -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Build:
    head: Pair  # centre height, radius
    shoulder: Pair  # height, half width
    hip: Pair
    bone: float  # half an arm
    limb: float  # radius of an arm


_ADULT = _Build((0.872, 0.098), (0.738, 0.118), (0.43, 0.082), 0.162, 0.036)
_LADY = _Build((0.872, 0.098), (0.735, 0.1), (0.43, 0.084), 0.158, 0.031)
_CHILD = _Build((0.815, 0.145), (0.635, 0.12), (0.345, 0.1), 0.132, 0.042)
_BUILDS = {"man": _ADULT, "woman": _LADY, "boy": _CHILD, "girl": _CHILD}


def hand(person: Look) -> Pair:
    """Where a person's leading hand is, in the person's own units."""
    return _limbs(person)["near hand"]


def hip(person: Look) -> Pair:
    """Where a person sits, in the person's own units."""
    return _limbs(person)["hip"]


def _limbs(t: Look) -> dict[str, Pair]:
    """Every joint of a person in this pose."""
    b = _BUILDS[t.kind]
    pose = t.traits.get("pose", "stand")
    wide, high, hips = b.shoulder[1], -b.shoulder[0], -b.hip[0]
    lift = 0.0
    # Where hands and feet are (near, far), and which way elbows and knees point.
    hands: tuple[Pair, Pair] = ((wide + 0.05, hips + 0.0), (-wide - 0.05, hips + 0.0))
    feet: tuple[Pair, Pair] = ((0.065, 0.0), (-0.065, 0.0))
    elbows: tuple[Pair, Pair] = ((1.0, 0.4), (-1.0, 0.4))
    knees: tuple[Pair, Pair] = ((1.0, 0.0), (1.0, 0.0))
    c, s = _swing(t.phase)
    if pose in ("walk", "lead"):
        feet = ((0.13 * c, -0.07 * max(-s, 0)), (-0.13 * c, -0.07 * max(s, 0)))
        hands = ((wide * 0.9 - 0.1 * c, hips - 0.04), (-wide * 0.9 + 0.1 * c, hips - 0.04))
        if pose == "lead":
            hands = ((wide + 0.13, hips - 0.1), hands[1])
    elif pose == "run":
        lift = 0.05
        feet = ((0.22 * c, -0.05 - 0.16 * max(-s, 0)), (-0.22 * c, -0.05 - 0.16 * max(s, 0)))
        hands = ((0.04 - 0.17 * c, high + 0.2 - 0.06 * s), (0.04 + 0.17 * c, high + 0.2 + 0.06 * s))
        elbows = ((1.0, 0.8), (-1.0, 0.8))
    elif pose == "jump":
        lift = 0.16
        feet = ((0.13, -lift - 0.05), (-0.13, -lift - 0.05))
        hands = ((wide + 0.14, high - 0.2), (-wide - 0.14, high - 0.2))
        knees = ((1.0, 0.0), (-1.0, 0.0))
    elif pose == "wave":
        hands = ((wide + 0.13 + 0.05 * c, high - 0.2), hands[1])
    elif pose == "hold":
        hands = ((wide + 0.12, high + 0.15), hands[1])
        elbows = ((0.3, 1.0), elbows[1])
    elif pose == "lift":
        hands = ((wide + 0.13, high - 0.03), hands[1])
        elbows = ((0.3, 1.0), elbows[1])
    elif pose == "hang":
        hands = ((wide + 0.09, hips + 0.0), hands[1])
    elif pose == "carry":
        hands = ((0.085, high + 0.21), (-0.085, high + 0.21))
    elif pose == "kick":
        feet = ((0.23, -0.1), (-0.04, 0.0))
        hands = ((wide + 0.1, high + 0.2), (-wide - 0.12, high + 0.16))
        elbows = ((0.3, 1.0), (-0.3, 1.0))
    elif pose == "sit":
        lift = hips + 0.27
        feet = ((0.085, 0.0), (-0.085, 0.0))
        hands = ((wide - 0.03, -0.3), (-wide + 0.03, -0.3))
    elif pose == "ride":
        feet = ((0.09, hips + 0.33), (0.05, hips + 0.3))
        hands = ((wide + 0.12, high + 0.16), (wide + 0.1, high + 0.15))
        elbows = ((-0.3, 1.0), (-0.3, 1.0))
    elif pose == "cycle":
        feet = ((0.1 + 0.06 * c, -0.06 + 0.06 * s), (0.1 - 0.06 * c, -0.06 - 0.06 * s))
        hands = ((0.31, hips - 0.1), (0.29, hips - 0.1))
        elbows = ((-0.3, 1.0), (-0.3, 1.0))
    joints: dict[str, Pair] = {"hip": (0.0, hips - lift), "neck": (0.0, high - lift)}
    for n, (side, sign) in enumerate((("near", 1), ("far", -1))):
        shoulder, target = (sign * (wide - 0.025), high + 0.035 - lift), (hands[n][0], hands[n][1] - lift)
        joints[f"{side} shoulder"] = shoulder
        joints[f"{side} elbow"], joints[f"{side} hand"] = _bend(shoulder, target, b.bone, elbows[n])
        root = (sign * (b.hip[1] - 0.042), hips - lift)
        joints[f"{side} hip"] = root
        if pose == "sit":  # seen from the front: the thighs point at us
            joints[f"{side} knee"], joints[f"{side} foot"] = (sign * 0.085, root[1] + 0.05), feet[n]
        else:
            joints[f"{side} knee"], joints[f"{side} foot"] = _bend(root, feet[n], (b.hip[0] - 0.02) / 2, knees[n])
    return joints


def _person(t: Look) -> list[Shape]:
    b, j = _BUILDS[t.kind], _limbs(t)
    return [*_arm(t, b, j, "far"), *_legs(t, b, j), *_torso(t, b, j), *_head(t, b, j), *_arm(t, b, j, "near")]


def _arm(t: Look, b: _Build, j: dict[str, Pair], side: str) -> list[Shape]:
    top, skin = t.paints["top"], _rgb(t, "skin")
    layer = 2 if side == "near" or t.traits.get("pose") == "carry" else 0
    shoulder, elbow, wrist = j[f"{side} shoulder"], j[f"{side} elbow"], j[f"{side} hand"]
    key = "arms/0" if side == "near" else "arms/1"
    palm = Shape(ellipse(*wrist, b.limb * 1.05, corners=16), skin, key, layer=layer)
    if t.traits["top"] in ("jacket", "sweater", "coat"):
        cuff = (wrist[0] + (elbow[0] - wrist[0]) * 0.15, wrist[1] + (elbow[1] - wrist[1]) * 0.15)
        sleeve = bent(shoulder, elbow, cuff, b.limb * 1.15, b.limb * 0.95)
        return [palm, _clothe(sleeve, top, t.traits["top"], 4, layer)]
    end = (shoulder[0] + (elbow[0] - shoulder[0]) * 0.72, shoulder[1] + (elbow[1] - shoulder[1]) * 0.72)
    bare = Shape(bent(shoulder, elbow, wrist, b.limb, b.limb * 0.8), skin, key, layer=layer)
    return [bare, palm, _clothe(limb(shoulder, end, b.limb * 1.18, b.limb * 1.15), top, t.traits["top"], 2, layer)]


def _legs(t: Look, b: _Build, j: dict[str, Pair]) -> list[Shape]:
    bottom, skin, garment = t.paints["bottom"], _rgb(t, "skin"), t.traits["bottom"]
    wide = b.limb * 1.35
    out = []
    for key, side in ((1, "far"), (0, "near")):
        if side == "far" and t.traits.get("pose") == "ride":  # the horse hides it
            continue
        root, knee, foot = j[f"{side} hip"], j[f"{side} knee"], j[f"{side} foot"]
        x, y = foot[0], foot[1] - 0.03
        frontal = t.traits.get("pose", "stand") in ("stand", "sit", "jump", "carry", "wave", "hold", "lift")
        toe = 0.014 * (1 - 2 * key) - 0.006 if frontal else 0.022
        shoe = blob(
            (x - 0.042 + toe, foot[1]),
            (x - 0.036 + toe, y - 0.014),
            (x + 0.024 + toe, y - 0.014),
            (x + 0.056 + toe, foot[1] - 0.012),
            (x + 0.052 + toe, foot[1]),
        )
        covered = garment in ("pants", "jeans")
        colour = bottom.rgb if covered else skin
        part = garment if covered else f"legs/{key}"
        out.append(Shape(bent(root, knee, (x, y), wide, wide * 0.7), colour, part))
        out.append(Shape(shoe, _rgb(t, "shoes"), f"shoes/{key}"))
        if garment == "shorts":
            hem = (root[0] + (knee[0] - root[0]) * 0.8, root[1] + (knee[1] - root[1]) * 0.8)
            out.append(Shape(limb(root, hem, wide * 1.1, wide * 1.12), bottom.rgb, garment))
    return out


def _torso(t: Look, b: _Build, j: dict[str, Pair]) -> list[Shape]:
    top, bottom = t.paints["top"], t.paints["bottom"]
    (_, high), (_, low), wide, hips = j["neck"], j["hip"], b.shoulder[1], b.hip[1]
    side_on = t.traits.get("pose") in ("ride", "cycle", "run", "kick")
    out = []
    if t.traits["bottom"] == "skirt":
        flare = blob(
            (-hips, low - 0.05),
            (hips, low - 0.05),
            (hips * 1.75, low + 0.15),
            (0, low + 0.17),
            (-hips * 1.75, low + 0.15),
        )
        out.append(_clothe(flare, bottom, "skirt", 3))
    elif t.traits["bottom"] != "dress":
        out.append(Shape(rectangle(-hips, low - 0.06, hips, low + 0.035, 0.03), bottom.rgb, t.traits["bottom"]))
    waist = hips * (0.86 if t.kind == "woman" else 1.0)
    if side_on:
        wide, waist = wide * 0.9, waist * 0.95
    if t.traits["top"] == "dress":
        body = blob(
            (-wide * 0.72, high - 0.012), (wide * 0.72, high - 0.012), (wide, high + 0.05), (waist * 0.85, low - 0.1),
            (hips * 1.85, low + 0.16), (0, low + 0.185), (-hips * 1.85, low + 0.16), (-waist * 0.85, low - 0.1),
            (-wide, high + 0.05),
        )  # fmt: skip
    else:
        hem = low + (0.06 if t.traits["top"] == "coat" else 0.0)
        body = blob(
            (-wide * 0.72, high - 0.012), (wide * 0.72, high - 0.012), (wide, high + 0.05), (waist, low - 0.13),
            (hips * 1.08, hem), (-hips * 1.08, hem), (-waist, low - 0.13), (-wide, high + 0.05),
        )  # fmt: skip
    out.append(_clothe(body, top, t.traits["top"], 6 if t.traits["top"] == "dress" else 4))
    if t.traits["top"] in ("jacket", "coat"):
        seam = tint(top.rgb, -0.4)
        out.append(Shape(rectangle(-0.006, high + 0.02, 0.006, low - 0.005), seam, t.traits["top"], 0))
    elif t.traits["top"] == "dress":
        out.append(
            Shape(
                rectangle(-waist * 0.86, low - 0.115, waist * 0.86, low - 0.09, 0.01), tint(top.rgb, -0.35), "dress", 0
            )
        )
    return out


def _head(t: Look, b: _Build, j: dict[str, Pair]) -> list[Shape]:
    skin, hair = _rgb(t, "skin"), _rgb(t, "hair")
    r = b.head[1]
    x, y = 0.0, j["neck"][1] - (b.head[0] - b.shoulder[0])
    turn = 0.0 if t.traits.get("pose") in ("stand", "sit", "jump", "carry") else 0.22 * r
    tall = 1.1 * r
    out = []
    if t.traits["hair"] == "long":
        back = blob(
            (x - 0.95 * r, y - 0.5 * r), (x, y - 1.22 * r), (x + 0.95 * r, y - 0.5 * r), (x + 1.12 * r, y + 0.9 * r),
            (x + 0.6 * r, y + 1.55 * r), (x - 0.6 * r, y + 1.55 * r), (x - 1.12 * r, y + 0.9 * r),
        )  # fmt: skip
        out.append(_solid(back, hair, "hair", 0.02))
    elif t.traits["hair"] == "tied":
        out.append(_solid(ellipse(x - 1.0 * r, y + 0.35 * r, 0.36 * r, 0.75 * r, 12), hair, "hair", 0.015))
        out.append(_solid(ellipse(x + 1.0 * r, y + 0.35 * r, 0.36 * r, 0.75 * r, -12), hair, "hair", 0.015))
    elif t.traits["hair"] == "curly":
        out.append(_solid(cloud(x, y - 0.3 * r, 1.3 * r, 1.15 * r, 11, 0.08), hair, "hair", 0.02))
    out.append(Shape(limb((x, y + 0.6 * r), (x, y + 1.4 * r), 0.33 * r), tint(skin, -0.1), "face", 0.6))
    out.append(Shape(ellipse(x - 0.96 * r, y + 0.1 * r, 0.2 * r, 0.26 * r, corners=12), skin, "face"))
    out.append(Shape(ellipse(x + 0.96 * r, y + 0.1 * r, 0.2 * r, 0.26 * r, corners=12), skin, "face"))
    out.append(Shape(ellipse(x, y, r, tall), skin, "face"))
    f = x + turn
    out.append(
        Shape(ellipse(f - 0.55 * r, y + 0.35 * r, 0.17 * r, 0.12 * r, corners=12), blend(skin, _ROSE, 0.6), "face", 0)
    )
    out.append(
        Shape(ellipse(f + 0.55 * r, y + 0.35 * r, 0.17 * r, 0.12 * r, corners=12), blend(skin, _ROSE, 0.6), "face", 0)
    )
    if t.traits.get("beard"):
        beard = np.concatenate(
            [arc(x, y, 1.02 * r, tall * 1.04, 5, 175), arc(x, y + 0.18 * r, 0.62 * r, 0.2 * r, 180, 0)]
        )
        out.append(Shape(beard, hair, "beard", 0.7))
    mouth = ribbon(arc(f, y + 0.32 * r, 0.3 * r, 0.22 * r, 20, 160, corners=7), 0.04 * r)
    out.append(Shape(mouth, (150, 70, 70), "face", 0))
    out.append(_eye(f - 0.34 * r, y - 0.02 * r, 0.105 * r, "face"))
    out.append(_eye(f + 0.34 * r, y - 0.02 * r, 0.105 * r, "face"))
    if t.traits.get("glasses"):
        for at in (f - 0.36 * r, f + 0.36 * r):
            out.append(Shape(ellipse(at, y - 0.01 * r, 0.27 * r, 0.23 * r, corners=16), _DARK, "glasses", 0))
        out.append(Shape(rectangle(f - 0.2 * r, y - 0.09 * r, f + 0.2 * r, y - 0.01 * r), _DARK, "glasses", 0))
    out.append(_fringe(t, hair, x, y, r, tall))
    return out + _hat(t, x, y, r, tall)


def _fringe(t: Look, hair: Rgb, x: float, y: float, r: float, tall: float) -> Shape:
    crown = arc(x, y - 0.06 * r, 1.06 * r, tall * 1.06, 188, 352, corners=16)
    if t.traits["hair"] == "short":
        edge = polygon(
            (x + 0.92 * r, y - 0.2 * r),
            (x + 0.6 * r, y - 0.5 * r),
            (x - 0.5 * r, y - 0.46 * r),
            (x - 0.92 * r, y - 0.16 * r),
        )
    elif t.traits["hair"] == "curly":
        edge = curve(
            (x + 0.98 * r, y - 0.05 * r),
            (x + 0.6 * r, y - 0.5 * r),
            (x - 0.6 * r, y - 0.5 * r),
            (x - 0.98 * r, y - 0.05 * r),
        )
    else:
        edge = curve(
            (x + 0.98 * r, y + 0.1 * r),
            (x + 0.7 * r, y - 0.42 * r),
            (x - 0.1 * r, y - 0.62 * r),
            (x - 0.75 * r, y - 0.36 * r),
            (x - 0.98 * r, y + 0.12 * r),
        )
    return _solid(np.concatenate([crown, edge]), hair, "hair", 0.016)


def _hat(t: Look, x: float, y: float, r: float, tall: float) -> list[Shape]:
    style = t.traits.get("hat", "")
    if not style:
        return []
    paint = t.paints["hat"]
    if style == "cap":
        dome = arc(x, y - 0.42 * r, 1.08 * r, 0.88 * tall, 180, 360)
        visor = blob(
            (x + 0.1 * r, y - 0.5 * r),
            (x + 1.0 * r, y - 0.58 * r),
            (x + 1.72 * r, y - 0.34 * r),
            (x + 0.9 * r, y - 0.36 * r),
        )
        return [_clothe(dome, paint, "cap", 2), Shape(visor, tint(paint.rgb, -0.2), "cap")]
    if style == "beanie":
        dome = arc(x, y - 0.4 * r, 1.1 * r, 0.98 * tall, 180, 360)
        band = rectangle(x - 1.14 * r, y - 0.62 * r, x + 1.14 * r, y - 0.26 * r, 0.12 * r)
        bobble = ellipse(x, y - 1.5 * r, 0.24 * r)
        return [
            Shape(bobble, tint(paint.rgb, 0.35), "hat"),
            _clothe(dome, paint, "hat", 2),
            Shape(band, tint(paint.rgb, 0.25), "hat"),
        ]
    crown = blob(
        (x - 0.78 * r, y - 0.5 * r),
        (x - 0.66 * r, y - 1.5 * r),
        (x + 0.66 * r, y - 1.5 * r),
        (x + 0.78 * r, y - 0.5 * r),
    )
    brim = ellipse(x, y - 0.55 * r, 1.72 * r, 0.26 * r)
    band = rectangle(x - 0.76 * r, y - 0.82 * r, x + 0.76 * r, y - 0.62 * r)
    return [
        _solid(crown, paint.rgb, "hat", 0.015),
        Shape(band, tint(paint.rgb, -0.35), "hat", 0),
        Shape(brim, paint.rgb, "hat"),
    ]


# Animals ------------------------------------------------------------------------------------------------------------


def _gait(t: Look, xs: tuple[float, ...], top: float, width: float, rgb: Rgb, stride: float) -> list[Shape]:
    """Four legs, the two far ones first and darker; they swing while the animal walks or runs."""
    pose = t.traits.get("pose", "stand")
    reach = {"walk": 0.5, "run": 1.0}.get(pose, 0.0) * stride
    out = []
    for n, x in enumerate(xs):
        c, s = _swing(t.phase + (0.0, 0.5, 0.55, 0.05)[n])
        foot = (x + reach * c, -reach * 0.45 * max(-s, 0) - width)
        tone = tint(rgb, -0.2) if n % 2 == 0 else rgb
        knee, end = _bend((x, top), foot, (foot[1] - top) * 0.52, (-1.0 if x > 0 else 1.0, 0.0))
        out.append(Shape(bent((x, top), knee, end, width * 1.15, width * 0.8), tone, f"legs/{n}"))
    return [out[0], out[2], out[1], out[3]]


def _dog(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    fur, ear = paint.rgb, tint(paint.rgb, -0.3)
    if paint.name == "black":
        ear = tint(fur, 0.12)
    c, _ = _swing(t.phase)
    sit = t.traits.get("pose") == "sit"
    out = []
    if sit:
        hx, hy = 0.2, -0.8
        out.append(
            Shape(ribbon(curve((-0.3, -0.1), (-0.5, -0.08), (-0.62, -0.2), (-0.64, -0.34)), 0.055, 0.03), fur, "tail")
        )
        out.append(Shape(limb((0.2, -0.4), (0.2, -0.05), 0.06, 0.05), tint(fur, -0.2), "legs/0"))
        out.append(
            _coat(
                blob(
                    (-0.36, -0.06),
                    (-0.38, -0.3),
                    (-0.1, -0.58),
                    (0.16, -0.7),
                    (0.28, -0.5),
                    (0.22, -0.25),
                    (0.05, -0.04),
                ),
                paint,
                "body",
            )
        )
        out.append(_solid(ellipse(-0.17, -0.19, 0.2, 0.19), fur, "legs/1", 0.03))
        out.append(Shape(limb((-0.12, -0.05), (0.04, -0.045), 0.045), fur, "legs/1"))
        out.append(Shape(limb((0.12, -0.42), (0.13, -0.05), 0.06, 0.05), fur, "legs/2"))
        collar = polygon((0.02, -0.68), (0.3, -0.56), (0.28, -0.49), (0.0, -0.6))
    else:
        hx, hy = 0.5, -0.8
        tail = curve((-0.4, -0.55), (-0.52, -0.66), (-0.57 - 0.03 * c, -0.8), (-0.55 - 0.07 * c, -0.93))
        out.append(Shape(ribbon(tail, 0.06, 0.03), fur, "tail"))
        out += _gait(t, (-0.3, -0.38, 0.3, 0.2), -0.42, 0.058, fur, 0.2)
        body = blob(
            (-0.46, -0.52),
            (-0.32, -0.69),
            (0.05, -0.66),
            (0.36, -0.72),
            (0.45, -0.5),
            (0.28, -0.33),
            (-0.05, -0.38),
            (-0.38, -0.34),
        )
        out.append(_coat(body, paint, "body"))
        out.append(Shape(limb((0.32, -0.58), (0.46, -0.74), 0.13, 0.13), fur, "body", 0))
        collar = polygon((0.27, -0.74), (0.33, -0.79), (0.56, -0.6), (0.51, -0.54))
    if t.held is not None:
        x, y = float(collar[:, 0].mean()), float(collar[:, 1].mean())
        sag = ((x + t.held[0]) / 2, max((y + t.held[1]) / 2, min(y, t.held[1]) + 0.1))
        out.append(Shape(ribbon(curve((x, y), sag, t.held), 0.018), _rgb(t, "collar"), "leash", 0.5, layer=1))
    if "collar" in t.paints:
        out.append(Shape(collar, _rgb(t, "collar"), "collar"))
    out.append(_solid(ellipse(hx, hy, 0.2, 0.19), fur, "head", 0.03))
    out.append(Shape(ellipse(hx + 0.18, hy + 0.06, 0.14, 0.1, 8), tint(fur, 0.16), "head"))
    out.append(Shape(ellipse(hx + 0.3, hy + 0.02, 0.045, 0.037), (48, 42, 46), "head", 0))
    out.append(_eye(hx + 0.07, hy - 0.06, 0.03, "head"))
    flap = blob(
        (hx - 0.1, hy - 0.18),
        (hx - 0.02, hy - 0.1),
        (hx - 0.06, hy + 0.14),
        (hx - 0.17, hy + 0.17),
        (hx - 0.2, hy - 0.04),
    )
    out.append(Shape(flap, ear, "ears"))
    return out


def _cat(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    fur, inner = paint.rgb, blend(paint.rgb, PALETTE["pink"], 0.6)
    c, _ = _swing(t.phase)
    out = []
    if t.traits.get("pose") == "sit":
        hx, hy = 0.0, -0.74
        tail = curve((0.2, -0.08), (0.45, -0.06), (0.52, -0.24), (0.46, -0.4 - 0.03 * c))
        out.append(Shape(ribbon(tail, 0.06, 0.045), fur, "tail"))
        pear = blob((-0.26, -0.04), (-0.31, -0.24), (-0.16, -0.58), (0.16, -0.58), (0.31, -0.24), (0.26, -0.04), (0, 0))
        out.append(_clothe_fur(pear, paint, "body"))
        out.append(Shape(limb((-0.08, -0.34), (-0.09, -0.05), 0.06), fur, "legs/0", 0.7))
        out.append(Shape(limb((0.08, -0.34), (0.09, -0.05), 0.06), fur, "legs/1", 0.7))
    else:
        hx, hy = 0.46, -0.72
        tail = curve((-0.38, -0.5), (-0.54, -0.62), (-0.52, -0.82), (-0.6 + 0.05 * c, -1.0))
        out.append(Shape(ribbon(tail, 0.055, 0.04), fur, "tail"))
        out += _gait(t, (-0.26, -0.34, 0.28, 0.2), -0.36, 0.05, fur, 0.17)
        body = blob(
            (-0.43, -0.42), (-0.3, -0.6), (0.05, -0.56), (0.34, -0.6), (0.42, -0.42), (0.28, -0.27), (-0.3, -0.27)
        )
        out.append(_clothe_fur(body, paint, "body"))
    for side, key in ((-1, 0), (1, 1)):
        tip = (hx + side * 0.19, hy - 0.32)
        out.append(
            Shape(polygon((hx + side * 0.21, hy - 0.06), tip, (hx + side * 0.03, hy - 0.17)), fur, f"ears/{key}")
        )
        small = polygon((hx + side * 0.18, hy - 0.12), (hx + side * 0.17, hy - 0.25), (hx + side * 0.08, hy - 0.17))
        out.append(Shape(small, inner, f"ears/{key}", 0))
    out.append(_solid(ellipse(hx, hy, 0.23, 0.2), fur, "head", 0.025))
    for side in (-1, 1):
        out.append(Shape(ellipse(hx + side * 0.09, hy - 0.01, 0.042, 0.052, corners=16), (250, 226, 120), "head", 0.5))
        out.append(Shape(ellipse(hx + side * 0.09, hy - 0.01, 0.017, 0.045, corners=12), (40, 36, 40), "head", 0))
        for drop in (0.0, 0.05):
            whisker = ribbon(polygon((hx + side * 0.08, hy + 0.09), (hx + side * 0.3, hy + 0.06 + drop)), 0.006)
            out.append(Shape(whisker, (250, 248, 244), "head", 0))
    out.append(
        Shape(polygon((hx - 0.03, hy + 0.05), (hx + 0.03, hy + 0.05), (hx, hy + 0.085)), (220, 130, 130), "head", 0)
    )
    return out


def _clothe_fur(points: Points, paint: Paint, part: str) -> Shape:
    """A cat's coat: plain, or with tabby stripes of a darker tone."""
    if paint.pattern != "striped":
        return _solid(points, paint.rgb, part, 0.03)
    (x1, y1), (x2, y2) = points.min(0), points.max(0)
    dark = tint(paint.rgb, -0.45)
    bars = stripes(float(x1), float(y1), float(x2), float(y2), 6, upright=bool(x2 - x1 > y2 - y1))
    return Shape(points, paint.rgb, part, overlay=tuple((bar, dark) for bar in bars))


def _horse(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    coat = paint.rgb
    mane = tint(coat, -0.5) if paint.name != "black" else tint(coat, 0.3)
    c, _ = _swing(t.phase)
    out = [
        Shape(
            ribbon(
                curve((-0.44, -0.62), (-0.56, -0.56), (-0.58 - 0.03 * c, -0.4), (-0.54 - 0.05 * c, -0.22)), 0.05, 0.03
            ),
            mane,
            "tail",
        )
    ]
    out += _gait(t, (-0.32, -0.4, 0.3, 0.22), -0.46, 0.046, coat, 0.17)
    body = blob(
        (-0.48, -0.56),
        (-0.4, -0.7),
        (-0.1, -0.66),
        (0.2, -0.7),
        (0.38, -0.62),
        (0.36, -0.46),
        (0.1, -0.41),
        (-0.2, -0.42),
        (-0.42, -0.44),
    )
    out.append(_coat(body, paint, "body"))
    neck = blob((0.14, -0.64), (0.3, -0.82), (0.44, -0.98), (0.56, -0.9), (0.48, -0.72), (0.4, -0.52))
    out.append(Shape(neck, coat, "body"))
    out.append(
        Shape(blob((0.08, -0.67), (0.22, -0.86), (0.4, -1.02), (0.5, -1.0), (0.36, -0.86), (0.24, -0.68)), mane, "mane")
    )
    out.append(Shape(polygon((0.46, -0.98), (0.5, -1.1), (0.55, -0.97)), coat, "head"))
    out.append(
        _solid(
            blob((0.42, -0.96), (0.52, -1.02), (0.68, -0.9), (0.8, -0.78), (0.76, -0.7), (0.66, -0.72), (0.5, -0.82)),
            coat,
            "head",
            0.02,
        )
    )
    out.append(Shape(ellipse(0.755, -0.755, 0.05, 0.045), tint(coat, -0.2), "head", 0))
    out.append(_eye(0.56, -0.92, 0.02, "head"))
    if "saddle" in t.paints:
        out.append(
            Shape(
                blob((-0.14, -0.68), (0.1, -0.68), (0.12, -0.56), (-0.02, -0.5), (-0.16, -0.56)),
                _rgb(t, "saddle"),
                "saddle",
            )
        )
    return out


def _cow(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    hide = paint.rgb
    c, _ = _swing(t.phase)
    out = [Shape(ribbon(curve((-0.56, -0.78), (-0.66, -0.66), (-0.64 - 0.04 * c, -0.42)), 0.022, 0.018), hide, "tail")]
    out.append(Shape(ellipse(-0.64 - 0.04 * c, -0.38, 0.035, 0.06), tint(hide, -0.5), "tail"))
    out += _gait(t, (-0.34, -0.46, 0.36, 0.24), -0.4, 0.06, hide, 0.16)
    out.append(Shape(ellipse(-0.24, -0.34, 0.11, 0.07), PALETTE["pink"], "body"))
    body = blob(
        (-0.58, -0.5),
        (-0.54, -0.82),
        (-0.1, -0.82),
        (0.36, -0.86),
        (0.5, -0.66),
        (0.44, -0.4),
        (0, -0.33),
        (-0.5, -0.36),
    )
    out.append(_coat(body, paint, "body"))
    for side in (0, 1):
        root = 0.47 + 0.18 * side
        out.append(
            Shape(
                blob((root, -0.9), (root + (0.08 * side - 0.04), -1.04), (root + 0.05, -0.92)), (236, 224, 200), "horns"
            )
        )
    out.append(Shape(ellipse(0.42, -0.86, 0.1, 0.05, 18), tint(hide, -0.25), "ears"))
    out.append(
        _solid(
            blob((0.42, -0.88), (0.56, -0.95), (0.7, -0.88), (0.76, -0.64), (0.66, -0.54), (0.5, -0.62)),
            hide,
            "head",
            0.03,
        )
    )
    out.append(Shape(ellipse(0.68, -0.6, 0.1, 0.08), (240, 190, 180), "head"))
    out.append(_eye(0.6, -0.78, 0.025, "head"))
    return out


def _sheep(t: Look) -> list[Shape]:
    wool, face = t.paints["main"].rgb, (76, 68, 70) if t.paints["main"].name != "black" else (196, 180, 170)
    out = _gait(t, (-0.24, -0.34, 0.28, 0.18), -0.36, 0.05, face, 0.15)
    out.append(_solid(ellipse(-0.54, -0.62, 0.09, 0.08), wool, "tail", 0.02))
    out.append(_solid(cloud(-0.04, -0.57, 0.5, 0.33, 14, 0.09), wool, "body", 0.05))
    out.append(Shape(ellipse(0.33, -0.8, 0.1, 0.045, 20), face, "ears"))
    out.append(_solid(ellipse(0.5, -0.74, 0.15, 0.19, -14), face, "head", 0.02))
    out.append(_solid(cloud(0.45, -0.91, 0.15, 0.09, 8, 0.1), wool, "head", 0.02))
    out.append(_eye(0.55, -0.78, 0.026, "head"))
    return out


def _bird(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    c, _ = _swing(t.phase)
    belly = tint(paint.rgb, 0.4)
    out = [Shape(polygon((-0.42, -0.52), (-0.9, -0.6), (-0.86, -0.44), (-0.4, -0.36)), tint(paint.rgb, -0.2), "tail")]
    if t.traits.get("pose") == "fly":
        far = blob((-0.16, -0.6), (-0.3, -0.9 - 0.25 * c), (-0.02, -1.05 - 0.35 * c), (0.2, -0.62))
        out.append(Shape(far, tint(paint.rgb, -0.3), "wings/0"))
    else:
        for n, x in enumerate((-0.06, 0.1)):
            out.append(Shape(limb((x, -0.3), (x, -0.02), 0.02), _BEAK, f"legs/{n}", 0.6))
            out.append(Shape(limb((x - 0.03, -0.02), (x + 0.1, -0.02), 0.02), _BEAK, f"legs/{n}", 0.6))
    body = blob((-0.5, -0.46), (-0.2, -0.68), (0.2, -0.7), (0.42, -0.52), (0.26, -0.28), (-0.16, -0.24))
    out.append(Shape(body, belly, "body", overlay=((body - np.array([0.0, 0.16]), paint.rgb),)))
    out.append(Shape(polygon((0.52, -0.84), (0.82, -0.74), (0.52, -0.66)), _BEAK, "beak"))
    out.append(_solid(ellipse(0.36, -0.76, 0.22, 0.21), paint.rgb, "head", 0.03))
    out.append(_eye(0.43, -0.8, 0.04, "head"))
    if t.traits.get("pose") == "fly":
        near = blob((-0.3, -0.56), (-0.5, -0.95 - 0.35 * c), (-0.1, -1.2 - 0.45 * c), (0.1, -0.58), (-0.1, -0.46))
        out.append(_solid(near, tint(paint.rgb, -0.14), "wings/1", 0.05))
    else:
        out.append(
            _solid(
                blob((0.16, -0.56), (-0.1, -0.6), (-0.56, -0.44), (-0.3, -0.34), (0.04, -0.36)),
                tint(paint.rgb, -0.16),
                "wings/0",
                0.03,
            )
        )
    return out


def _duck(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    out = []
    for n, x in enumerate((-0.1, 0.1)):
        out.append(Shape(limb((x, -0.16), (x, -0.03), 0.025), _BEAK, f"legs/{n}", 0.6))
        out.append(Shape(limb((x - 0.02, -0.025), (x + 0.12, -0.025), 0.03), _BEAK, f"legs/{n}", 0.6))
    body = blob(
        (-0.66, -0.56),
        (-0.42, -0.42),
        (0.05, -0.46),
        (0.36, -0.52),
        (0.46, -0.3),
        (0.22, -0.12),
        (-0.2, -0.12),
        (-0.5, -0.28),
    )
    out.append(_coat(body, paint, "body"))
    out.append(Shape(limb((0.3, -0.4), (0.34, -0.74), 0.13, 0.11), paint.rgb, "body"))
    out.append(Shape(polygon((0.46, -0.9), (0.78, -0.79), (0.76, -0.72), (0.48, -0.72)), _BEAK, "beak"))
    out.append(_solid(ellipse(0.36, -0.82, 0.18, 0.17), paint.rgb, "head", 0.03))
    out.append(_eye(0.43, -0.87, 0.032, "head"))
    out.append(
        _solid(
            blob((0.16, -0.4), (-0.16, -0.42), (-0.52, -0.44), (-0.26, -0.22), (0.06, -0.22)),
            tint(paint.rgb, -0.15),
            "wings/0",
            0.03,
        )
    )
    return out


# Vehicles -----------------------------------------------------------------------------------------------------------


def _wheel(x: float, r: float, key: int) -> list[Shape]:
    part = f"wheels/{key}"
    return [
        Shape(ellipse(x, -r, r), _DARK, part),
        Shape(ellipse(x, -r, r * 0.56), (212, 214, 220), part, 0),
        Shape(ellipse(x, -r, r * 0.18, corners=12), (120, 122, 130), part, 0),
    ]


def _pane(points: Points, part: str) -> Shape:
    (x1, y1), (x2, y2) = points.min(0), points.max(0)
    w = x2 - x1
    glare = polygon((x1 + 0.25 * w, y1), (x1 + 0.5 * w, y1), (x1 + 0.25 * w, y2), (x1, y2))
    return Shape(points, _GLASS, part, 0.8, ((glare, tint(_GLASS, 0.5)),))


def _car(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    dark = tint(rgb, -0.3)
    cabin = blob((-0.62, -0.55), (-0.46, -0.97), (0.2, -1.0), (0.55, -0.58), steps=6)
    hull = blob(
        (-1.02, -0.2),
        (-1.04, -0.5),
        (-0.8, -0.62),
        (0.5, -0.62),
        (0.94, -0.5),
        (1.04, -0.32),
        (1.0, -0.17),
        (0.0, -0.14),
    )
    return [
        _solid(cabin, rgb, "", 0.03),
        _pane(blob((-0.5, -0.6), (-0.4, -0.88), (-0.14, -0.9), (-0.12, -0.6)), "windows/0"),
        _pane(blob((-0.02, -0.6), (-0.02, -0.9), (0.18, -0.9), (0.42, -0.6)), "windows/1"),
        _solid(hull, rgb, "", 0.05),
        Shape(rectangle(-0.075, -0.56, -0.055, -0.2), dark, "", 0),
        Shape(rectangle(-0.24, -0.48, -0.13, -0.45, 0.01), dark, "", 0),
        Shape(ellipse(0.93, -0.4, 0.06, 0.07), (255, 240, 180), "", 0.6),
        Shape(rectangle(-1.04, -0.44, -0.97, -0.34, 0.02), (220, 70, 60), "", 0.6),
        *_wheel(-0.58, 0.21, 0),
        *_wheel(0.58, 0.21, 1),
    ]


def _bus(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    out = [_solid(rectangle(-1.05, -1.0, 1.05, -0.13, 0.09), rgb, "", 0.04)]
    out.append(Shape(rectangle(-1.04, -0.42, 1.04, -0.34), tint(rgb, 0.55), "", 0))
    for n in range(4):
        out.append(_pane(rectangle(-0.96 + 0.4 * n, -0.88, -0.64 + 0.4 * n, -0.52, 0.03), f"windows/{n}"))
    out.append(_pane(rectangle(0.66, -0.86, 0.96, -0.16, 0.03), "door"))
    out.append(Shape(rectangle(0.8, -0.86, 0.82, -0.16), tint(rgb, -0.3), "door", 0))
    out.append(Shape(ellipse(1.0, -0.25, 0.035), (255, 240, 180), "", 0.6))
    return [*out, *_wheel(-0.62, 0.15, 0), *_wheel(0.42, 0.15, 1)]


def _truck(t: Look) -> list[Shape]:
    rgb, load = _rgb(t, "cab"), _rgb(t)
    cab = blob((0.44, -0.16), (0.44, -0.72), (0.62, -0.78), (0.82, -0.74), (0.98, -0.44), (1.02, -0.16), steps=6)
    return [
        Shape(rectangle(-1.0, -0.26, 0.9, -0.16), _DARK, ""),
        _solid(rectangle(-1.02, -1.0, 0.38, -0.24, 0.03), load, "trailer", 0.04),
        Shape(rectangle(-0.98, -0.66, 0.34, -0.56), tint(load, -0.16), "trailer", 0),
        _solid(cab, rgb, "cab", 0.03),
        _pane(blob((0.58, -0.46), (0.6, -0.68), (0.78, -0.67), (0.9, -0.46)), "windows/0"),
        Shape(ellipse(0.97, -0.3, 0.04), (255, 240, 180), "", 0.6),
        *_wheel(-0.68, 0.17, 0),
        *_wheel(-0.28, 0.17, 1),
        *_wheel(0.66, 0.17, 2),
    ]


def _bicycle(t: Look) -> list[Shape]:
    rgb = _rgb(t)

    def bar(*points: Pair, width: float = 0.022, colour: Rgb = rgb, part: str = "frame") -> Shape:
        return Shape(ribbon(polygon(*points), width), colour, part, 0.7)

    out = []
    for key, x in enumerate((-0.52, 0.52)):
        rim = ellipse(x, -0.33, 0.33)
        out.append(Shape(rim, _DARK, f"wheels/{key}", 0, hole=ellipse(x, -0.33, 0.27)))
        for turn in (0, 60, 120):
            c, s = _swing((turn + 360 * t.phase) / 360)
            spoke = ribbon(polygon((x - 0.28 * c, -0.33 - 0.28 * s), (x + 0.28 * c, -0.33 + 0.28 * s)), 0.007)
            out.append(Shape(spoke, _STEEL, f"wheels/{key}", 0))
    crank = (-0.06, -0.3)
    out += [
        bar((-0.52, -0.33), crank),
        bar((-0.52, -0.33), (-0.2, -0.72)),
        bar(crank, (-0.23, -0.8)),
        bar(crank, (0.38, -0.7)),
        bar((-0.2, -0.72), (0.38, -0.72)),
        bar((0.52, -0.33), (0.37, -0.8)),
        bar((0.37, -0.8), (0.34, -0.92), colour=_STEEL),
        bar((0.24, -0.94), (0.46, -0.9), width=0.03, colour=_DARK),
        Shape(ellipse(*crank, 0.07), _STEEL, "frame", 0.7),
        Shape(blob((-0.36, -0.86), (-0.2, -0.87), (-0.08, -0.83), (-0.22, -0.79)), _DARK, "seat", 0.7),
    ]
    return out


def _boat(t: Look) -> list[Shape]:
    hull, sail = _rgb(t), t.paints["sail"]
    deck = blob((-0.62, -0.26), (0.66, -0.3), (0.4, -0.02), (0.0, 0.0), (-0.42, -0.02), steps=6)
    return [
        Shape(rectangle(-0.03, -1.0, 0.01, -0.2), _WOOD, "mast", 0.7),
        _clothe(polygon((-0.07, -0.94), (-0.07, -0.32), (-0.55, -0.34)), sail, "sail", 4),
        _clothe(polygon((0.05, -0.9), (0.05, -0.34), (0.5, -0.36)), sail, "sail", 4),
        _solid(deck, hull, "hull", 0.03),
        Shape(ribbon(polygon((-0.56, -0.22), (0.58, -0.25)), 0.02), tint(hull, 0.5), "hull", 0),
    ]


# Buildings, plants and furniture ------------------------------------------------------------------------------------


def _house(t: Look) -> list[Shape]:
    wall, roof, door = _rgb(t), _rgb(t, "roof"), _rgb(t, "door")
    out = [Shape(rectangle(0.24, -0.98, 0.36, -0.6), (176, 120, 104), "chimney")]
    out.append(_solid(rectangle(-0.5, -0.58, 0.5, 0.0), wall, "", 0.03))
    tiles = polygon((-0.6, -0.55), (-0.26, -0.94), (0.26, -0.94), (0.6, -0.55))
    rows = tuple((rectangle(-0.7, y, 0.7, y + 0.018), tint(roof, -0.16)) for y in (-0.85, -0.75, -0.65))
    out.append(Shape(tiles, roof, "roof", overlay=rows))
    out.append(_solid(rectangle(-0.11, -0.34, 0.1, 0.0, 0.02), door, "door", 0.02))
    out.append(Shape(ellipse(0.06, -0.16, 0.016, corners=12), (245, 220, 130), "door", 0))
    for key, x in enumerate((-0.4, 0.2)):
        pane = rectangle(x, -0.42, x + 0.2, -0.2)
        cross = (
            (rectangle(x + 0.092, -0.42, x + 0.108, -0.2), (250, 248, 242)),
            (rectangle(x, -0.318, x + 0.2, -0.302), (250, 248, 242)),
        )
        out.append(Shape(pane, _GLASS, f"windows/{key}", overlay=cross))
    return out


def _tree(t: Look) -> list[Shape]:
    crown = _rgb(t)
    dark, light = tint(crown, -0.12), tint(crown, 0.14)
    return [
        _solid(
            blob((-0.085, 0.0), (-0.05, -0.3), (-0.06, -0.55), (0.06, -0.55), (0.05, -0.3), (0.09, 0.0)),
            _rgb(t, "trunk"),
            "trunk",
            0.02,
        ),
        Shape(ribbon(curve((0.0, -0.36), (0.1, -0.44), (0.16, -0.54)), 0.022, 0.014), _rgb(t, "trunk"), "trunk", 0.8),
        Shape(cloud(-0.19, -0.62, 0.2, 0.17, 9), dark, "leaves"),
        Shape(cloud(0.2, -0.6, 0.2, 0.17, 9), dark, "leaves"),
        _solid(cloud(0.0, -0.74, 0.29, 0.26, 12, 0.08), crown, "leaves", 0.05),
        Shape(cloud(-0.09, -0.82, 0.12, 0.1, 8), light, "leaves", 0),
    ]


def _pine(t: Look) -> list[Shape]:
    green = _rgb(t)
    out = [_solid(rectangle(-0.05, -0.2, 0.05, 0.0), _rgb(t, "trunk"), "trunk", 0.02)]
    for low, high, half in ((-0.14, -0.55, 0.3), (-0.36, -0.78, 0.25), (-0.6, -1.0, 0.19)):
        skirt = blob(
            (-half, low),
            (-half * 0.35, (low + high) / 2),
            (0, high),
            (half * 0.35, (low + high) / 2),
            (half, low),
            (0, low + 0.04),
        )
        snow = (
            (
                polygon(
                    (-half, high - 0.02),
                    (half, high - 0.02),
                    (half * 0.34, high + 0.18),
                    (0, high + 0.12),
                    (-half * 0.3, high + 0.18),
                ),
                (250, 252, 255),
            ),
        )
        out.append(
            Shape(
                skirt,
                green,
                "leaves",
                overlay=snow if t.traits.get("snowy") else ((skirt - np.array([0.05, 0.04]), tint(green, 0.1)),),
            )
        )
    return out


def _palm(t: Look) -> list[Shape]:
    leaf = _rgb(t)
    out = [
        _solid(
            ribbon(curve((-0.06, 0.0), (-0.02, -0.3), (0.04, -0.55), (0.02, -0.78)), 0.045, 0.03),
            _rgb(t, "trunk"),
            "trunk",
            0.02,
        )
    ]
    for x, y, lift in (
        (-0.4, -0.62, 0.16),
        (0.42, -0.64, 0.16),
        (-0.3, -0.86, 0.12),
        (0.34, -0.88, 0.12),
        (-0.1, -1.0, 0.0),
        (0.16, -1.0, 0.0),
    ):
        mid = ((0.02 + x) / 2, (-0.78 + y) / 2 - lift)
        frond = ribbon(curve((0.02, -0.78), mid, (x, y)), 0.035, 0.004)
        out.append(Shape(frond, leaf if x < 0.1 else tint(leaf, -0.12), "leaves", 0.8))
    return out


def _bush(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    out = [
        Shape(cloud(-0.42, -0.36, 0.4, 0.34, 9), tint(rgb, -0.12), "leaves"),
        Shape(cloud(0.44, -0.34, 0.4, 0.32, 9), tint(rgb, -0.12), "leaves"),
        _solid(cloud(0.0, -0.5, 0.52, 0.46, 11), rgb, "leaves", 0.07),
    ]
    for x, y in ((-0.5, -0.42), (-0.14, -0.7), (0.16, -0.4), (0.5, -0.36), (-0.2, -0.26)):
        out.append(Shape(ellipse(x, y, 0.06, corners=12), _rgb(t, "berries"), "flowers", 0))
    return out


def _flower(t: Look) -> list[Shape]:
    out = [
        Shape(ribbon(curve((0.0, 0.0), (0.03, -0.3), (0.0, -0.66)), 0.025), _LEAF, "stem", 0.6),
        Shape(blob((0.02, -0.24), (0.2, -0.4), (0.3, -0.36), (0.16, -0.22)), _LEAF, "stem", 0.6),
    ]
    for k in range(6):
        c, s = _swing(k / 6)
        out.append(Shape(ellipse(0.15 * c, -0.76 + 0.15 * s, 0.105, corners=16), _rgb(t), "petals", 0.7))
    out.append(
        Shape(
            ellipse(0.0, -0.76, 0.1, corners=16),
            (250, 214, 96) if t.paints["main"].name != "yellow" else (150, 96, 60),
            "petals",
            0.6,
        )
    )
    return out


def _plant(t: Look) -> list[Shape]:
    out = []
    for x, y in ((-0.34, -0.66), (0.34, -0.68), (-0.2, -0.9), (0.22, -0.92), (0.0, -1.0)):
        out.append(
            Shape(
                ribbon(curve((0.0, -0.34), (x * 0.7, (y - 0.34) / 2 - 0.1), (x, y)), 0.05, 0.01),
                _LEAF if x < 0 else tint(_LEAF, -0.12),
                "leaves",
                0.8,
            )
        )
    pot = polygon((-0.24, -0.4), (0.24, -0.4), (0.17, 0.0), (-0.17, 0.0))
    return [
        *out,
        _solid(pot, _rgb(t), "pot", 0.03),
        Shape(rectangle(-0.27, -0.44, 0.27, -0.34, 0.02), tint(_rgb(t), 0.12), "pot"),
    ]


def _rock(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    stone = blob(
        (-0.85, -0.02), (-0.78, -0.5), (-0.3, -0.94), (0.3, -0.9), (0.72, -0.56), (0.86, -0.04), (0, 0.02), steps=4
    )
    return [
        _solid(stone, rgb, "", 0.14),
        Shape(polygon((-0.3, -0.7), (-0.05, -0.6), (-0.16, -0.5)), tint(rgb, -0.22), "", 0),
    ]


def _bench(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    dark = tint(rgb, -0.45)
    out = [Shape(rectangle(x, -0.95, x + 0.07, -0.02), dark, "legs") for x in (-0.92, 0.85)]
    for y in (-0.98, -0.76):
        out.append(Shape(rectangle(-1.05, y, 1.05, y + 0.15, 0.03), rgb, "back"))
    for x in (-0.95, 0.88):
        out.append(Shape(rectangle(x - 0.02, -0.46, x + 0.09, 0.0, 0.02), dark, "legs"))
    out.append(_solid(rectangle(-1.1, -0.52, 1.1, -0.36, 0.04), tint(rgb, 0.12), "seat", 0.03))
    return out


def _table(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    out = [Shape(rectangle(x, -0.82, x + 0.08, -0.1), tint(rgb, -0.35), "legs") for x in (-0.62, 0.54)]
    out += [Shape(rectangle(x, -0.86, x + 0.1, 0.0), tint(rgb, -0.15), "legs") for x in (-0.86, 0.76)]
    out.append(_solid(rectangle(-1.0, -1.0, 1.0, -0.84, 0.04), rgb, "top", 0.03))
    return out


def _chair(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    dark = tint(rgb, -0.3)
    out = [Shape(rectangle(x, -0.44, x + 0.055, -0.06), tint(rgb, -0.42), "legs") for x in (-0.2, 0.15)]
    out += [Shape(rectangle(x, -1.0, x + 0.06, 0.0, 0.01), dark, "legs") for x in (-0.32, 0.26)]
    out += [Shape(rectangle(-0.3, y, 0.3, y + 0.1, 0.02), rgb, "back") for y in (-0.97, -0.78)]
    out.append(_solid(rectangle(-0.36, -0.5, 0.36, -0.39, 0.03), tint(rgb, 0.1), "seat", 0.02))
    return out


def _sofa(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    rgb = paint.rgb
    out = [Shape(rectangle(x, -0.12, x + 0.1, 0.0), _WOOD, "legs") for x in (-1.1, 1.0)]
    out.append(_clothe(rectangle(-1.15, -1.0, 1.15, -0.2, 0.14), paint, "back", 5))
    out.append(_solid(rectangle(-1.1, -0.56, 0.0, -0.1, 0.08), tint(rgb, 0.12), "seat", 0.04))
    out.append(_solid(rectangle(0.0, -0.56, 1.1, -0.1, 0.08), tint(rgb, 0.12), "seat", 0.04))
    out.append(_solid(rectangle(-1.32, -0.7, -1.02, -0.06, 0.12), rgb, "arms", 0.03))
    out.append(_solid(rectangle(1.02, -0.7, 1.32, -0.06, 0.12), rgb, "arms", 0.03))
    return out


def _lamp(t: Look) -> list[Shape]:
    if t.traits.get("indoors"):
        shade = polygon((-0.1, -1.0), (0.1, -1.0), (0.19, -0.74), (-0.19, -0.74))
        return [
            Shape(rectangle(-0.02, -0.76, 0.02, -0.04), _STEEL, "pole"),
            Shape(rectangle(-0.13, -0.05, 0.13, 0.0, 0.02), _STEEL, "pole"),
            _clothe(shade, t.paints["main"], "shade", 3),
        ]
    rgb = _rgb(t)
    return [
        Shape(rectangle(-0.022, -0.86, 0.022, 0.0), rgb, "pole"),
        Shape(rectangle(-0.06, -0.06, 0.06, 0.0, 0.015), rgb, "pole"),
        Shape(polygon((-0.075, -0.86), (0.075, -0.86), (0.1, -0.96), (-0.1, -0.96)), (255, 236, 166), "light"),
        Shape(polygon((-0.12, -0.955), (0.12, -0.955), (0.0, -1.0)), rgb, "pole"),
    ]


def _sign(t: Look) -> list[Shape]:
    plate = arc(0.0, -0.78, 0.24, 0.24, 22, 337, corners=8)
    return [
        Shape(rectangle(-0.022, -0.8, 0.022, 0.0), _STEEL, "pole"),
        _solid(plate, _rgb(t), "plate", 0.02),
        Shape(rectangle(-0.15, -0.82, 0.15, -0.74, 0.01), (252, 250, 246), "plate", 0),
    ]


def _picture_frame(t: Look) -> list[Shape]:
    view = rectangle(-0.56, -0.9, 0.56, -0.1)
    hills = (
        (rectangle(-0.6, -0.46, 0.6, 0.0), _rgb(t)),
        (ellipse(-0.2, -0.4, 0.34, 0.18), tint(_rgb(t), -0.16)),
        (ellipse(0.3, -0.68, 0.1), (250, 216, 120)),
    )
    return [
        _solid(rectangle(-0.68, -1.0, 0.68, 0.0, 0.02), _WOOD, "frame", 0.03),
        Shape(view, tint(_rgb(t), 0.75), "", overlay=hills),
    ]


def _snowman(t: Look) -> list[Shape]:
    snow = (250, 251, 255)
    scarf = t.paints["scarf"]
    out = []
    for side in (-1, 1):
        out.append(
            Shape(
                ribbon(curve((side * 0.2, -0.52), (side * 0.36, -0.6), (side * 0.5, -0.72)), 0.018, 0.01),
                (120, 84, 60),
                "arms/0" if side > 0 else "arms/1",
                0.7,
            )
        )
    out += [
        _solid(ellipse(0.0, -0.23, 0.3, 0.24), snow, "body", 0.04),
        _solid(ellipse(0.0, -0.53, 0.22, 0.19), snow, "body", 0.03),
        _solid(ellipse(0.0, -0.77, 0.16, 0.15), snow, "head", 0.02),
        _clothe(rectangle(-0.16, -0.67, 0.16, -0.6, 0.03), scarf, "scarf", 2),
        Shape(rectangle(0.05, -0.64, 0.13, -0.44, 0.02), tint(scarf.rgb, -0.12), "scarf"),
        Shape(polygon((0.01, -0.79), (0.2, -0.75), (0.01, -0.74)), (240, 140, 50), "head", 0.6),
        _eye(-0.055, -0.82, 0.02, "head"),
        _eye(0.055, -0.82, 0.02, "head"),
        Shape(ellipse(-0.02, -0.5, 0.02, corners=12), _DARK, "body", 0),
        Shape(ellipse(-0.02, -0.4, 0.02, corners=12), _DARK, "body", 0),
        Shape(rectangle(-0.11, -1.0, 0.11, -0.88, 0.01), _DARK, "hat"),
        Shape(rectangle(-0.18, -0.9, 0.18, -0.865, 0.015), _DARK, "hat"),
    ]
    return out


# Small things -------------------------------------------------------------------------------------------------------


def _ball(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    disc = ellipse(0.0, -0.5, 0.5)
    c, s = _swing(t.phase)
    if paint.pattern == "striped":
        bands = tuple(
            (
                ribbon(
                    polygon((-0.6 * c - k * s, -0.5 - 0.6 * s + k * c), (0.6 * c - k * s, -0.5 + 0.6 * s + k * c)), 0.09
                ),
                paint.accent,
            )
            for k in (-0.28, 0.1)
        )
        return [Shape(disc, paint.rgb, "", overlay=bands)]
    if paint.pattern == "spotted":
        dots = [
            (0.3 * c, -0.5 + 0.3 * s),
            (-0.3 * c, -0.5 - 0.3 * s),
            (0.3 * s, -0.5 - 0.3 * c),
            (-0.3 * s, -0.5 + 0.3 * c),
        ]
        return [Shape(disc, paint.rgb, "", overlay=tuple((ellipse(x, y, 0.12), paint.accent) for x, y in dots))]
    return [
        _solid(disc, paint.rgb, "", 0.12),
        Shape(ellipse(-0.16, -0.68, 0.11, 0.08, -30), tint(paint.rgb, 0.55), "", 0),
    ]


def _balloon(t: Look) -> list[Shape]:
    """The origin is the lower end of its string, unless that is held elsewhere."""
    paint = t.paints["main"]
    end = t.held or (0.0, 0.0)
    string = ribbon(curve(end, (0.5 * end[0] + 0.03, 0.5 * end[1] - 0.25), (0.0, -0.54)), 0.008)
    skin = blob((0.0, -0.54), (0.19, -0.7), (0.17, -0.93), (0.0, -1.0), (-0.17, -0.93), (-0.19, -0.7))
    return [
        Shape(string, (120, 116, 120), "string", 0),
        Shape(polygon((0.0, -0.56), (0.035, -0.51), (-0.035, -0.51)), tint(paint.rgb, -0.2), "", 0.6),
        _clothe(skin, paint, "", 4),
        Shape(ellipse(-0.07, -0.86, 0.04, 0.06, 20), tint(paint.rgb, 0.55), "", 0),
    ]


def _umbrella(t: Look) -> list[Shape]:
    """The origin is the hand's place at the handle, or the foot of a parasol."""
    paint = t.paints["main"]
    foot = 0.0 if t.traits.get("standing") else 0.12
    base, top = -0.62, -0.98
    rim = [(-0.5 + 0.25 * k, base + 0.035 - (0.05 if k % 2 else 0.0)) for k in range(5)]
    dome = np.concatenate(
        [arc(0.0, base, 0.5, base - top, 180, 360), curve(*[(x, y) for x, y in reversed(rim)], steps=4)]
    )
    panels: tuple[tuple[Points, Rgb], ...]
    if paint.pattern == "striped":
        fan = ((-0.5, -0.25), (0.0, 0.25))
        panels = tuple((polygon((a, base + 0.05), (0.0, top - 0.02), (b, base + 0.05)), paint.accent) for a, b in fan)
        body = Shape(dome, paint.rgb, "canopy", overlay=panels)
    else:
        panels = tuple(
            (polygon((a, base + 0.05), (0.0, top), (b, base + 0.05)), tint(paint.rgb, -0.1))
            for a, b in ((-0.5, -0.25), (0.0, 0.25))
        )
        body = Shape(dome, paint.rgb, "canopy", overlay=panels)
    out = [Shape(rectangle(-0.014, top - 0.03, 0.014, foot), _WOOD, "handle", 0.7)]
    if not t.traits.get("standing"):
        out.append(
            Shape(
                ribbon(curve((0.0, foot), (0.02, foot + 0.05), (0.07, foot + 0.04), (0.075, foot)), 0.016),
                _WOOD,
                "handle",
                0.7,
            )
        )
    return [*out, body]


def _kite(t: Look) -> list[Shape]:
    """The origin is the end of its tail."""
    paint = t.paints["main"]
    tail = curve((0.0, 0.0), (0.07, -0.12), (-0.05, -0.24), (0.04, -0.36), (0.0, -0.45))
    diamond = polygon((0.0, -1.0), (0.26, -0.76), (0.0, -0.44), (-0.26, -0.76))
    quarters = (
        (polygon((0.0, -1.0), (0.26, -0.76), (0.0, -0.76)), paint.accent),
        (polygon((0.0, -0.44), (-0.26, -0.76), (0.0, -0.76)), paint.accent),
    )
    bows = [
        Shape(ellipse(x, y, 0.035, 0.022, corners=12), paint.rgb, "tail", 0.5)
        for x, y in ((0.03, -0.1), (-0.01, -0.26))
    ]
    out = [Shape(ribbon(tail, 0.008), (120, 116, 120), "tail", 0), *bows]
    if t.held is not None:
        x, y = t.held
        string = curve((0.0, -0.74), (0.5 * x + 0.04, 0.5 * (y - 0.74) + 0.16), (x, y), steps=10)
        out.append(Shape(ribbon(string, 0.007), (250, 250, 250), "string", 0.3))
    return [*out, Shape(diamond, paint.rgb, "", overlay=quarters if paint.pattern else ())]


def _flag(t: Look) -> list[Shape]:
    """The origin is the lower end of the pole."""
    paint = t.paints["main"]
    c, _ = _swing(t.phase)
    cloth = blob(
        (0.02, -0.98),
        (0.2, -1.02 + 0.02 * c),
        (0.42, -0.95 - 0.02 * c),
        (0.44, -0.66 - 0.02 * c),
        (0.22, -0.72 + 0.02 * c),
        (0.02, -0.67),
    )
    return [_clothe(cloth, paint, "", 3), Shape(rectangle(-0.015, -1.02, 0.018, 0.0), _WOOD, "pole", 0.7)]


def _book(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    return [
        Shape(rectangle(-0.46, -0.96, 0.5, -0.04, 0.03), (250, 246, 232), "pages"),
        _solid(rectangle(-0.5, -1.0, 0.42, 0.0, 0.04), rgb, "cover", 0.05),
        Shape(rectangle(-0.3, -0.8, 0.24, -0.62, 0.02), tint(rgb, 0.6), "cover", 0),
    ]


def _cup(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    ring = arc(0.4, -0.55, 0.3, 0.3, 0, 350)
    body = blob((-0.4, -1.0), (0.4, -1.0), (0.36, -0.2), (0.22, 0.0), (-0.22, 0.0), (-0.36, -0.2), steps=5)
    return [
        Shape(ring, paint.rgb, "handle", hole=arc(0.4, -0.55, 0.18, 0.18, 0, 350)),
        _clothe(body, paint, "", 3),
        Shape(ellipse(0.0, -0.97, 0.37, 0.09), (110, 72, 52), "", 0.8),
    ]


def _crate(t: Look) -> list[Shape]:
    rgb = _rgb(t)
    return [
        _solid(rectangle(-0.55, -0.9, 0.55, 0.0, 0.02), rgb, "", 0.06),
        Shape(rectangle(-0.6, -1.0, 0.6, -0.78, 0.02), tint(rgb, 0.14), "lid"),
        Shape(
            rectangle(-0.1, -1.0, 0.1, 0.0),
            tint(rgb, -0.22) if t.paints["main"].name != "black" else tint(rgb, 0.3),
            "",
            0,
        ),
    ]


def _bucket(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    bow = ribbon(arc(0.0, -0.76, 0.42, 0.3, 180, 360, corners=12), 0.03)
    pail = polygon((-0.46, -0.74), (0.46, -0.74), (0.32, 0.0), (-0.32, 0.0))
    return [
        Shape(bow, _STEEL, "handle", 0.6),
        _clothe(pail, paint, "", 3),
        Shape(ellipse(0.0, -0.74, 0.46, 0.09), tint(paint.rgb, -0.35), ""),
    ]


def _bag(t: Look) -> list[Shape]:
    """The origin is the ground; the handle's top is at y = -1."""
    paint = t.paints["main"]
    ring = arc(0.0, -0.7, 0.2, 0.28, 180, 360, corners=12)
    body = rectangle(-0.44, -0.72, 0.44, 0.0, 0.08)
    return [
        Shape(ribbon(ring, 0.04), tint(paint.rgb, -0.35), "handle", 0.6),
        _clothe(body, paint, "", 3),
        Shape(rectangle(-0.44, -0.5, 0.44, -0.44), tint(paint.rgb, -0.3), "", 0),
    ]


_DRAW: dict[str, Callable[[Look], list[Shape]]] = {
    "man": _person, "woman": _person, "boy": _person, "girl": _person,
    "dog": _dog, "cat": _cat, "horse": _horse, "cow": _cow, "sheep": _sheep, "bird": _bird, "duck": _duck,
    "car": _car, "bus": _bus, "truck": _truck, "bicycle": _bicycle, "boat": _boat,
    "house": _house, "tree": _tree, "pine": _pine, "palm": _palm, "bush": _bush, "flower": _flower,
    "plant": _plant, "rock": _rock, "bench": _bench, "table": _table, "chair": _chair, "sofa": _sofa,
    "lamp": _lamp, "sign": _sign, "picture": _picture_frame, "snowman": _snowman,
    "ball": _ball, "balloon": _balloon, "umbrella": _umbrella, "kite": _kite, "flag": _flag, "book": _book,
    "cup": _cup, "box": _crate, "bucket": _bucket, "bag": _bag,
}  # fmt: skip
