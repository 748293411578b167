"""Figures: the poses of people, and the polygons of a thing from its kind, paints and traits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from deixis.data.scenes.colours import MATERIALS, PALETTE, Paint, Rgb, tint
from deixis.data.scenes.outlines import OUTLINES, Pair, Points, disc, line, rect, turn
from deixis.data.scenes.shapes import TABLE
from deixis.types import Box

Frame = tuple[float, float, float, float]  # x, y of its origin and its units along x and y; a joint has units of 1

_GAIT = (0.5, 0.05, 0.0, 0.55)  # phase of each leg of an animal: near hind, near front, far hind, far front
_STRIDE = {"walk": 0.5, "run": 1.0}
_STRIPES = 4
_SPOTS = ((0.18, 0.3, 0.13), (0.45, 0.18, 0.1), (0.4, 0.68, 0.12), (0.72, 0.42, 0.14), (0.9, 0.8, 0.08))  # x, y, radius


@dataclass(frozen=True, eq=False)
class Look:
    """What a thing is and how it is painted, wherever it stands."""

    kind: str
    paints: Mapping[str, Paint]  # "main" is the colour that captions name
    traits: Mapping[str, str]  # "pose", "hair", "top", "size", ...
    phase: float = 0.0  # of its gait, in full cycles


@dataclass(frozen=True, eq=False)
class Shape:
    """A filled polygon in a thing's own units."""

    outline: Points
    fill: Rgb
    part: str  # "roof", "wheels/1", or "" for a part without a name
    edge: bool  # has a dark edge
    layer: int  # among things that stand together, higher layers are painted later
    overlay: tuple[tuple[Points, Rgb], ...] = ()  # painted upon it and clipped to it


class Pose(NamedTuple):
    """Hands and feet (near, far) in hundredths; x is a share of the height."""

    hands: tuple[Pair, Pair] = ((17, 100), (-17, 100))  # y: 0 is at the shoulders, 100 at the hips
    feet: tuple[Pair, Pair] = ((6.5, 0), (-6.5, 0))  # y: a share of the height, from the ground
    stride: float = 0  # how far the feet swing
    swing: float = 0  # how far the hands swing
    frontal: bool = True  # the feet point to both sides, and the face is in the middle of the head


POSES = {
    "stand": Pose(),
    "walk": Pose(((11, 87), (-11, 87)), ((0, 0), (0, 0)), stride=13, swing=10, frontal=False),
    "lead": Pose(((25, 68), (-11, 87)), ((0, 0), (0, 0)), stride=13, frontal=False),
    "run": Pose(((8, 65), (-2, 65)), ((0, -3), (0, -3)), stride=20, swing=17, frontal=False),
    "wave": Pose(((25, -65), (-17, 100))),
    "hold": Pose(((25, 49), (-17, 100))),
    "hang": Pose(((20, 100), (-17, 100))),
    "carry": Pose(((8.5, 68), (-8.5, 68))),
    "kick": Pose(((22, 65), (-24, 52)), ((25, -10), (-4, 0)), frontal=False),
    "sit": Pose(((9, 90), (-9, 90)), ((8.5, 0), (-8.5, 0))),
    "ride": Pose(((24, 52), (22, 50)), ((9, -8), (8, -8)), frontal=False),
    "cycle": Pose(((31, 67), (29, 67)), ((10, -6), (10, -6)), stride=6, frontal=False),
}

# Heights and half widths of a body: head, its radius, shoulders, half their width, hips, half the width of an arm
_MAN, _WOMAN = (0.872, 0.098, 0.738, 0.118, 0.43, 0.036), (0.872, 0.098, 0.735, 0.1, 0.43, 0.031)
_CHILD = (0.815, 0.145, 0.635, 0.12, 0.345, 0.042)
BUILDS = {"man": _MAN, "woman": _WOMAN, "boy": _CHILD, "girl": _CHILD}
SEAT = 0.27  # height of the hips of someone who sits


def skeleton(look: Look) -> dict[str, Frame]:
    """Return the joints and frames of a person in own units; of anything else, none."""
    if look.kind not in BUILDS:
        return {}
    pose = look.traits["pose"]
    p, (head, radius, neck, width, hips, limb) = POSES[pose], BUILDS[look.kind]
    torso, lift = neck - hips, hips - SEAT if pose == "sit" else 0.0
    head, neck, hips = lift - head, lift - neck, lift - hips
    c, s = turn(look.phase)
    points: dict[str, Pair] = {"hip": (0.0, hips)}
    for n, (side, sign) in enumerate((("near", 1), ("far", -1))):
        shoulder, hip = (sign * (width - 0.025), neck + 0.035), (0.4 * sign * width, hips)
        hand = (p.hands[n][0] - sign * c * p.swing) / 100, neck + torso * p.hands[n][1] / 100
        foot = (p.feet[n][0] + sign * c * p.stride) / 100, (p.feet[n][1] - 0.6 * p.stride * max(-sign * s, 0)) / 100
        elbow = ((shoulder[0] + hand[0]) / 2 + 0.03 * sign, (shoulder[1] + hand[1]) / 2 + 0.04)
        knee = ((hip[0] + foot[0]) / 2 + 0.03 * (1 - p.frontal), (hip[1] + foot[1]) / 2)
        cuff = (0.2 * elbow[0] + 0.8 * hand[0], 0.2 * elbow[1] + 0.8 * hand[1])
        joints = {"shoulder": shoulder, "elbow": elbow, "hand": hand, "cuff": cuff}
        joints |= {"hip": hip, "knee": knee, "foot": foot, "ankle": (foot[0], foot[1] - 0.03)}
        points |= {f"{side}.{name}": point for name, point in joints.items()}
    points["grip"] = (0.0 if pose == "carry" else points["near.hand"][0], points["near.hand"][1])
    frames: dict[str, Frame] = {name: (x, y, 1.0, 1.0) for name, (x, y) in points.items()}
    frames["far.foot"] = (*points["far.foot"], -1.0 if p.frontal else 1.0, 1.0)
    frames["head"] = (0.0, head, radius, radius)
    frames["face"] = (0.0 if p.frontal else 0.22 * radius, head, radius, radius)
    frames["torso"] = (0.0, neck, width, torso)
    frames["limb"] = (0.0, 0.0, limb, limb)
    return frames


@dataclass(frozen=True, eq=False)
class _Row:
    part: str
    fill: str
    shade: float
    outline: str
    points: Points
    joints: tuple[str, ...]  # instead of points
    sizes: tuple[float, ...]
    conditions: tuple[tuple[str, bool, tuple[str, ...]], ...]  # trait, whether it must have one of the values, values
    options: Mapping[str, str]


@cache
def _tables() -> dict[str, list[_Row]]:
    """Rows of the table of shapes by kind."""
    rows: dict[str, list[_Row]] = {}
    shared, kind = "", ""
    for text in TABLE.strip().splitlines():
        if name := text[:9].strip():
            shared, kind, rows[name] = "", name, []
        if text[9] == "[":
            shared = text[9:].strip("[]")
        else:
            rows[kind] += _read_row(text[9:], shared)
            if both := re.search(r"both (\d)", shared):
                near, options = (side.replace("far.", "near.").replace("/1", "/0") for side in (text[9:], shared))
                rows[kind] += _read_row(near, f"{options} ; layer {both[1]}")
    return rows | dict.fromkeys(BUILDS, rows["person"])


def _read_row(text: str, shared: str) -> Iterator[_Row]:
    head, *own = text.split(";")
    part, fill, outline, groups = head.split(None, 3)
    part, _, number = part.strip("-").partition("/")
    paint, shade = re.fullmatch(r"(\w+)([+-]\d+)?", fill).groups()  # type: ignore[union-attr]
    options, sizes, conditions = {}, "", []
    for option in filter(None, map(str.strip, (*shared.split(";"), *own))):
        name, _, value = option.partition(" ")
        if name == "if":
            trait, _, values = value.partition("=")
            conditions.append((trait.strip("!"), not trait.endswith("!"), tuple(values.split(", "))))
        elif name[0].isdigit():
            sizes = option
        else:
            options[name] = value
    radii = tuple(float(size) / 100 for size in sizes.split())
    for n, group in enumerate(groups.split("|")):
        words = [point.split() for point in group.split(",")]
        points = np.array([word for word in words if len(word) == 2], dtype=np.float64).reshape(-1, 2) / 100
        joints = tuple(word[0] for word in words if len(word) == 1)
        name = f"{part}/{int(number) + n}" if number else part
        yield _Row(name, paint, float(shade or 0) / 100, outline, points, joints, radii, tuple(conditions), options)


@lru_cache(maxsize=256)
def build(look: Look) -> tuple[Shape, ...]:
    """Return the shapes of a look in the order of painting."""
    frames = {"": (0.0, 0.0, 1.0, 1.0), **skeleton(look)}
    found: list[Shape] = []
    for row in _tables()[look.kind]:
        if any((look.traits.get(trait) in values) != wanted for trait, wanted, values in row.conditions):
            continue
        frame = frames[row.options.get("in", "")]
        if row.joints:
            points = np.array([frames[joint][:2] for joint in row.joints])
            outline = OUTLINES[row.outline](points, [frame[2] * size for size in row.sizes])
        else:
            outline = _leg(row, look) if row.outline == "leg" else _outline(row, frame)
        found.append(_shape(row, look, outline, frame[2]))
    return tuple(found)


@lru_cache(maxsize=256)
def extent(look: Look) -> Box:
    """Return the box x1, y1, x2, y2 around the shapes of a look, in own units."""
    points = np.concatenate([shape.outline for shape in build(look)])
    (x1, y1), (x2, y2) = points.min(0).tolist(), points.max(0).tolist()
    return x1, y1, x2, y2


@lru_cache(maxsize=1024)
def _outline(row: _Row, frame: Frame) -> Points:
    x, y, across, down = frame
    return OUTLINES[row.outline](row.points * (across, down) + (x, y), [abs(across) * size for size in row.sizes])


def _leg(row: _Row, look: Look) -> Points:
    """A leg of an animal; it swings if the animal walks or runs."""
    (x, y), (width, stride) = row.points[0].tolist(), row.sizes
    c, s = turn(look.phase + _GAIT[int(row.part[-1])])
    reach = stride * _STRIDE.get(look.traits["pose"], 0.0)
    foot = (x + reach * c, -reach * 0.45 * max(-s, 0) - width)
    knee = ((x + foot[0]) / 2 + (-0.02 if x > 0 else 0.02), (y + foot[1]) / 2)
    return line(np.array([(x, y), knee, foot]), (1.15 * width, 0.8 * width))


def _shape(row: _Row, look: Look, outline: Points, unit: float) -> Shape:
    """The shape with its pattern or shading."""
    paint = look.paints.get(row.fill) or Paint("", MATERIALS[row.fill])
    fill, overlay = paint.shade(row.shade), tuple[tuple[Points, Rgb], ...]()
    if "pattern" in row.options and paint.pattern:
        patches = _stripes(outline) if paint.pattern == "striped" else _spots(outline)
        accent = tint(fill, -0.5) if paint.name == "white" else PALETTE["white"]
        overlay = tuple((patch, accent) for patch in patches)
    elif depth := float(row.options.get("pattern") or row.options.get("lit") or 0) / 100 * unit:
        overlay, fill = ((outline - depth, fill),), tint(fill, -0.14)
    part = look.traits[row.part[1:]] if row.part.startswith("$") else row.part
    return Shape(outline, fill, part, row.options.get("edge") != "0", int(row.options.get("layer", 0)), overlay)


def _stripes(outline: Points) -> Iterator[Points]:
    """Bands across the longer side of an outline."""
    corners = np.array([outline.min(0), outline.max(0)])
    axis = int(np.argmax(corners[1] - corners[0]))
    edges = np.linspace(corners[0, axis], corners[1, axis], 2 * _STRIPES + 1)
    for start, end in zip(edges[1::2], edges[2::2], strict=True):
        corners[:, axis] = start, end
        yield rect(corners, ())


def _spots(outline: Points) -> Iterator[Points]:
    low, high = outline.min(0), outline.max(0)
    for x, y, r in _SPOTS:
        yield disc(np.array([low + (high - low) * (x, y)]), (high - low)[:1] * (r, 0.8 * r))
