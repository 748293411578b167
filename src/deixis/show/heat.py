"""Heat maps laid over a photograph: grey where it is cold, glowing where it is hot, a cross at the point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from deixis.errors import DeixisError
from deixis.show.draw import PAPER, Mark, Span, colour
from deixis.show.sheet import Card, contact_sheet
from deixis.types import Grounding, HeatMap, Point

# heat -> red, green, blue: dark violet over red and orange to light yellow, ever lighter, so that it reads in grey too
_HEAT = (0.0, 0.25, 0.5, 0.75, 1.0)
_GLOW = ((40, 11, 84), (120, 28, 109), (203, 65, 73), (247, 131, 23), (252, 240, 160))
LARGEST = 1024  # pixels of the long side; a heat map has no finer detail


def overlay(image: Image.Image, heat: HeatMap, point: Point | None = None) -> Image.Image:
    """The image, in grey, with the map's colours where it is hot; large images are made smaller."""
    scale = min(1.0, LARGEST / max(image.size))
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    grey = np.asarray(image.convert("L").resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0), dtype=np.float32)
    warm = HeatMap(np.maximum(heat.grid, 0), size).at_image_size()
    warm = warm / max(float(warm.max()), 1e-12)
    glow = np.stack([np.interp(warm, _HEAT, channel) for channel in np.transpose(_GLOW)], axis=-1)
    share = 0.75 * np.sqrt(warm)[..., None]
    mixed = (1 - share) * (0.8 * grey[..., None]) + share * glow
    picture = Image.fromarray(mixed.round().clip(0, 255).astype(np.uint8))
    if point is not None:
        _cross(picture, point[0] * scale, point[1] * scale)
    return picture


def heat_sheet(
    image: Image.Image, found: Sequence[Grounding], title: str = "", notes: Sequence[str] | None = None
) -> Image.Image:
    """A sheet with a picture for each grounding that has a heat map: its map, its box, its point and its text.

    ``notes`` are lines below the texts, one for each grounding; their scores where there are none.
    """
    notes = [f"score {one.score:.2f}" for one in found] if notes is None else notes
    cards = []
    for number, (one, note) in enumerate(zip(found, notes, strict=True)):
        if one.heat is None:
            raise DeixisError("this model makes no heat maps; draw its boxes instead.")
        picture = overlay(image, one.heat, one.pointing())
        scale = picture.width / image.width
        x1, y1, x2, y2 = (value * scale for value in one.box)
        mark = Mark((x1, y1, x2, y2), "", colour(number))
        cards.append(Card(picture, (mark,), ((Span(one.text, colour(number)),),), note))
    if not cards:
        raise DeixisError("nothing was found that could be drawn.")
    return contact_sheet(cards, title)


def _cross(picture: Image.Image, x: float, y: float) -> None:
    pen, arm = ImageDraw.Draw(picture), max(4, min(picture.size) // 40)
    for width, ink in ((5, "#000000"), (2, PAPER)):
        pen.line((x - arm, y, x + arm, y), fill=ink, width=width)
        pen.line((x, y - arm, x, y + arm), fill=ink, width=width)
