"""Where a scene plays: sky, ground, and the clutter that belongs to nobody."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from deixis.data.scenes.canvas import (
    PALETTE,
    SUPERSAMPLING,
    Canvas,
    Rgb,
    blend,
    blob,
    cloud,
    curve,
    ellipse,
    polygon,
    rectangle,
    ribbon,
    tint,
)
from deixis.data.scenes.dice import Dice

SETTINGS = ("park", "beach", "street", "snow", "field", "room")


@dataclass(frozen=True)
class Setting:
    """The place and the weather of a scene."""

    name: str
    horizon: float  # where the ground begins, in picture widths
    weather: str  # "sunny", "cloudy" or "" (indoors)
    shore: float = 0.0  # a beach: where the sea ends


_SKIES: dict[str, tuple[tuple[Rgb, Rgb], ...]] = {
    "sunny": (
        ((168, 212, 240), (232, 244, 250)),
        ((184, 216, 246), (250, 240, 226)),
        ((252, 214, 190), (252, 240, 218)),
    ),
    "cloudy": (((198, 206, 216), (230, 233, 236)), ((206, 206, 220), (236, 230, 232))),
}
_GROUNDS: dict[str, tuple[tuple[Rgb, Rgb], ...]] = {
    "park": (((186, 212, 150), (164, 198, 128)), ((196, 216, 164), (176, 204, 146))),
    "field": (((222, 214, 150), (206, 194, 124)), ((202, 216, 152), (186, 204, 128))),
    "beach": (((246, 230, 192), (236, 214, 168)), ((240, 224, 200), (228, 206, 176))),
    "snow": (((240, 245, 251), (226, 234, 244)), ((246, 246, 250), (232, 234, 244))),
    "street": (((200, 200, 206), (184, 184, 192)), ((206, 202, 200), (190, 186, 186))),
    "room": (
        ((226, 200, 164), (214, 184, 146)),
        ((214, 204, 196), (200, 188, 180)),
        ((236, 216, 190), (224, 200, 170)),
    ),
}
_WALLS: tuple[Rgb, ...] = ((238, 226, 206), (214, 228, 222), (226, 218, 234), (240, 216, 208), (212, 224, 238))


def choose_setting(dice: Dice) -> Setting:
    """A place with its weather."""
    name = dice.pick(SETTINGS)
    horizon = dice.between(0.46, 0.56) if name != "room" else dice.between(0.55, 0.62)
    weather = "" if name == "room" else "sunny" if dice.chance(0.6) else "cloudy"
    return Setting(name, horizon, weather, shore=horizon + dice.between(0.12, 0.17) if name == "beach" else 0.0)


def paint_backdrop(canvas: Canvas, setting: Setting, dice: Dice) -> None:
    """Fill the whole canvas; everything here has owner 0."""
    ground = dice.pick(_GROUNDS[setting.name])
    h = setting.horizon
    if setting.name == "room":
        _room(canvas, h, dice)
    else:
        _sky(canvas, setting, dice)
    _wash(canvas, h, 1.0, *ground, dice, grain=10)
    if setting.name in ("park", "field", "snow"):
        _hills(canvas, setting, ground[0], dice)
    if setting.name == "beach":
        _sea(canvas, setting, dice)
    elif setting.name == "street":
        _street(canvas, h, ground, dice)
    elif setting.name == "field":
        _furrows(canvas, h, ground, dice)
    elif setting.name == "room":
        _floor(canvas, h, ground, dice)
    elif setting.name == "park" and dice.chance(0.5):
        x, bend = dice.between(0.1, 0.9), dice.between(-0.25, 0.25)
        path = ribbon(curve((x, h), (x + bend, h + 0.16), (x - bend, 1.05), steps=10), 0.015, 0.13)
        canvas.fill(path, blend(ground[0], (236, 222, 190), 0.75))
    _clutter(canvas, setting, ground, dice)


def _wash(canvas: Canvas, top: float, bottom: float, first: Rgb, last: Rgb, dice: Dice, grain: int) -> None:
    """A vertical gradient with soft blotches."""
    size, k = canvas.size, SUPERSAMPLING
    y1, y2 = round(top * size), round(bottom * size)
    rows = y2 - y1
    share = (np.arange(rows) / max(rows - 1, 1))[:, None]
    gradient = np.array(first) + share * (np.array(last, dtype=np.float64) - np.array(first))  # [rows, 3]
    noise = (dice.grid(8, 10) * (2 * grain)).astype(np.uint8)
    blotches = cv2.resize(noise, (size, rows), interpolation=cv2.INTER_LINEAR)
    # The speckle is a tile, so that the size of the picture does not change the random numbers that follow.
    speckle = (dice.grid(97, 101) * 7).astype(np.uint8)
    tone = blotches + np.tile(speckle, (rows // 97 + 1, size // 101 + 1))[:rows, :size]  # at most 2 * grain + 6
    colours = np.zeros((rows, size, 4), np.uint8)
    for channel in range(3):
        level = np.clip(gradient[:, channel] - grain - 3, 0, 255 - 2 * grain - 6).astype(np.uint8)
        np.add(level[:, None], tone, out=colours[..., channel])
    cv2.resize(colours, (size * k, rows * k), dst=canvas.paint[y1 * k : y2 * k], interpolation=cv2.INTER_NEAREST)


def _sky(canvas: Canvas, setting: Setting, dice: Dice) -> None:
    top, low = dice.pick(_SKIES[setting.weather])
    _wash(canvas, 0.0, min(setting.horizon + 0.02, 1.0), top, low, dice, grain=4)
    if setting.weather == "sunny" and dice.chance(0.7):
        x, y = dice.between(0.1, 0.9), dice.between(0.08, 0.16)
        canvas.fill(ellipse(x, y, 0.075), blend(top, (255, 246, 206), 0.5))
        canvas.fill(ellipse(x, y, 0.05), (255, 238, 176))
    white = (252, 252, 252) if setting.weather == "sunny" else (214, 218, 226)
    for _ in range(dice.whole(1, 3) if setting.weather == "sunny" else dice.whole(3, 5)):
        x, y, r = dice.between(0.05, 0.95), dice.between(0.06, 0.28), dice.between(0.035, 0.07)
        for dx, dy, k in ((-0.9, 0.2, 0.7), (0.9, 0.24, 0.75), (0.0, 0.0, 1.0)):
            canvas.fill(cloud(x + dx * r, y + dy * r, 1.15 * r * k, 0.62 * r * k, 9), blend(low, white, 0.8))


def _hills(canvas: Canvas, setting: Setting, ground: Rgb, dice: Dice) -> None:
    far = blend(ground, (196, 214, 232), 0.65) if setting.name != "snow" else (222, 231, 244)
    h = setting.horizon
    for k, share in ((0.0, 0.7), (0.5, 0.25)):
        colour = blend(ground, far, share)
        x, y = dice.between(-0.1, 0.6) + k * 0.4, h - dice.between(0.05, 0.13) * (1 - 0.5 * k)
        canvas.fill(
            blob(
                (x - 0.5, h + 0.02),
                (x - 0.16, (y + h) / 2),
                (x + 0.1, y),
                (x + 0.44, (y + h) / 2),
                (x + 0.75, h + 0.02),
            ),
            colour,
        )
    canvas.fill(rectangle(-0.1, h, 1.1, h + 0.03), ground)
    for _ in range(dice.whole(3, 8)):
        x, r = dice.between(0.0, 1.0), dice.between(0.015, 0.032)
        canvas.fill(cloud(x, h - 0.6 * r, 1.2 * r, r, 8), tint(far, -0.08))


def _sea(canvas: Canvas, setting: Setting, dice: Dice) -> None:
    first, last = dice.pick((((126, 182, 206), (164, 212, 222)), ((120, 170, 204), (158, 204, 224))))
    _wash(canvas, setting.horizon, setting.shore, first, last, dice, grain=6)
    for _ in range(12):
        x, y = dice.between(-0.05, 1.0), dice.between(setting.horizon + 0.015, setting.shore - 0.02)
        w = dice.between(0.03, 0.09)
        canvas.fill(ribbon(curve((x, y), (x + w / 2, y - 0.006), (x + w, y)), 0.003, 0.001), tint(last, 0.5))
    edge = [(x / 6, setting.shore + dice.between(-0.012, 0.012)) for x in range(-1, 8)]
    canvas.fill(ribbon(curve(*edge), 0.012), (248, 250, 250))


def _street(canvas: Canvas, h: float, ground: tuple[Rgb, Rgb], dice: Dice) -> None:
    x = -0.05
    while x < 1.0:
        w, top = dice.between(0.14, 0.26), h - dice.between(0.16, 0.36)
        wall = blend(dice.pick(_WALLS), (206, 206, 216), 0.3)
        canvas.fill(rectangle(x, top, x + w, h + 0.01), tint(wall, -0.04))
        canvas.fill(rectangle(x, top, x + w, top + 0.012), tint(wall, -0.14))
        columns, rows = dice.whole(2, 4), max(int((h - top - 0.05) / 0.07), 1)
        for c in range(columns):
            for r in range(rows):
                left, up = x + w * (c + 0.28) / columns, top + 0.035 + 0.07 * r
                canvas.fill(rectangle(left, up, left + 0.44 * w / columns, up + 0.036), tint(wall, -0.13))
        x += w
    kerb = h + dice.between(0.08, 0.12)
    canvas.fill(rectangle(0, h, 1, kerb), tint(ground[0], 0.35))
    canvas.fill(rectangle(0, kerb, 1, kerb + 0.008), tint(ground[0], -0.15))
    line, shift = dice.between(0.78, 0.84), dice.between(0, 0.2)
    for k in range(-1, 6):
        a = k * 0.2 + shift
        canvas.fill(
            polygon((a, line), (a + 0.11, line), (a + 0.105, line + 0.016), (a - 0.01, line + 0.016)), (244, 242, 236)
        )


def _furrows(canvas: Canvas, h: float, ground: tuple[Rgb, Rgb], dice: Dice) -> None:
    vanish = dice.between(0.2, 0.8)
    for k in range(-7, 8):
        low = vanish + k * 0.22
        canvas.fill(polygon((vanish + k * 0.035, h), (low + 0.05, 1.02), (low, 1.02)), tint(ground[1], -0.05))
    rail = (212, 190, 158)
    for y in (h - 0.02, h + 0.005):
        canvas.fill(rectangle(0, y, 1, y + 0.007), rail)
    for k in range(12):
        canvas.fill(rectangle(0.01 + k * 0.088, h - 0.04, 0.022 + k * 0.088, h + 0.03), tint(rail, -0.08))


def _room(canvas: Canvas, h: float, dice: Dice) -> None:
    wall = dice.pick(_WALLS)
    _wash(canvas, 0.0, h + 0.02, wall, tint(wall, -0.05), dice, grain=3)
    style = dice.whole(0, 2)
    if style == 0:
        for k in range(14):
            canvas.fill(rectangle(k / 14, 0, k / 14 + 0.022, h), tint(wall, -0.035))
    elif style == 1:
        for k in range(60):
            canvas.fill(
                ellipse(
                    (k % 10) / 10 + (0.025 if (k // 10) % 2 else 0.075), (k // 10) / 6 * h + 0.04, 0.009, corners=12
                ),
                tint(wall, -0.07),
            )
    canvas.fill(rectangle(0, h - 0.03, 1, h), tint(wall, 0.45))


def _floor(canvas: Canvas, h: float, ground: tuple[Rgb, Rgb], dice: Dice) -> None:
    seam = tint(ground[1], -0.1)
    y, gap = h, 0.035
    while y < 1:
        canvas.fill(rectangle(0, y, 1, y + 0.004), seam)
        for _ in range(3):
            x = dice.between(0, 1)
            canvas.fill(rectangle(x, y, x + 0.004, y + gap), seam)
        y += gap
        gap *= 1.25
    if dice.chance(0.6):
        rug = blend(PALETTE[dice.pick(("red", "blue", "green", "purple", "orange"))], (240, 232, 220), 0.66)
        x = dice.between(0.35, 0.65)
        canvas.fill(ellipse(x, 0.86, 0.36, 0.1), tint(rug, -0.1))
        canvas.fill(ellipse(x, 0.86, 0.31, 0.078), rug)


def _clutter(canvas: Canvas, setting: Setting, ground: tuple[Rgb, Rgb], dice: Dice) -> None:
    """Tufts, pebbles, leaves, flakes; and scribbles in the colours of things that mean nothing."""
    low = setting.shore or setting.horizon
    low += 0.14 if setting.name == "street" else 0.03
    if setting.name in ("park", "field"):
        blade = tint(ground[1], -0.16)
        for _ in range(dice.whole(18, 34)):
            x, y = dice.between(0, 1), dice.between(low, 1)
            s = 0.012 + 0.02 * (y - low)
            for lean in (-0.5, 0.1, 0.7):
                canvas.fill(polygon((x - 0.15 * s, y), (x + lean * s, y - s), (x + 0.15 * s, y)), blade)
    if setting.name != "room":
        for _ in range(dice.whole(5, 16)):
            x, y, r = dice.between(0, 1), dice.between(low, 1), dice.between(0.003, 0.008)
            canvas.fill(ellipse(x, y, 1.4 * r, r, corners=10), tint(ground[1], -0.12 if dice.chance(0.6) else 0.4))
    if setting.name == "snow":
        for _ in range(40):
            canvas.fill(
                ellipse(dice.between(0, 1), dice.between(0, 1), dice.between(0.003, 0.006), corners=10), (255, 255, 255)
            )
    for _ in range(dice.whole(1, 4)):
        ink = blend(PALETTE[dice.pick(tuple(PALETTE))], ground[1], dice.between(0.35, 0.6))
        x, y = dice.between(0.05, 0.85), dice.between(low + 0.06, 0.97)
        line = []
        for _ in range(dice.whole(4, 7)):
            line.append((x, y))
            x, y = x + dice.between(-0.03, 0.075), y + dice.between(-0.04, 0.04)
        canvas.fill(ribbon(curve(*line, steps=5), dice.between(0.002, 0.005)), ink)
