"""Animals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deixis.data.scenes.canvas import (
    PALETTE,
    Paint,
    Points,
    Rgb,
    Shape,
    bent,
    blend,
    blob,
    cloud,
    curve,
    ellipse,
    limb,
    path,
    polygon,
    ribbon,
    stripes,
    tint,
)
from deixis.data.scenes.look import Look, bend, coat, eye, rgb_of, solid, swing

_BEAK: Rgb = (240, 165, 50)


def _gait(t: Look, xs: tuple[float, ...], top: float, width: float, rgb: Rgb, stride: float) -> list[Shape]:
    """Four legs, the two far ones first and darker; they swing while the animal walks or runs."""
    pose = t.traits.get("pose", "stand")
    reach = {"walk": 0.5, "run": 1.0}.get(pose, 0.0) * stride
    out = []
    for n, x in enumerate(xs):
        c, s = swing(t.phase + (0.0, 0.5, 0.55, 0.05)[n])
        foot = (x + reach * c, -reach * 0.45 * max(-s, 0) - width)
        tone = tint(rgb, -0.2) if n % 2 == 0 else rgb
        knee, end = bend((x, top), foot, (foot[1] - top) * 0.52, (-1.0 if x > 0 else 1.0, 0.0))
        out.append(Shape(bent((x, top), knee, end, width * 1.15, width * 0.8), tone, f"legs/{n}"))
    return [out[0], out[2], out[1], out[3]]


def _dog(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    fur, ear = paint.rgb, tint(paint.rgb, -0.3)
    if paint.name == "black":
        ear = tint(fur, 0.12)
    c, _ = swing(t.phase)
    sit = t.traits.get("pose") == "sit"
    out = []
    if sit:
        hx, hy = 0.2, -0.8
        out.append(Shape(ribbon(curve(*path("-30 -10, -50 -8, -62 -20, -64 -34")), 0.055, 0.03), fur, "tail"))
        out.append(Shape(limb((0.2, -0.4), (0.2, -0.05), 0.06, 0.05), tint(fur, -0.2), "legs/0"))
        out.append(coat(blob(*path("-36 -6, -38 -30, -10 -58, 16 -70, 28 -50, 22 -25, 5 -4")), paint, "body"))
        out.append(solid(ellipse(-0.17, -0.19, 0.2, 0.19), fur, "legs/1", 0.03))
        out.append(Shape(limb((-0.12, -0.05), (0.04, -0.045), 0.045), fur, "legs/1"))
        out.append(Shape(limb((0.12, -0.42), (0.13, -0.05), 0.06, 0.05), fur, "legs/2"))
        collar = polygon(*path("2 -68, 30 -56, 28 -49, 0 -60"))
    else:
        hx, hy = 0.5, -0.8
        tail = curve((-0.4, -0.55), (-0.52, -0.66), (-0.57 - 0.03 * c, -0.8), (-0.55 - 0.07 * c, -0.93))
        out.append(Shape(ribbon(tail, 0.06, 0.03), fur, "tail"))
        out += _gait(t, (-0.3, -0.38, 0.3, 0.2), -0.42, 0.058, fur, 0.2)
        body = blob(*path("-46 -52, -32 -69, 5 -66, 36 -72, 45 -50, 28 -33, -5 -38, -38 -34"))
        out.append(coat(body, paint, "body"))
        out.append(Shape(limb((0.32, -0.58), (0.46, -0.74), 0.13, 0.13), fur, "body", 0))
        collar = polygon(*path("27 -74, 33 -79, 56 -60, 51 -54"))
    if t.held is not None:
        x, y = float(collar[:, 0].mean()), float(collar[:, 1].mean())
        sag = ((x + t.held[0]) / 2, max((y + t.held[1]) / 2, min(y, t.held[1]) + 0.1))
        out.append(Shape(ribbon(curve((x, y), sag, t.held), 0.018), rgb_of(t, "collar"), "leash", 0.5, layer=1))
    if "collar" in t.paints:
        out.append(Shape(collar, rgb_of(t, "collar"), "collar"))
    out.append(solid(ellipse(hx, hy, 0.2, 0.19), fur, "head", 0.03))
    out.append(Shape(ellipse(hx + 0.18, hy + 0.06, 0.14, 0.1, 8), tint(fur, 0.16), "head"))
    out.append(Shape(ellipse(hx + 0.3, hy + 0.02, 0.045, 0.037), (48, 42, 46), "head", 0))
    out.append(eye(hx + 0.07, hy - 0.06, 0.03, "head"))
    flap = blob(*path("-10 -18, -2 -10, -6 14, -17 17, -20 -4", (hx, hy)))
    out.append(Shape(flap, ear, "ears"))
    return out


def _cat(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    fur, inner = paint.rgb, blend(paint.rgb, PALETTE["pink"], 0.6)
    c, _ = swing(t.phase)
    out = []
    if t.traits.get("pose") == "sit":
        hx, hy = 0.0, -0.74
        tail = curve((0.2, -0.08), (0.45, -0.06), (0.52, -0.24), (0.46, -0.4 - 0.03 * c))
        out.append(Shape(ribbon(tail, 0.06, 0.045), fur, "tail"))
        pear = blob(*path("-26 -4, -31 -24, -16 -58, 16 -58, 31 -24, 26 -4, 0 0"))
        out.append(_clothe_fur(pear, paint, "body"))
        out.append(Shape(limb((-0.08, -0.34), (-0.09, -0.05), 0.06), fur, "legs/0", 0.7))
        out.append(Shape(limb((0.08, -0.34), (0.09, -0.05), 0.06), fur, "legs/1", 0.7))
    else:
        hx, hy = 0.46, -0.72
        tail = curve((-0.38, -0.5), (-0.54, -0.62), (-0.52, -0.82), (-0.6 + 0.05 * c, -1.0))
        out.append(Shape(ribbon(tail, 0.055, 0.04), fur, "tail"))
        out += _gait(t, (-0.26, -0.34, 0.28, 0.2), -0.36, 0.05, fur, 0.17)
        body = blob(*path("-43 -42, -30 -60, 5 -56, 34 -60, 42 -42, 28 -27, -30 -27"))
        out.append(_clothe_fur(body, paint, "body"))
    for side, key in ((-1, 0), (1, 1)):
        ear = polygon((hx + side * 0.21, hy - 0.06), (hx + side * 0.19, hy - 0.32), (hx + side * 0.03, hy - 0.17))
        out.append(Shape(ear, fur, f"ears/{key}"))
        small = polygon((hx + side * 0.18, hy - 0.12), (hx + side * 0.17, hy - 0.25), (hx + side * 0.08, hy - 0.17))
        out.append(Shape(small, inner, f"ears/{key}", 0))
    out.append(solid(ellipse(hx, hy, 0.23, 0.2), fur, "head", 0.025))
    for side in (-1, 1):
        out.append(Shape(ellipse(hx + side * 0.09, hy - 0.01, 0.042, 0.052, corners=16), (250, 226, 120), "head", 0.5))
        out.append(Shape(ellipse(hx + side * 0.09, hy - 0.01, 0.017, 0.045, corners=12), (40, 36, 40), "head", 0))
        for drop in (0.0, 0.05):
            whisker = ribbon(polygon((hx + side * 0.08, hy + 0.09), (hx + side * 0.3, hy + 0.06 + drop)), 0.006)
            out.append(Shape(whisker, (250, 248, 244), "head", 0))
    out.append(Shape(polygon(*path("-3 5, 3 5, 0 8.5", (hx, hy))), (220, 130, 130), "head", 0))
    return out


def _clothe_fur(points: Points, paint: Paint, part: str) -> Shape:
    """A cat's coat: plain, or with tabby stripes of a darker tone."""
    if paint.pattern != "striped":
        return solid(points, paint.rgb, part, 0.03)
    (x1, y1), (x2, y2) = points.min(0), points.max(0)
    dark = tint(paint.rgb, -0.45)
    bars = stripes(float(x1), float(y1), float(x2), float(y2), 6, upright=bool(x2 - x1 > y2 - y1))
    return Shape(points, paint.rgb, part, overlay=tuple((bar, dark) for bar in bars))


def _horse(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    hide = paint.rgb
    mane = tint(hide, -0.5) if paint.name != "black" else tint(hide, 0.3)
    c, _ = swing(t.phase)
    tail = curve((-0.44, -0.62), (-0.56, -0.56), (-0.58 - 0.03 * c, -0.4), (-0.54 - 0.05 * c, -0.22))
    out = [Shape(ribbon(tail, 0.05, 0.03), mane, "tail")]
    out += _gait(t, (-0.32, -0.4, 0.3, 0.22), -0.46, 0.046, hide, 0.17)
    body = blob(*path("-48 -56, -40 -70, -10 -66, 20 -70, 38 -62, 36 -46, 10 -41, -20 -42, -42 -44"))
    out.append(coat(body, paint, "body"))
    neck = blob(*path("14 -64, 30 -82, 44 -98, 56 -90, 48 -72, 40 -52"))
    out.append(Shape(neck, hide, "body"))
    out.append(Shape(blob(*path("8 -67, 22 -86, 40 -102, 50 -100, 36 -86, 24 -68")), mane, "mane"))
    out.append(Shape(polygon(*path("46 -98, 50 -110, 55 -97")), hide, "head"))
    out.append(solid(blob(*path("42 -96, 52 -102, 68 -90, 80 -78, 76 -70, 66 -72, 50 -82")), hide, "head", 0.02))
    out.append(Shape(ellipse(0.755, -0.755, 0.05, 0.045), tint(hide, -0.2), "head", 0))
    out.append(eye(0.56, -0.92, 0.02, "head"))
    if "saddle" in t.paints:
        out.append(Shape(blob(*path("-14 -68, 10 -68, 12 -56, -2 -50, -16 -56")), rgb_of(t, "saddle"), "saddle"))
    return out


def _cow(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    hide = paint.rgb
    c, _ = swing(t.phase)
    out = [Shape(ribbon(curve((-0.56, -0.78), (-0.66, -0.66), (-0.64 - 0.04 * c, -0.42)), 0.022, 0.018), hide, "tail")]
    out.append(Shape(ellipse(-0.64 - 0.04 * c, -0.38, 0.035, 0.06), tint(hide, -0.5), "tail"))
    out += _gait(t, (-0.34, -0.46, 0.36, 0.24), -0.4, 0.06, hide, 0.16)
    out.append(Shape(ellipse(-0.24, -0.34, 0.11, 0.07), PALETTE["pink"], "body"))
    body = blob(*path("-58 -50, -54 -82, -10 -82, 36 -86, 50 -66, 44 -40, 0 -33, -50 -36"))
    out.append(coat(body, paint, "body"))
    for side in (0, 1):
        root = 0.47 + 0.18 * side
        horn = blob((root, -0.9), (root + 0.08 * side - 0.04, -1.04), (root + 0.05, -0.92))
        out.append(Shape(horn, (236, 224, 200), "horns"))
    out.append(Shape(ellipse(0.42, -0.86, 0.1, 0.05, 18), tint(hide, -0.25), "ears"))
    out.append(solid(blob(*path("42 -88, 56 -95, 70 -88, 76 -64, 66 -54, 50 -62")), hide, "head", 0.03))
    out.append(Shape(ellipse(0.68, -0.6, 0.1, 0.08), (240, 190, 180), "head"))
    out.append(eye(0.6, -0.78, 0.025, "head"))
    return out


def _sheep(t: Look) -> list[Shape]:
    wool, face = t.paints["main"].rgb, (76, 68, 70) if t.paints["main"].name != "black" else (196, 180, 170)
    out = _gait(t, (-0.24, -0.34, 0.28, 0.18), -0.36, 0.05, face, 0.15)
    out.append(solid(ellipse(-0.54, -0.62, 0.09, 0.08), wool, "tail", 0.02))
    out.append(solid(cloud(-0.04, -0.57, 0.5, 0.33, 14, 0.09), wool, "body", 0.05))
    out.append(Shape(ellipse(0.33, -0.8, 0.1, 0.045, 20), face, "ears"))
    out.append(solid(ellipse(0.5, -0.74, 0.15, 0.19, -14), face, "head", 0.02))
    out.append(solid(cloud(0.45, -0.91, 0.15, 0.09, 8, 0.1), wool, "head", 0.02))
    out.append(eye(0.55, -0.78, 0.026, "head"))
    return out


def _bird(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    c, _ = swing(t.phase)
    belly = tint(paint.rgb, 0.4)
    out = [Shape(polygon(*path("-42 -52, -90 -60, -86 -44, -40 -36")), tint(paint.rgb, -0.2), "tail")]
    if t.traits.get("pose") == "fly":
        far = blob((-0.16, -0.6), (-0.3, -0.9 - 0.25 * c), (-0.02, -1.05 - 0.35 * c), (0.2, -0.62))
        out.append(Shape(far, tint(paint.rgb, -0.3), "wings/0"))
    else:
        for n, x in enumerate((-0.06, 0.1)):
            out.append(Shape(limb((x, -0.3), (x, -0.02), 0.02), _BEAK, f"legs/{n}", 0.6))
            out.append(Shape(limb((x - 0.03, -0.02), (x + 0.1, -0.02), 0.02), _BEAK, f"legs/{n}", 0.6))
    body = blob(*path("-50 -46, -20 -68, 20 -70, 42 -52, 26 -28, -16 -24"))
    out.append(Shape(body, belly, "body", overlay=((body - np.array([0.0, 0.16]), paint.rgb),)))
    out.append(Shape(polygon(*path("52 -84, 82 -74, 52 -66")), _BEAK, "beak"))
    out.append(solid(ellipse(0.36, -0.76, 0.22, 0.21), paint.rgb, "head", 0.03))
    out.append(eye(0.43, -0.8, 0.04, "head"))
    if t.traits.get("pose") == "fly":
        near = blob((-0.3, -0.56), (-0.5, -0.95 - 0.35 * c), (-0.1, -1.2 - 0.45 * c), (0.1, -0.58), (-0.1, -0.46))
        out.append(solid(near, tint(paint.rgb, -0.14), "wings/1", 0.05))
    else:
        wing = blob(*path("16 -56, -10 -60, -56 -44, -30 -34, 4 -36"))
        out.append(solid(wing, tint(paint.rgb, -0.16), "wings/0", 0.03))
    return out


def _duck(t: Look) -> list[Shape]:
    paint = t.paints["main"]
    out = []
    for n, x in enumerate((-0.1, 0.1)):
        out.append(Shape(limb((x, -0.16), (x, -0.03), 0.025), _BEAK, f"legs/{n}", 0.6))
        out.append(Shape(limb((x - 0.02, -0.025), (x + 0.12, -0.025), 0.03), _BEAK, f"legs/{n}", 0.6))
    body = blob(*path("-66 -56, -42 -42, 5 -46, 36 -52, 46 -30, 22 -12, -20 -12, -50 -28"))
    out.append(coat(body, paint, "body"))
    out.append(Shape(limb((0.3, -0.4), (0.34, -0.74), 0.13, 0.11), paint.rgb, "body"))
    out.append(Shape(polygon(*path("46 -90, 78 -79, 76 -72, 48 -72")), _BEAK, "beak"))
    out.append(solid(ellipse(0.36, -0.82, 0.18, 0.17), paint.rgb, "head", 0.03))
    out.append(eye(0.43, -0.87, 0.032, "head"))
    out.append(solid(blob(*path("16 -40, -16 -42, -52 -44, -26 -22, 6 -22")), tint(paint.rgb, -0.15), "wings/0", 0.03))
    return out


DRAW: dict[str, Callable[[Look], list[Shape]]] = {
    "dog": _dog, "cat": _cat, "horse": _horse, "cow": _cow, "sheep": _sheep, "bird": _bird, "duck": _duck,
}  # fmt: skip
