"""Heat maps over photographs in grey, with a cross at the maximum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from deixis.errors import DeixisError
from deixis.show.draw import Mark, Span, colour
from deixis.show.drawing import Drawing
from deixis.show.sheet import Card, contact_sheet
from deixis.types import Grounding, HeatMap

# heat -> red, green, blue: dark violet, red, orange, light yellow; lightness increases, so that it is readable in grey
HEAT = (0.0, 0.25, 0.5, 0.75, 1.0)
GLOW = ((40, 11, 84), (120, 28, 109), (203, 65, 73), (247, 131, 23), (252, 240, 160))
LARGEST = 1024  # pixels of the long side; a heat map has no finer detail


def overlay(image: Image.Image, heat: HeatMap) -> Image.Image:
    """Draw a heat map over the image in grey; large images are reduced."""
    scale = min(1.0, LARGEST / max(image.size))
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    grey = np.asarray(image.convert("L").resize(size, Image.Resampling.BICUBIC, reducing_gap=3.0), dtype=np.float32)
    warm = HeatMap(np.maximum(heat.grid, 0), size).at_image_size()
    warm = warm / max(float(warm.max()), 1e-12)
    glow = np.stack([np.interp(warm, HEAT, channel) for channel in np.transpose(GLOW)], axis=-1)
    share = 0.75 * np.sqrt(warm)[..., None]
    mixed = (1 - share) * (0.8 * grey[..., None]) + share * glow
    return Image.fromarray(mixed.round().clip(0, 255).astype(np.uint8))


def heat_sheet(
    image: Image.Image, found: Sequence[Grounding], title: str = "", notes: Sequence[str] | None = None
) -> Drawing:
    """Draw a sheet with one picture for each grounding with a heat map: map, box, point and text.

    ``notes`` are lines below the texts, one for each grounding; by default their scores.
    """
    notes = [f"score {one.score:.2f}" for one in found] if notes is None else notes
    if any(one.heat is None for one in found):
        raise DeixisError("this model has no heat maps. Draw its boxes instead.")
    cards = [_card(image, one, number, note) for number, (one, note) in enumerate(zip(found, notes, strict=True))]
    if not cards:
        raise DeixisError("there is no grounding to draw. Give at least one phrase.")
    return contact_sheet(cards, title)


def heat_comparison(image: Image.Image, found: Sequence[tuple[str, Sequence[Grounding]]]) -> Drawing:
    """Draw a row for each phrase with the pictures of several models (AMC, Fig. 2).

    ``found`` has the name and the groundings of each model, all of the same phrases. A model without heat maps has its
    box and point on the photograph.
    """
    cards = [
        _card(image, one, number, f"{model}, score {one.score:.2f}")
        for number, of_phrase in enumerate(zip(*(groundings for _, groundings in found), strict=True))
        for (model, _), one in zip(found, of_phrase, strict=True)
    ]
    return contact_sheet(cards, columns=len(found))


def _card(image: Image.Image, one: Grounding, number: int, note: str) -> Card:
    """Picture of a grounding: map where it has one, box, point and text."""
    picture = image if one.heat is None else overlay(image, one.heat)
    mark = Mark(one.box, "", colour(number), point=one.pointing()).scaled(picture.width / image.width)
    return Card(picture, (mark,), ((Span(one.text, colour(number)),),), note)
