"""Vehicles, buildings, plants, furniture and small things."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deixis.data.scenes.canvas import (
    Pair,
    Points,
    Rgb,
    Shape,
    arc,
    blob,
    cloud,
    curve,
    ellipse,
    path,
    polygon,
    rectangle,
    ribbon,
    tint,
)
from deixis.data.scenes.look import DARK, STEEL, WOOD, Look, cloth, eye, rgb_of, solid, swing

_GLASS: Rgb = (190, 222, 236)
_LEAF: Rgb = (104, 164, 92)


# Vehicles -----------------------------------------------------------------------------------------------------------


def _wheel(x: float, r: float, key: int) -> list[Shape]:
    part = f"wheels/{key}"
    return [
        Shape(ellipse(x, -r, r), DARK, part),
        Shape(ellipse(x, -r, r * 0.56), (212, 214, 220), part, 0),
        Shape(ellipse(x, -r, r * 0.18, corners=12), (120, 122, 130), part, 0),
    ]


def _pane(points: Points, part: str) -> Shape:
    (x1, y1), (x2, y2) = points.min(0), points.max(0)
    w = x2 - x1
    glare = polygon((x1 + 0.25 * w, y1), (x1 + 0.5 * w, y1), (x1 + 0.25 * w, y2), (x1, y2))
    return Shape(points, _GLASS, part, 0.8, ((glare, tint(_GLASS, 0.5)),))


def _car(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    dark = tint(rgb, -0.3)
    cabin = blob(*path("-62 -55, -46 -97, 20 -100, 55 -58"), steps=6)
    hull = blob(*path("-102 -20, -104 -50, -80 -62, 50 -62, 94 -50, 104 -32, 100 -17, 0 -14"))
    return [
        solid(cabin, rgb, "", 0.03),
        _pane(blob(*path("-50 -60, -40 -88, -14 -90, -12 -60")), "windows/0"),
        _pane(blob(*path("-2 -60, -2 -90, 18 -90, 42 -60")), "windows/1"),
        solid(hull, rgb, "", 0.05),
        Shape(rectangle(-0.075, -0.56, -0.055, -0.2), dark, "", 0),
        Shape(rectangle(-0.24, -0.48, -0.13, -0.45, 0.01), dark, "", 0),
        Shape(ellipse(0.93, -0.4, 0.06, 0.07), (255, 240, 180), "", 0.6),
        Shape(rectangle(-1.04, -0.44, -0.97, -0.34, 0.02), (220, 70, 60), "", 0.6),
        *_wheel(-0.58, 0.21, 0),
        *_wheel(0.58, 0.21, 1),
    ]


def _bus(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    out = [solid(rectangle(-1.05, -1.0, 1.05, -0.13, 0.09), rgb, "", 0.04)]
    out.append(Shape(rectangle(-1.04, -0.42, 1.04, -0.34), tint(rgb, 0.55), "", 0))
    for n in range(4):
        out.append(_pane(rectangle(-0.96 + 0.4 * n, -0.88, -0.64 + 0.4 * n, -0.52, 0.03), f"windows/{n}"))
    out.append(_pane(rectangle(0.66, -0.86, 0.96, -0.16, 0.03), "door"))
    out.append(Shape(rectangle(0.8, -0.86, 0.82, -0.16), tint(rgb, -0.3), "door", 0))
    out.append(Shape(ellipse(1.0, -0.25, 0.035), (255, 240, 180), "", 0.6))
    return [*out, *_wheel(-0.62, 0.15, 0), *_wheel(0.42, 0.15, 1)]


def _truck(t: Look) -> list[Shape]:
    rgb, load = rgb_of(t, "cab"), rgb_of(t)
    cab = blob(*path("44 -16, 44 -72, 62 -78, 82 -74, 98 -44, 102 -16"), steps=6)
    return [
        Shape(rectangle(-1.0, -0.26, 0.9, -0.16), DARK, ""),
        solid(rectangle(-1.02, -1.0, 0.38, -0.24, 0.03), load, "trailer", 0.04),
        Shape(rectangle(-0.98, -0.66, 0.34, -0.56), tint(load, -0.16), "trailer", 0),
        solid(cab, rgb, "cab", 0.03),
        _pane(blob(*path("58 -46, 60 -68, 78 -67, 90 -46")), "windows/0"),
        Shape(ellipse(0.97, -0.3, 0.04), (255, 240, 180), "", 0.6),
        *_wheel(-0.68, 0.17, 0),
        *_wheel(-0.28, 0.17, 1),
        *_wheel(0.66, 0.17, 2),
    ]


def _bicycle(t: Look) -> list[Shape]:
    rgb = rgb_of(t)

    def bar(*points: Pair, width: float = 0.022, colour: Rgb = rgb, part: str = "frame") -> Shape:
        return Shape(ribbon(polygon(*points), width), colour, part, 0.7)

    out = []
    for key, x in enumerate((-0.52, 0.52)):
        rim = ellipse(x, -0.33, 0.33)
        out.append(Shape(rim, DARK, f"wheels/{key}", 0, hole=ellipse(x, -0.33, 0.27)))
        for turn in (0, 60, 120):
            c, s = swing((turn + 360 * t.phase) / 360)
            spoke = ribbon(polygon((x - 0.28 * c, -0.33 - 0.28 * s), (x + 0.28 * c, -0.33 + 0.28 * s)), 0.007)
            out.append(Shape(spoke, STEEL, f"wheels/{key}", 0))
    crank = (-0.06, -0.3)
    out += [
        bar((-0.52, -0.33), crank),
        bar((-0.52, -0.33), (-0.2, -0.72)),
        bar(crank, (-0.23, -0.8)),
        bar(crank, (0.38, -0.7)),
        bar((-0.2, -0.72), (0.38, -0.72)),
        bar((0.52, -0.33), (0.37, -0.8)),
        bar((0.37, -0.8), (0.34, -0.92), colour=STEEL),
        bar((0.24, -0.94), (0.46, -0.9), width=0.03, colour=DARK),
        Shape(ellipse(*crank, 0.07), STEEL, "frame", 0.7),
        Shape(blob(*path("-36 -86, -20 -87, -8 -83, -22 -79")), DARK, "seat", 0.7),
    ]
    return out


def _boat(t: Look) -> list[Shape]:
    hull, sail = rgb_of(t), t.paints["sail"]
    deck = blob(*path("-62 -26, 66 -30, 40 -2, 0 0, -42 -2"), steps=6)
    return [
        Shape(rectangle(-0.03, -1.0, 0.01, -0.2), WOOD, "mast", 0.7),
        cloth(polygon(*path("-7 -94, -7 -32, -55 -34")), sail, "sail", 4),
        cloth(polygon(*path("5 -90, 5 -34, 50 -36")), sail, "sail", 4),
        solid(deck, hull, "hull", 0.03),
        Shape(ribbon(polygon((-0.56, -0.22), (0.58, -0.25)), 0.02), tint(hull, 0.5), "hull", 0),
    ]


# Buildings, plants and furniture ------------------------------------------------------------------------------------


def _house(t: Look) -> list[Shape]:
    wall, roof, door = rgb_of(t), rgb_of(t, "roof"), rgb_of(t, "door")
    out = [Shape(rectangle(0.24, -0.98, 0.36, -0.6), (176, 120, 104), "chimney")]
    out.append(solid(rectangle(-0.5, -0.58, 0.5, 0.0), wall, "", 0.03))
    tiles = polygon(*path("-60 -55, -26 -94, 26 -94, 60 -55"))
    rows = tuple((rectangle(-0.7, y, 0.7, y + 0.018), tint(roof, -0.16)) for y in (-0.85, -0.75, -0.65))
    out.append(Shape(tiles, roof, "roof", overlay=rows))
    out.append(solid(rectangle(-0.11, -0.34, 0.1, 0.0, 0.02), door, "door", 0.02))
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
    crown = rgb_of(t)
    dark, light = tint(crown, -0.12), tint(crown, 0.14)
    return [
        solid(blob(*path("-8.5 0, -5 -30, -6 -55, 6 -55, 5 -30, 9 0")), rgb_of(t, "trunk"), "trunk", 0.02),
        Shape(ribbon(curve(*path("0 -36, 10 -44, 16 -54")), 0.022, 0.014), rgb_of(t, "trunk"), "trunk", 0.8),
        Shape(cloud(-0.19, -0.62, 0.2, 0.17, 9), dark, "leaves"),
        Shape(cloud(0.2, -0.6, 0.2, 0.17, 9), dark, "leaves"),
        solid(cloud(0.0, -0.74, 0.29, 0.26, 12, 0.08), crown, "leaves", 0.05),
        Shape(cloud(-0.09, -0.82, 0.12, 0.1, 8), light, "leaves", 0),
    ]


def _pine(t: Look) -> list[Shape]:
    green = rgb_of(t)
    out = [solid(rectangle(-0.05, -0.2, 0.05, 0.0), rgb_of(t, "trunk"), "trunk", 0.02)]
    for low, high, half in ((-0.14, -0.55, 0.3), (-0.36, -0.78, 0.25), (-0.6, -1.0, 0.19)):
        middle, in_ = (low + high) / 2, 0.35 * half
        skirt = blob((-half, low), (-in_, middle), (0, high), (in_, middle), (half, low), (0, low + 0.04))
        lit = (skirt - np.array([0.05, 0.04]), tint(green, 0.1))
        if t.traits.get("snowy"):
            tip = ((-half, high - 0.02), (half, high - 0.02), (in_, high + 0.18), (0, high + 0.12), (-in_, high + 0.18))
            lit = (polygon(*tip), (250, 252, 255))
        out.append(Shape(skirt, green, "leaves", overlay=(lit,)))
    return out


def _palm(t: Look) -> list[Shape]:
    leaf = rgb_of(t)
    out = [solid(ribbon(curve(*path("-6 0, -2 -30, 4 -55, 2 -78")), 0.045, 0.03), rgb_of(t, "trunk"), "trunk", 0.02)]
    for x, y in path("-40 -62, 42 -64, -30 -86, 34 -88, -10 -100, 16 -100"):
        mid = ((0.02 + x) / 2, (-0.78 + y) / 2 - 0.4 * (1 + y))
        frond = ribbon(curve((0.02, -0.78), mid, (x, y)), 0.035, 0.004)
        out.append(Shape(frond, leaf if x < 0.1 else tint(leaf, -0.12), "leaves", 0.8))
    return out


def _bush(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    out = [
        Shape(cloud(-0.42, -0.36, 0.4, 0.34, 9), tint(rgb, -0.12), "leaves"),
        Shape(cloud(0.44, -0.34, 0.4, 0.32, 9), tint(rgb, -0.12), "leaves"),
        solid(cloud(0.0, -0.5, 0.52, 0.46, 11), rgb, "leaves", 0.07),
    ]
    for x, y in ((-0.5, -0.42), (-0.14, -0.7), (0.16, -0.4), (0.5, -0.36), (-0.2, -0.26)):
        out.append(Shape(ellipse(x, y, 0.06, corners=12), rgb_of(t, "berries"), "flowers", 0))
    return out


def _flower(t: Look) -> list[Shape]:
    out = [
        Shape(ribbon(curve(*path("0 0, 3 -30, 0 -66")), 0.025), _LEAF, "stem", 0.6),
        Shape(blob(*path("2 -24, 20 -40, 30 -36, 16 -22")), _LEAF, "stem", 0.6),
    ]
    for k in range(6):
        c, s = swing(k / 6)
        out.append(Shape(ellipse(0.15 * c, -0.76 + 0.15 * s, 0.105, corners=16), rgb_of(t), "petals", 0.7))
    eye_of_it = (250, 214, 96) if t.paints["main"].name != "yellow" else (150, 96, 60)
    return [*out, Shape(ellipse(0.0, -0.76, 0.1, corners=16), eye_of_it, "petals", 0.6)]


def _plant(t: Look) -> list[Shape]:
    out = []
    for x, y in path("-34 -66, 34 -68, -20 -90, 22 -92, 0 -100"):
        leaf = ribbon(curve((0.0, -0.34), (x * 0.7, (y - 0.34) / 2 - 0.1), (x, y)), 0.05, 0.01)
        out.append(Shape(leaf, _LEAF if x < 0 else tint(_LEAF, -0.12), "leaves", 0.8))
    pot = polygon(*path("-24 -40, 24 -40, 17 0, -17 0"))
    return [
        *out,
        solid(pot, rgb_of(t), "pot", 0.03),
        Shape(rectangle(-0.27, -0.44, 0.27, -0.34, 0.02), tint(rgb_of(t), 0.12), "pot"),
    ]


def _rock(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    stone = blob(*path("-85 -2, -78 -50, -30 -94, 30 -90, 72 -56, 86 -4, 0 2"), steps=4)
    return [solid(stone, rgb, "", 0.14), Shape(polygon(*path("-30 -70, -5 -60, -16 -50")), tint(rgb, -0.22), "", 0)]


def _bench(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    dark = tint(rgb, -0.45)
    out = [Shape(rectangle(x, -0.95, x + 0.07, -0.02), dark, "legs") for x in (-0.92, 0.85)]
    for y in (-0.98, -0.76):
        out.append(Shape(rectangle(-1.05, y, 1.05, y + 0.15, 0.03), rgb, "back"))
    for x in (-0.95, 0.88):
        out.append(Shape(rectangle(x - 0.02, -0.46, x + 0.09, 0.0, 0.02), dark, "legs"))
    out.append(solid(rectangle(-1.1, -0.52, 1.1, -0.36, 0.04), tint(rgb, 0.12), "seat", 0.03))
    return out


def _table(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    out = [Shape(rectangle(x, -0.82, x + 0.08, -0.1), tint(rgb, -0.35), "legs") for x in (-0.62, 0.54)]
    out += [Shape(rectangle(x, -0.86, x + 0.1, 0.0), tint(rgb, -0.15), "legs") for x in (-0.86, 0.76)]
    out.append(solid(rectangle(-1.0, -1.0, 1.0, -0.84, 0.04), rgb, "top", 0.03))
    return out


def _chair(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    dark = tint(rgb, -0.3)
    out = [Shape(rectangle(x, -0.44, x + 0.055, -0.06), tint(rgb, -0.42), "legs") for x in (-0.2, 0.15)]
    out += [Shape(rectangle(x, -1.0, x + 0.06, 0.0, 0.01), dark, "legs") for x in (-0.32, 0.26)]
    out += [Shape(rectangle(-0.3, y, 0.3, y + 0.1, 0.02), rgb, "back") for y in (-0.97, -0.78)]
    out.append(solid(rectangle(-0.36, -0.5, 0.36, -0.39, 0.03), tint(rgb, 0.1), "seat", 0.02))
    return out


def _sofa(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    rgb = paint.rgb
    out = [Shape(rectangle(x, -0.12, x + 0.1, 0.0), WOOD, "legs") for x in (-1.1, 1.0)]
    out.append(cloth(rectangle(-1.15, -1.0, 1.15, -0.2, 0.14), paint, "back", 5))
    out.append(solid(rectangle(-1.1, -0.56, 0.0, -0.1, 0.08), tint(rgb, 0.12), "seat", 0.04))
    out.append(solid(rectangle(0.0, -0.56, 1.1, -0.1, 0.08), tint(rgb, 0.12), "seat", 0.04))
    out.append(solid(rectangle(-1.32, -0.7, -1.02, -0.06, 0.12), rgb, "arms", 0.03))
    out.append(solid(rectangle(1.02, -0.7, 1.32, -0.06, 0.12), rgb, "arms", 0.03))
    return out


def _lamp(t: Look) -> list[Shape]:
    if t.traits.get("indoors"):
        shade = polygon(*path("-10 -100, 10 -100, 19 -74, -19 -74"))
        return [
            Shape(rectangle(-0.02, -0.76, 0.02, -0.04), STEEL, "pole"),
            Shape(rectangle(-0.13, -0.05, 0.13, 0.0, 0.02), STEEL, "pole"),
            cloth(shade, t.paints["main"], "shade", 3),
        ]
    rgb = rgb_of(t)
    return [
        Shape(rectangle(-0.022, -0.86, 0.022, 0.0), rgb, "pole"),
        Shape(rectangle(-0.06, -0.06, 0.06, 0.0, 0.015), rgb, "pole"),
        Shape(polygon(*path("-7.5 -86, 7.5 -86, 10 -96, -10 -96")), (255, 236, 166), "light"),
        Shape(polygon(*path("-12 -95.5, 12 -95.5, 0 -100")), rgb, "pole"),
    ]


def _sign(t: Look) -> list[Shape]:
    plate = arc(0.0, -0.78, 0.24, 0.24, 22, 337, corners=8)
    return [
        Shape(rectangle(-0.022, -0.8, 0.022, 0.0), STEEL, "pole"),
        solid(plate, rgb_of(t), "plate", 0.02),
        Shape(rectangle(-0.15, -0.82, 0.15, -0.74, 0.01), (252, 250, 246), "plate", 0),
    ]


def _picture(t: Look) -> list[Shape]:
    view = rectangle(-0.56, -0.9, 0.56, -0.1)
    hills = (
        (rectangle(-0.6, -0.46, 0.6, 0.0), rgb_of(t)),
        (ellipse(-0.2, -0.4, 0.34, 0.18), tint(rgb_of(t), -0.16)),
        (ellipse(0.3, -0.68, 0.1), (250, 216, 120)),
    )
    return [
        solid(rectangle(-0.68, -1.0, 0.68, 0.0, 0.02), WOOD, "frame", 0.03),
        Shape(view, tint(rgb_of(t), 0.75), "", overlay=hills),
    ]


def _snowman(t: Look) -> list[Shape]:
    snow = (250, 251, 255)
    scarf = t.paints["scarf"]
    out = []
    for key, side in enumerate((1, -1)):
        arm = ribbon(curve((side * 0.2, -0.52), (side * 0.36, -0.6), (side * 0.5, -0.72)), 0.018, 0.01)
        out.append(Shape(arm, (120, 84, 60), f"arms/{key}", 0.7))
    out += [
        solid(ellipse(0.0, -0.23, 0.3, 0.24), snow, "body", 0.04),
        solid(ellipse(0.0, -0.53, 0.22, 0.19), snow, "body", 0.03),
        solid(ellipse(0.0, -0.77, 0.16, 0.15), snow, "head", 0.02),
        cloth(rectangle(-0.16, -0.67, 0.16, -0.6, 0.03), scarf, "scarf", 2),
        Shape(rectangle(0.05, -0.64, 0.13, -0.44, 0.02), tint(scarf.rgb, -0.12), "scarf"),
        Shape(polygon(*path("1 -79, 20 -75, 1 -74")), (240, 140, 50), "head", 0.6),
        eye(-0.055, -0.82, 0.02, "head"),
        eye(0.055, -0.82, 0.02, "head"),
        Shape(ellipse(-0.02, -0.5, 0.02, corners=12), DARK, "body", 0),
        Shape(ellipse(-0.02, -0.4, 0.02, corners=12), DARK, "body", 0),
        Shape(rectangle(-0.11, -1.0, 0.11, -0.88, 0.01), DARK, "hat"),
        Shape(rectangle(-0.18, -0.9, 0.18, -0.865, 0.015), DARK, "hat"),
    ]
    return out


# Small things -------------------------------------------------------------------------------------------------------


def _ball(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    disc = ellipse(0.0, -0.5, 0.5)
    c, s = swing(t.phase)
    if paint.pattern == "striped":
        lines = [
            polygon((-0.6 * c - k * s, -0.5 - 0.6 * s + k * c), (0.6 * c - k * s, -0.5 + 0.6 * s + k * c))
            for k in (-0.28, 0.1)
        ]
        return [Shape(disc, paint.rgb, "", overlay=tuple((ribbon(line, 0.09), paint.accent) for line in lines))]
    if paint.pattern == "spotted":
        dots = [(0.3 * x, -0.5 + 0.3 * y) for x, y in ((c, s), (-c, -s), (s, -c), (-s, c))]
        return [Shape(disc, paint.rgb, "", overlay=tuple((ellipse(x, y, 0.12), paint.accent) for x, y in dots))]
    return [
        solid(disc, paint.rgb, "", 0.12),
        Shape(ellipse(-0.16, -0.68, 0.11, 0.08, -30), tint(paint.rgb, 0.55), "", 0),
    ]


def _balloon(t: Look) -> list[Shape]:
    """The origin is the lower end of its string, unless that is held elsewhere."""
    paint = t.paints["main"]
    end = t.held or (0.0, 0.0)
    string = ribbon(curve(end, (0.5 * end[0] + 0.03, 0.5 * end[1] - 0.25), (0.0, -0.54)), 0.008)
    skin = blob(*path("0 -54, 19 -70, 17 -93, 0 -100, -17 -93, -19 -70"))
    return [
        Shape(string, (120, 116, 120), "string", 0),
        Shape(polygon(*path("0 -56, 3.5 -51, -3.5 -51")), tint(paint.rgb, -0.2), "", 0.6),
        cloth(skin, paint, "", 4),
        Shape(ellipse(-0.07, -0.86, 0.04, 0.06, 20), tint(paint.rgb, 0.55), "", 0),
    ]


def _umbrella(t: Look) -> list[Shape]:
    """The origin is the hand's place at the handle, or the foot of a parasol."""
    paint = t.paints["main"]
    foot = 0.0 if t.traits.get("standing") else 0.12
    base, top = -0.62, -0.98
    rim = [(-0.5 + 0.25 * k, base + 0.035 - (0.05 if k % 2 else 0.0)) for k in range(5)]
    dome = np.concatenate([arc(0.0, base, 0.5, base - top, 180, 360), curve(*reversed(rim), steps=4)])
    tone = paint.accent if paint.pattern == "striped" else tint(paint.rgb, -0.1)
    fan = ((-0.5, -0.25), (0.0, 0.25))
    panels = tuple((polygon((a, base + 0.05), (0.0, top), (b, base + 0.05)), tone) for a, b in fan)
    out = [Shape(rectangle(-0.014, top - 0.03, 0.014, foot), WOOD, "handle", 0.7)]
    if not t.traits.get("standing"):
        hook = curve((0.0, foot), (0.02, foot + 0.05), (0.07, foot + 0.04), (0.075, foot))
        out.append(Shape(ribbon(hook, 0.016), WOOD, "handle", 0.7))
    return [*out, Shape(dome, paint.rgb, "canopy", overlay=panels)]


def _kite(t: Look) -> list[Shape]:
    """The origin is the end of its tail."""
    paint = t.paints["main"]
    tail = curve(*path("0 0, 7 -12, -5 -24, 4 -36, 0 -45"))
    diamond = polygon(*path("0 -100, 26 -76, 0 -44, -26 -76"))
    quarters = tuple(
        (polygon(*path(p)), tint(paint.rgb, -0.12)) for p in ("0 -100, 26 -76, 0 -76", "0 -44, -26 -76, 0 -76")
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
    return [*out, Shape(diamond, paint.rgb, "", overlay=quarters)]


def _flag(t: Look) -> list[Shape]:
    """The origin is the lower end of the pole."""
    paint = t.paints["main"]
    c, _ = swing(t.phase)
    sheet = blob(
        (0.02, -0.98),
        (0.2, -1.02 + 0.02 * c),
        (0.42, -0.95 - 0.02 * c),
        (0.44, -0.66 - 0.02 * c),
        (0.22, -0.72 + 0.02 * c),
        (0.02, -0.67),
    )
    return [cloth(sheet, paint, "", 3), Shape(rectangle(-0.015, -1.02, 0.018, 0.0), WOOD, "pole", 0.7)]


def _book(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    return [
        Shape(rectangle(-0.46, -0.96, 0.5, -0.04, 0.03), (250, 246, 232), "pages"),
        solid(rectangle(-0.5, -1.0, 0.42, 0.0, 0.04), rgb, "cover", 0.05),
        Shape(rectangle(-0.3, -0.8, 0.24, -0.62, 0.02), tint(rgb, 0.6), "cover", 0),
    ]


def _cup(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    ring = arc(0.4, -0.55, 0.3, 0.3, 0, 350)
    body = blob(*path("-40 -100, 40 -100, 36 -20, 22 0, -22 0, -36 -20"), steps=5)
    return [
        Shape(ring, paint.rgb, "handle", hole=arc(0.4, -0.55, 0.18, 0.18, 0, 350)),
        cloth(body, paint, "", 3),
        Shape(ellipse(0.0, -0.97, 0.37, 0.09), (110, 72, 52), "", 0.8),
    ]


def _box(t: Look) -> list[Shape]:
    rgb = rgb_of(t)
    return [
        solid(rectangle(-0.55, -0.9, 0.55, 0.0, 0.02), rgb, "", 0.06),
        Shape(rectangle(-0.6, -1.0, 0.6, -0.78, 0.02), tint(rgb, 0.14), "lid"),
        Shape(rectangle(-0.1, -1.0, 0.1, 0.0), tint(rgb, -0.22), "", 0),
    ]


def _bucket(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    bow = ribbon(arc(0.0, -0.76, 0.42, 0.3, 180, 360, corners=12), 0.03)
    pail = polygon(*path("-46 -74, 46 -74, 32 0, -32 0"))
    return [
        Shape(bow, STEEL, "handle", 0.6),
        cloth(pail, paint, "", 2),
        Shape(ellipse(0.0, -0.74, 0.46, 0.06), tint(paint.rgb, -0.2), ""),
    ]


def _bag(t: Look) -> list[Shape]:
    """The origin is the ground; the handle's top is at y = -1."""
    paint = t.paints["main"]
    ring = arc(0.0, -0.7, 0.2, 0.28, 180, 360, corners=12)
    body = rectangle(-0.44, -0.72, 0.44, 0.0, 0.08)
    return [
        Shape(ribbon(ring, 0.04), tint(paint.rgb, -0.35), "handle", 0.6),
        cloth(body, paint, "", 3),
        Shape(rectangle(-0.44, -0.5, 0.44, -0.44), tint(paint.rgb, -0.3), "", 0),
    ]


DRAW: dict[str, Callable[[Look], list[Shape]]] = {
    "car": _car, "bus": _bus, "truck": _truck, "bicycle": _bicycle, "boat": _boat,
    "house": _house, "tree": _tree, "pine": _pine, "palm": _palm, "bush": _bush, "flower": _flower,
    "plant": _plant, "rock": _rock, "bench": _bench, "table": _table, "chair": _chair, "sofa": _sofa,
    "lamp": _lamp, "sign": _sign, "picture": _picture, "snowman": _snowman,
    "ball": _ball, "balloon": _balloon, "umbrella": _umbrella, "kite": _kite, "flag": _flag, "book": _book,
    "cup": _cup, "box": _box, "bucket": _bucket, "bag": _bag,
}  # fmt: skip
