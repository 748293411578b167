"""Drawing on a photograph: boxes with readable labels, and sentences whose words have the colours of their boxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from deixis.types import Box, GroundedCaption

if TYPE_CHECKING:
    Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c5fbf", "#b8a300")
"""Told apart with any colour vision; the first six after Okabe and Ito, the last two set between them."""

INK, PAPER = "#1b1b1f", "#ffffff"


def colour(index: int) -> str:
    """The colour (#rrggbb) of the index-th thing; they repeat after eight."""
    return PALETTE[index % len(PALETTE)]


@dataclass(frozen=True)
class Mark:
    """A box to draw, in pixels of the image, with its label and colour; parts are drawn as thin dashed boxes."""

    box: Box
    label: str = ""
    colour: str = PALETTE[0]
    parts: tuple[Box, ...] = ()


@dataclass(frozen=True)
class Span:
    """Words set in one colour (None: plain ink)."""

    text: str
    colour: str | None = None
    glue: bool = False  # no space before it, as before a full stop


def draw_boxes(
    image: Image.Image, marks: Sequence[Mark], min_side: int = 480, label_size: int | None = None
) -> Image.Image:
    """A copy of the image with the marks drawn on it; images with a short side under ``min_side`` are enlarged.

    Labels stay inside the picture and away from each other: each takes the first free place around its box. Their
    type has ``label_size`` pixels, else what suits the picture's size.
    """
    scale = max(1.0, min_side / min(image.size))
    canvas = image.convert("RGB")
    if scale > 1:
        canvas = canvas.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.LANCZOS)
    canvas = canvas.copy()
    pen = ImageDraw.Draw(canvas)
    line = max(2, round(min(canvas.size) / 200))
    for mark in marks:
        for part in mark.parts:
            _dashed(pen, _scaled(part, scale, canvas.size), mark.colour, max(1, line // 2))
    for mark in marks:
        box = _scaled(mark.box, scale, canvas.size)
        pen.rectangle(_grown(box), outline=PAPER, width=1)  # a hair of white keeps the line visible anywhere
        pen.rectangle(box, outline=mark.colour, width=line)
    type_face = font(label_size or max(12, round(min(canvas.size) / 32)))
    taken: list[Box] = []
    for mark in marks:
        if mark.label:
            place = _label_place(pen, type_face, mark.label, _scaled(mark.box, scale, canvas.size), canvas.size, taken)
            taken.append(place)
            pen.rounded_rectangle(place, radius=3, fill=mark.colour)
            middle = ((place[0] + place[2]) / 2, (place[1] + place[3]) / 2)
            pen.text(middle, mark.label, font=type_face, fill=text_on(mark.colour), anchor="mm")
    return canvas


def draw_caption(image: Image.Image, caption: GroundedCaption, min_side: int = 480) -> Image.Image:
    """The image with the caption's groundings drawn on it and the sentence below, each noun coloured like its box."""
    marks = [Mark(g.box, g.text, colour(i), g.parts) for i, g in enumerate(caption.groundings)]
    picture = draw_boxes(image, marks, min_side)
    sentence = draw_text(caption_spans(caption), picture.width, size=max(14, round(picture.width / 26)))
    return stack([picture, sentence])


def caption_spans(caption: GroundedCaption) -> list[Span]:
    """The words of a caption as spans, grounded ones in the colour of their box."""
    owner = {at: i for i, g in enumerate(caption.groundings) for at in range(g.start, g.end)}
    return [Span(word, colour(owner[at]) if at in owner else None) for at, word in enumerate(caption.words)]


def draw_text(spans: Iterable[Span], width: int, size: int = 18, padding: int = 12) -> Image.Image:
    """Spans set as a paragraph of the given width on white; coloured words are underlined too."""
    face = font(size)
    pen = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    space = pen.textlength(" ", font=face)
    placed: list[tuple[float, int, str, Span]] = []
    x, row = float(padding), 0
    for span in spans:
        for index, word in enumerate(span.text.split()):
            length = pen.textlength(word, font=face)
            if span.glue and index == 0:
                x -= space
            elif x > padding and x + length > width - padding:
                x, row = float(padding), row + 1
            placed.append((x, row, word, span))
            x += length + space
    leading = round(size * 1.5)
    page = Image.new("RGB", (width, 2 * padding + (row + 1) * leading), PAPER)
    pen = ImageDraw.Draw(page)
    for at, (x, row, word, span) in enumerate(placed):
        y = padding + row * leading
        pen.text((x, y), word, font=face, fill=span.colour or INK)
        if span.colour:
            after = placed[at + 1] if at + 1 < len(placed) else None
            joined = after is not None and after[3] is span and after[1] == row  # one line under one phrase
            end = after[0] if after and joined else x + pen.textlength(word, font=face)
            base = y + round(size * 1.28)
            pen.line((x, base, end, base), fill=span.colour, width=2)
    return page


def stack(pictures: Sequence[Image.Image]) -> Image.Image:
    """Pictures one below the other on white, left-aligned."""
    page = Image.new("RGB", (max(p.width for p in pictures), sum(p.height for p in pictures)), PAPER)
    y = 0
    for picture in pictures:
        page.paste(picture, (0, y))
        y += picture.height
    return page


def text_on(background: str) -> str:
    """Black or white, whichever reads better on the colour (relative luminance as screens define it)."""
    channels = [int(background[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # contrast with white is 1.05 / (L + .05), with black (L + .05) / .05; they are equal at L = .179
    return PAPER if luminance < 0.179 else "#000000"


@cache
def font(size: int) -> Font:
    """The type face that Pillow brings, so that pictures are the same on every machine."""
    return ImageFont.load_default(size)


def _scaled(box: Box, scale: float, size: tuple[int, int]) -> Box:
    """The box in drawn pixels, cut to the picture, never turned inside out."""
    x1, y1, x2, y2 = (number * scale for number in box)
    x1, y1 = min(max(x1, 0), size[0] - 2), min(max(y1, 0), size[1] - 2)
    return x1, y1, max(x1 + 1, min(x2, size[0]) - 1), max(y1 + 1, min(y2, size[1]) - 1)


def _grown(box: Box) -> Box:
    return box[0] - 1, box[1] - 1, box[2] + 1, box[3] + 1


def _dashed(pen: ImageDraw.ImageDraw, box: Box, fill: str, width: int) -> None:
    x1, y1, x2, y2 = box
    step = 8
    for start in range(round(x1), round(x2), 2 * step):
        for y in (y1, y2):
            pen.line((start, y, min(start + step, x2), y), fill=fill, width=width)
    for start in range(round(y1), round(y2), 2 * step):
        for x in (x1, x2):
            pen.line((x, start, x, min(start + step, y2)), fill=fill, width=width)


def _label_place(
    pen: ImageDraw.ImageDraw, face: Font, label: str, box: Box, size: tuple[int, int], taken: Sequence[Box]
) -> Box:
    """Where the label goes: the place around the box that hides least of the labels already there."""
    left, top, right, bottom = pen.textbbox((0, 0), label, font=face)
    width, height = right - left + 8, bottom - top + 8
    x1, y1, x2, y2 = box
    corners = [
        (x, y)
        for y in (y1 - height, y1, y2, y2 - height, y1 + height, y2 - 2 * height, (y1 + y2 - height) / 2)
        for x in (x1, x2 - width, (x1 + x2 - width) / 2)
    ]
    places = []
    for x, y in corners:
        x, y = min(max(x, 0), max(size[0] - width, 0)), min(max(y, 0), max(size[1] - height, 0))
        places.append((x, y, x + width, y + height))
    return min(places, key=lambda place: sum(_shared(place, other) for other in taken))


def _shared(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
