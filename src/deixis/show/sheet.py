"""Contact sheet: pictures with marks, and sentences below in the same colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from deixis.show.draw import Mark, Span, draw_left_out, draw_marks, draw_text
from deixis.show.drawing import FAINT, Drawing, Rect, beside, framed, stack

FRAME = "#f1f1f4"


@dataclass(frozen=True)
class Card:
    """One picture of the sheet, with marks in its pixels, sentences, and a small note."""

    image: Image.Image
    marks: tuple[Mark, ...] = ()
    sentences: tuple[tuple[Span, ...], ...] = ()
    note: str = ""


def contact_sheet(cards: Sequence[Card], title: str = "", columns: int = 3, width: int = 2000) -> Drawing:
    """Arrange cards in rows of at most this width; pictures of a row have the same height."""
    gap = width // 50
    rows = [_draw_row(cards[start : start + columns], width, gap) for start in range(0, len(cards), columns)]
    return framed(stack([*heading(title, max(row.width for row in rows), width // 60), *rows], gap), gap)


def heading(title: str, width: int, size: int) -> list[Drawing]:
    """Draw a title for the top of a drawing; empty without a title."""
    return [draw_text([Span(title)], width, size, padding=0)] if title else []


def _draw_row(cards: Sequence[Card], width: int, gap: int) -> Drawing:
    aspects = [card.image.width / card.image.height for card in cards]
    room = width - gap * (len(cards) + 1)
    height = min(room / sum(aspects), width / 3.5)
    narrowest = width // 6  # a narrow picture gets a frame, so that its sentences have space
    widths = [max(round(aspect * height), narrowest) for aspect in aspects]
    if sum(widths) > room:
        height *= room / sum(widths)
        widths = [int(w * room / sum(widths)) for w in widths]
    drawn = [draw_card(card, w, round(height), width // 75) for card, w in zip(cards, widths, strict=True)]
    return beside(drawn, gap)


def draw_card(card: Card, width: int, height: int, type_size: int) -> Drawing:
    """Draw the picture inside ``width`` x ``height``, with its sentences and note below."""
    scale = min(width / card.image.width, height / card.image.height)
    photo = draw_marks(card.image, card.marks, max(1, round(card.image.width * scale)), round(type_size * 0.75))
    inside = photo.moved((width - photo.width) // 2, (height - photo.height) // 2)
    frame = Drawing(width, height, (Rect((0, 0, width, height), fill=FRAME), *inside), photo.left_out)
    text = [draw_text(sentence, width, size=type_size, padding=type_size // 3) for sentence in card.sentences]
    small = round(type_size * 0.6)
    note = draw_text([Span(card.note)], width, small, padding=type_size // 3, ink=FAINT)
    return stack([frame, *text, *draw_left_out(photo.left_out, width, small), note])
