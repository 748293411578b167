"""A contact sheet: pictures with their marks, and the sentences about them below in the same colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from deixis.show.draw import INK, PAPER, Mark, Span, draw_boxes, draw_text, font, stack
from deixis.types import Box

FAINT, FRAME = "#6b6b76", "#f1f1f4"


@dataclass(frozen=True)
class Card:
    """One picture of the sheet: marks in its own pixels, sentences, and a small note such as its name."""

    image: Image.Image
    marks: tuple[Mark, ...] = ()
    sentences: tuple[tuple[Span, ...], ...] = ()
    note: str = ""


def contact_sheet(cards: Sequence[Card], title: str = "", columns: int = 3, width: int = 2000) -> Image.Image:
    """The cards in rows of at most this width, the pictures of a row equally high; the title on top."""
    gap = width // 50
    rows = [_draw_row(cards[start : start + columns], width, gap) for start in range(0, len(cards), columns)]
    top = 3 * gap if title else gap
    size = max(row.width for row in rows), top + sum(row.height + gap for row in rows)
    page = Image.new("RGB", size, PAPER)
    ImageDraw.Draw(page).text((gap, 2 * gap), title, font=font(width // 60), fill=INK, anchor="ls")
    y = top
    for row in rows:
        page.paste(row, (0, y))
        y += row.height + gap
    return page


def _draw_row(cards: Sequence[Card], width: int, gap: int) -> Image.Image:
    aspects = [card.image.width / card.image.height for card in cards]
    room = width - gap * (len(cards) + 1)
    height = min(room / sum(aspects), width / 3.5)
    narrowest = width // 6  # a narrow picture gets a frame, so that its sentences still have room
    widths = [max(round(aspect * height), narrowest) for aspect in aspects]
    if sum(widths) > room:
        height *= room / sum(widths)
        widths = [round(w * room / sum(widths)) for w in widths]
    drawn = [_draw_card(card, w, round(height), width // 75) for card, w in zip(cards, widths, strict=True)]
    row = Image.new("RGB", (gap + sum(w + gap for w in widths), max(card.height for card in drawn)), PAPER)
    x = gap
    for card in drawn:
        row.paste(card, (x, 0))
        x += card.width + gap
    return row


def _draw_card(card: Card, width: int, height: int, type_size: int) -> Image.Image:
    """The picture inside ``width`` x ``height``, its sentences and its note below."""
    scale = min(width / card.image.width, height / card.image.height)
    size = max(1, round(card.image.width * scale)), max(1, round(card.image.height * scale))
    marks = [
        Mark(_scaled(mark.box, scale), mark.label, mark.colour, tuple(_scaled(part, scale) for part in mark.parts))
        for mark in card.marks
    ]
    photo = draw_boxes(card.image.resize(size, Image.Resampling.LANCZOS), marks, 1, label_size=round(type_size * 0.75))
    frame = Image.new("RGB", (width, height), FRAME)
    frame.paste(photo, ((width - size[0]) // 2, (height - size[1]) // 2))
    text = [draw_text(sentence, width, size=type_size, padding=type_size // 3) for sentence in card.sentences]
    note = Image.new("RGB", (width, type_size), PAPER)
    ImageDraw.Draw(note).text((type_size // 3, 0), card.note, font=font(round(type_size * 0.6)), fill=FAINT)
    return stack([frame, *text, note])


def _scaled(box: Box, scale: float) -> Box:
    x1, y1, x2, y2 = box
    return x1 * scale, y1 * scale, x2 * scale, y2 * scale
