"""People: joints by pose, then clothes, head and hat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deixis.data.scenes.canvas import (
    Pair,
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
    path,
    polygon,
    rectangle,
    ribbon,
    tint,
)
from deixis.data.scenes.look import DARK, Look, bend, cloth, eye, rgb_of, solid, swing

_ROSE: Rgb = (240, 160, 150)


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
    hands: tuple[Pair, Pair] = ((wide + 0.05, hips), (-wide - 0.05, hips))
    feet: tuple[Pair, Pair] = ((0.065, 0.0), (-0.065, 0.0))
    elbows: tuple[Pair, Pair] = ((1.0, 0.4), (-1.0, 0.4))
    knees: tuple[Pair, Pair] = ((1.0, 0.0), (1.0, 0.0))
    c, s = swing(t.phase)
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
        hands = ((wide + 0.09, hips), hands[1])
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
        joints[f"{side} elbow"], joints[f"{side} hand"] = bend(shoulder, target, b.bone, elbows[n])
        root = (sign * (b.hip[1] - 0.042), hips - lift)
        joints[f"{side} hip"] = root
        if pose == "sit":  # seen from the front: the thighs point at us
            joints[f"{side} knee"], joints[f"{side} foot"] = (sign * 0.085, root[1] + 0.05), feet[n]
        else:
            joints[f"{side} knee"], joints[f"{side} foot"] = bend(root, feet[n], (b.hip[0] - 0.02) / 2, knees[n])
    return joints


def person(t: Look) -> list[Shape]:
    """Anyone, by kind, clothes and pose."""
    b, j = _BUILDS[t.kind], _limbs(t)
    return [*_arm(t, b, j, "far"), *_legs(t, b, j), *_torso(t, b, j), *_head(t, b, j), *_arm(t, b, j, "near")]


def _arm(t: Look, b: _Build, j: dict[str, Pair], side: str) -> list[Shape]:
    top, skin = t.paints["top"], rgb_of(t, "skin")
    layer = 2 if side == "near" or t.traits.get("pose") == "carry" else 0
    shoulder, elbow, wrist = j[f"{side} shoulder"], j[f"{side} elbow"], j[f"{side} hand"]
    key = "arms/0" if side == "near" else "arms/1"
    palm = Shape(ellipse(*wrist, b.limb * 1.05, corners=16), skin, key, layer=layer)
    if t.traits["top"] in ("jacket", "sweater", "coat"):
        cuff = (wrist[0] + (elbow[0] - wrist[0]) * 0.15, wrist[1] + (elbow[1] - wrist[1]) * 0.15)
        sleeve = bent(shoulder, elbow, cuff, b.limb * 1.15, b.limb * 0.95)
        return [palm, cloth(sleeve, top, t.traits["top"], 4, layer)]
    end = (shoulder[0] + (elbow[0] - shoulder[0]) * 0.72, shoulder[1] + (elbow[1] - shoulder[1]) * 0.72)
    bare = Shape(bent(shoulder, elbow, wrist, b.limb, b.limb * 0.8), skin, key, layer=layer)
    return [bare, palm, cloth(limb(shoulder, end, b.limb * 1.18, b.limb * 1.15), top, t.traits["top"], 2, layer)]


def _legs(t: Look, b: _Build, j: dict[str, Pair]) -> list[Shape]:
    bottom, skin, garment = t.paints["bottom"], rgb_of(t, "skin"), t.traits["bottom"]
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
        out.append(Shape(shoe, rgb_of(t, "shoes"), f"shoes/{key}"))
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
        out.append(cloth(flare, bottom, "skirt", 3))
    elif t.traits["bottom"] != "dress":
        out.append(Shape(rectangle(-hips, low - 0.06, hips, low + 0.035, 0.03), bottom.rgb, t.traits["bottom"]))
    waist = hips * (0.86 if t.kind == "woman" else 1.0)
    if side_on:
        wide, waist = wide * 0.9, waist * 0.95
    if t.traits["top"] == "dress":
        body = blob(
            (-wide * 0.72, high - 0.012),
            (wide * 0.72, high - 0.012),
            (wide, high + 0.05),
            (waist * 0.85, low - 0.1),
            (hips * 1.85, low + 0.16),
            (0, low + 0.185),
            (-hips * 1.85, low + 0.16),
            (-waist * 0.85, low - 0.1),
            (-wide, high + 0.05),
        )
    else:
        hem = low + (0.06 if t.traits["top"] == "coat" else 0.0)
        body = blob(
            (-wide * 0.72, high - 0.012),
            (wide * 0.72, high - 0.012),
            (wide, high + 0.05),
            (waist, low - 0.13),
            (hips * 1.08, hem),
            (-hips * 1.08, hem),
            (-waist, low - 0.13),
            (-wide, high + 0.05),
        )
    out.append(cloth(body, top, t.traits["top"], 6 if t.traits["top"] == "dress" else 4))
    if t.traits["top"] in ("jacket", "coat"):
        seam = tint(top.rgb, -0.4)
        out.append(Shape(rectangle(-0.006, high + 0.02, 0.006, low - 0.005), seam, t.traits["top"], 0))
    elif t.traits["top"] == "dress":
        belt = rectangle(-waist * 0.86, low - 0.115, waist * 0.86, low - 0.09, 0.01)
        out.append(Shape(belt, tint(top.rgb, -0.35), "dress", 0))
    return out


def _head(t: Look, b: _Build, j: dict[str, Pair]) -> list[Shape]:
    skin, hair = rgb_of(t, "skin"), rgb_of(t, "hair")
    r = b.head[1]
    x, y = 0.0, j["neck"][1] - (b.head[0] - b.shoulder[0])
    turn = 0.0 if t.traits.get("pose") in ("stand", "sit", "jump", "carry") else 0.22 * r
    tall = 1.1 * r
    out = []
    if t.traits["hair"] == "long":
        back = blob(*path("-95 -50, 0 -122, 95 -50, 112 90, 60 155, -60 155, -112 90", (x, y), r))
        out.append(solid(back, hair, "hair", 0.02))
    elif t.traits["hair"] == "tied":
        out.append(solid(ellipse(x - 1.0 * r, y + 0.35 * r, 0.36 * r, 0.75 * r, 12), hair, "hair", 0.015))
        out.append(solid(ellipse(x + 1.0 * r, y + 0.35 * r, 0.36 * r, 0.75 * r, -12), hair, "hair", 0.015))
    elif t.traits["hair"] == "curly":
        out.append(solid(cloud(x, y - 0.3 * r, 1.3 * r, 1.15 * r, 11, 0.08), hair, "hair", 0.02))
    out.append(Shape(limb((x, y + 0.6 * r), (x, y + 1.4 * r), 0.33 * r), tint(skin, -0.1), "face", 0.6))
    out.append(Shape(ellipse(x - 0.96 * r, y + 0.1 * r, 0.2 * r, 0.26 * r, corners=12), skin, "face"))
    out.append(Shape(ellipse(x + 0.96 * r, y + 0.1 * r, 0.2 * r, 0.26 * r, corners=12), skin, "face"))
    out.append(Shape(ellipse(x, y, r, tall), skin, "face"))
    f = x + turn
    for at in (f - 0.55 * r, f + 0.55 * r):
        cheek = ellipse(at, y + 0.35 * r, 0.17 * r, 0.12 * r, corners=12)
        out.append(Shape(cheek, blend(skin, _ROSE, 0.6), "face", 0))
    if t.traits.get("beard"):
        chin, lip = arc(x, y, 1.02 * r, tall * 1.04, 5, 175), arc(x, y + 0.18 * r, 0.62 * r, 0.2 * r, 180, 0)
        out.append(Shape(np.concatenate([chin, lip]), hair, "beard", 0.7))
    mouth = ribbon(arc(f, y + 0.32 * r, 0.3 * r, 0.22 * r, 20, 160, corners=7), 0.04 * r)
    out.append(Shape(mouth, (150, 70, 70), "face", 0))
    out.append(eye(f - 0.34 * r, y - 0.02 * r, 0.105 * r, "face"))
    out.append(eye(f + 0.34 * r, y - 0.02 * r, 0.105 * r, "face"))
    if t.traits.get("glasses"):
        for at in (f - 0.36 * r, f + 0.36 * r):
            out.append(Shape(ellipse(at, y - 0.01 * r, 0.27 * r, 0.23 * r, corners=16), DARK, "glasses", 0))
        out.append(Shape(rectangle(f - 0.2 * r, y - 0.09 * r, f + 0.2 * r, y - 0.01 * r), DARK, "glasses", 0))
    out.append(_fringe(t, hair, x, y, r, tall))
    return out + _hat(t, x, y, r, tall)


def _fringe(t: Look, hair: Rgb, x: float, y: float, r: float, tall: float) -> Shape:
    crown = arc(x, y - 0.06 * r, 1.06 * r, tall * 1.06, 188, 352, corners=16)
    if t.traits["hair"] == "short":
        edge = polygon(*path("92 -20, 60 -50, -50 -46, -92 -16", (x, y), r))
    elif t.traits["hair"] == "curly":
        edge = curve(*path("98 -5, 60 -50, -60 -50, -98 -5", (x, y), r))
    else:
        edge = curve(*path("98 10, 70 -42, -10 -62, -75 -36, -98 12", (x, y), r))
    return solid(np.concatenate([crown, edge]), hair, "hair", 0.016)


def _hat(t: Look, x: float, y: float, r: float, tall: float) -> list[Shape]:
    style = t.traits.get("hat", "")
    if not style:
        return []
    paint = t.paints["hat"]
    if style == "cap":
        dome = arc(x, y - 0.42 * r, 1.08 * r, 0.88 * tall, 180, 360)
        visor = blob(*path("10 -50, 100 -58, 172 -34, 90 -36", (x, y), r))
        return [cloth(dome, paint, "cap", 2), Shape(visor, tint(paint.rgb, -0.2), "cap")]
    if style == "beanie":
        dome = arc(x, y - 0.4 * r, 1.1 * r, 0.98 * tall, 180, 360)
        band = rectangle(x - 1.14 * r, y - 0.62 * r, x + 1.14 * r, y - 0.26 * r, 0.12 * r)
        bobble = ellipse(x, y - 1.5 * r, 0.24 * r)
        return [
            Shape(bobble, tint(paint.rgb, 0.35), "hat"),
            cloth(dome, paint, "hat", 2),
            Shape(band, tint(paint.rgb, 0.25), "hat"),
        ]
    crown = blob(*path("-78 -50, -66 -150, 66 -150, 78 -50", (x, y), r))
    brim = ellipse(x, y - 0.55 * r, 1.72 * r, 0.26 * r)
    band = rectangle(x - 0.76 * r, y - 0.82 * r, x + 0.76 * r, y - 0.62 * r)
    return [
        solid(crown, paint.rgb, "hat", 0.015),
        Shape(band, tint(paint.rgb, -0.35), "hat", 0),
        Shape(brim, paint.rgb, "hat"),
    ]


DRAW = dict.fromkeys(_BUILDS, person)
