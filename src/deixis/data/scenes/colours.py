"""Colours and their names."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from deixis.data.scenes.rng import Rng

Rgb = tuple[int, int, int]

PALETTE: dict[str, Rgb] = {
    "red": (208, 62, 60), "orange": (238, 140, 54), "yellow": (245, 205, 78), "green": (78, 152, 84),
    "blue": (62, 112, 190), "purple": (136, 92, 170), "pink": (242, 150, 182), "brown": (138, 92, 58),
    "black": (54, 54, 62), "white": (247, 245, 240), "grey": (150, 153, 160),
}  # fmt: skip
HAIR: dict[str, Rgb] = {
    "black": (56, 48, 50), "brown": (122, 80, 52), "blond": (232, 196, 112), "red": (196, 94, 50),
    "grey": (176, 174, 176),
}  # fmt: skip
SKIN: dict[str, Rgb] = {"pale": (252, 220, 192), "rosy": (238, 194, 158), "tan": (206, 152, 112), "dark": (136, 94, 70)}
MATERIALS: dict[str, Rgb] = {  # fixed colours of the table of shapes
    "dark": (56, 52, 60), "steel": (168, 174, 184), "wood": (176, 124, 80), "glass": (198, 228, 240),
    "leaf": (104, 164, 92), "beak": (240, 165, 50), "cream": (250, 246, 232), "glow": (255, 238, 170),
    "snow": (250, 252, 255), "brick": (176, 120, 104), "lips": (150, 70, 70), "rose": (240, 180, 180),
    "wool": (76, 68, 70),
}  # fmt: skip


class Paint(NamedTuple):
    """A colour with its name and a pattern."""

    name: str
    rgb: Rgb
    pattern: str = ""  # "striped", "spotted" or plain

    def shade(self, amount: float) -> Rgb:
        """Return a lighter (> 0) or darker (< 0) shade; black has only lighter ones."""
        return tint(self.rgb, -0.6 * amount if self.name == "black" and amount < 0 else amount)


def mix_paint(rng: Rng, slot: str, name: str, pattern: str = "") -> Paint:
    """Return a paint for a slot: a random shade that is close enough to the colour to keep its name."""
    palette = {"hair": HAIR, "skin": SKIN}.get(slot, PALETTE)
    level = rng.uniform(-0.07, 0.07)
    r, g, b = (int(min(max(c + rng.uniform(-7, 7), 0), 255)) for c in tint(palette[name], level))
    return Paint(name, (r, g, b), pattern)


@lru_cache(maxsize=4096)
def tint(rgb: Rgb, amount: float) -> Rgb:
    """Return the colour moved towards white (amount > 0) or black (amount < 0)."""
    return blend(rgb, (255, 255, 255) if amount > 0 else (0, 0, 0), abs(amount))


def blend(a: Rgb, b: Rgb, share: float) -> Rgb:
    """Return ``a`` with a share (0..1) of ``b``."""
    red, green, blue = (int(p + (q - p) * share + 0.5) for p, q in zip(a, b, strict=True))
    return red, green, blue
