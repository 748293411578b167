"""Draw boxes with labels on photographs, and captions in the colours of the boxes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from PIL import Image

from deixis.language.sentence import end, pieces, sentence
from deixis.show.drawing import FAINT, INK, PAPER, Drawing, Item, Line, Photo, Rect, Words, stack, text_width
from deixis.show.labels import place_labels
from deixis.types import Box, GroundedCaption, Grounding, Point

PALETTE = ("#0072b2", "#e69f00", "#c33c00", "#7800f0", "#96c378", "#69c3ff", "#a58796", "#874b3c")
"""Colours that differ for normal vision and three kinds of colour blindness (a test checks the distances)."""

NARROWEST, LONGEST = 320, 4096
"""Minimum width of a drawing, and maximum long side of an enlarged one, in pixels."""


def colour(index: int) -> str:
    """Return the colour (#rrggbb) with this index; colours repeat after eight."""
    return PALETTE[index % len(PALETTE)]


def text_on(background: str) -> str:
    """Return black or white, whichever has more contrast with the colour (by relative luminance)."""
    channels = [int(background[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # contrast with white: 1.05 / (L + .05); with black: (L + .05) / .05; equal at L = .179
    return PAPER if luminance < 0.179 else "#000000"


@dataclass(frozen=True)
class Mark:
    """A box to draw, in pixels of the image, with its label and colour.

    Parts are drawn as thin dashed boxes, the point as a cross. If labels do not all fit, those with low scores are left
    out. The box of a phrase that is probably absent is dashed.
    """

    box: Box
    label: str = ""
    colour: str = PALETTE[0]
    parts: tuple[Box, ...] = ()
    score: float = 1.0
    point: Point | None = None
    absent: bool = False

    @classmethod
    def of(cls, grounding: Grounding, ink: str, label: str | None = None, absent: bool = False) -> Mark:
        """Return the mark of a grounding: its box, its parts, the box before regression, its text or another label."""
        text = grounding.text if label is None else label
        parts = grounding.parts if grounding.initial_box is None else (*grounding.parts, grounding.initial_box)
        return cls(grounding.box, text, ink, parts, grounding.score, absent=absent)

    def scaled(self, scale: float) -> Mark:
        """Scale the mark by a factor."""
        parts = tuple(_scaled(part, scale) for part in self.parts)
        point = self.point and (self.point[0] * scale, self.point[1] * scale)
        return replace(self, box=_scaled(self.box, scale), parts=parts, point=point)


@dataclass(frozen=True)
class Span:
    """Text in one colour (None: default colour)."""

    text: str
    colour: str | None = None
    glue: bool = False  # no space before it, for example a full stop


def draw_boxes(
    image: Image.Image, marks: Sequence[Mark], min_side: int = 480, label_size: int | None = None
) -> Drawing:
    """Draw marks on an image; images with a short side under ``min_side`` are enlarged.

    Labels stay inside the picture and do not overlap. Labels without space are listed below it, in the colours of their
    boxes. The font size is ``label_size`` pixels; by default it depends on the size of the picture.
    """
    scale = max(1.0, min(min_side / min(image.size), LONGEST / max(image.size)))
    return draw_photo(image, marks, max(1, round(image.width * scale)), label_size)


def draw_photo(image: Image.Image, marks: Sequence[Mark], width: int, label_size: int | None = None) -> Drawing:
    """Draw marks on an image of this width; labels without space are listed below."""
    picture = draw_marks(image, marks, width, label_size)
    size = label_size or _label_size(picture.width, picture.height)
    return stack([picture, *draw_left_out(picture.left_out, max(width, NARROWEST), size)])


def draw_marks(image: Image.Image, marks: Sequence[Mark], width: int, label_size: int | None = None) -> Drawing:
    """Draw marks on an image of this width, without a list below."""
    size = width, max(1, round(image.height * width / image.width))
    marks = [mark.scaled(width / image.width) for mark in marks]
    line = max(2, round(min(size) / 200))
    items: list[Item] = [Photo(image, (0, 0, *size))]
    for mark in marks:
        items += [Rect(_cut(part, size), mark.colour, max(1, line // 2), dashed=True) for part in mark.parts]
    boxes = [_cut(mark.box, size) for mark in marks]
    for mark, box in zip(marks, boxes, strict=True):
        items.append(
            Rect(_cut(_grown(box), size), PAPER, 1)
        )  # a thin white border keeps the line visible on any background
        items.append(Rect(box, mark.colour, line, dashed=mark.absent))
    for mark in marks:
        if mark.point is not None:
            items += _cross(mark.point, max(4, min(size) // 40))
    labels, left_out = _labels(marks, boxes, size, label_size or _label_size(*size))
    return Drawing(*size, (*items, *labels), left_out)


def draw_left_out(labels: Sequence[tuple[str, str]], width: int, size: int) -> list[Drawing]:
    """Draw a paragraph of the labels without space, in their colours; empty if there are none."""
    spans = [Span("Not shown:"), *(Span(text, ink) for text, ink in labels)]
    return [draw_text(spans, width, size, padding=size // 2, ink=FAINT)] if labels else []


def draw_caption(
    image: Image.Image,
    caption: GroundedCaption,
    min_side: int = 480,
    note: str = "",
    absent: Collection[Grounding] = (),
) -> Drawing:
    """Return the image with the caption's boxes, and below it the sentence, each phrase in the colour of its box.

    A ``note`` is drawn below the sentence. Groundings that are probably ``absent`` have dashed boxes.
    """
    marks = [Mark.of(one, colour(i), absent=one in absent) for i, one in enumerate(caption.groundings)]
    picture = draw_boxes(image, marks, min_side)
    width = max(picture.width, NARROWEST)
    size = max(14, round(width / 26))
    parts = [picture, draw_text(caption_spans(caption), width, size=size)]
    if note:
        parts.append(draw_text([Span(note)], width, size=max(12, round(size * 0.7)), ink=FAINT))
    return stack(parts)


def caption_spans(caption: GroundedCaption, colours: Sequence[str] = ()) -> list[Span]:
    """Split a caption into spans; grounded phrases have the colour of their box (``colours``, or the default ones).

    A phrase of several words is one span.
    """
    inks = colours or [colour(i) for i in range(len(caption.groundings))]
    owner = {at: i for i, grounding in enumerate(caption.groundings) for at in range(grounding.start, grounding.end)}
    written = written_words(caption)
    spans: list[Span] = []
    for i, places in groupby(range(len(written)), owner.get):
        text = "".join(written[at] for at in places)
        spans.append(Span(text.strip(), None if i is None else inks[i], glue=bool(spans) and not text.startswith(" ")))
    return spans


def written_words(caption: GroundedCaption) -> list[str]:
    """Return the written form of each word, with the space before it, and the final punctuation if any."""
    words = caption.words
    if caption.caption != sentence(words):  # not a generated sentence: the written form of its words is unknown
        return [word if at == 0 else f" {word}" for at, word in enumerate(words)]
    return [*pieces(words), *filter(None, [end(words)])]


def draw_text(spans: Iterable[Span], width: int, size: int = 18, padding: int = 12, ink: str = INK) -> Drawing:
    """Draw spans as a paragraph of this width; coloured words have their colour as background."""
    space, leading, chip = text_width(" ", size), round(size * 1.5), round(size * 0.22)
    room = width - 2 * padding
    runs: list[tuple[int, float, float, str, Span]] = []  # row, left, right, words, span
    x, row = 0.0, 0
    for span in spans:
        edge = chip if span.colour else 0
        for index, word in enumerate(_words(span.text, room - 2 * edge, size)):
            length = text_width(word, size)
            glued = span.glue and index == 0
            gap = 0.0 if x == 0 or glued else space
            last = runs[-1] if runs else None
            if x > 0 and not glued and x + gap + length + 2 * edge > room:
                x, row, gap = 0.0, row + 1, 0.0
            if last is not None and index and last[0] == row:  # one run for the words of a span on one line
                text = f"{last[3]} {word}"
                runs[-1] = (row, last[1], last[1] + text_width(text, size) + 2 * edge, text, span)
            else:
                runs.append((row, x + gap, x + gap + length + 2 * edge, word, span))
            x = runs[-1][2]
    items: list[Item] = []
    for row, left, right, text, span in runs:
        base = padding + row * leading + round(size * 1.06)
        x = padding + left
        if span.colour:
            top = base - round(size * 0.98)
            items.append(Rect((x, top, padding + right, top + round(size * 1.32)), fill=span.colour, radius=3))
            items.append(Words((x + chip, base), text, size, text_on(span.colour)))
        else:
            items.append(Words((x, base), text, size, ink))
    rows = runs[-1][0] + 1 if runs else 1
    return Drawing(width, 2 * padding + rows * leading, tuple(items))


def _words(text: str, room: float, size: int) -> Iterator[str]:
    """Yield the words of a text; a word longer than a line is split."""
    for word in text.split():
        while text_width(word, size) > room and len(word) > 1:
            fits = max((n for n in range(1, len(word)) if text_width(word[:n], size) <= room), default=1)
            yield word[:fits]
            word = word[fits:]
        yield word


def _label_size(width: int, height: int) -> int:
    return max(12, round(min(width, height) / 32))


def _labels(
    marks: Sequence[Mark], boxes: Sequence[Box], picture: tuple[int, int], size: int
) -> tuple[list[Item], tuple[tuple[str, str], ...]]:
    """Return the labels with a position on the picture, and texts and colours of the others."""
    labelled = [(mark, box, _fit(mark.label, picture[0] - 8, size)) for mark, box in zip(marks, boxes, strict=True)]
    labelled = [(mark, box, text) for mark, box, text in labelled if mark.label.strip()]
    height = round(size * 1.25) + 2
    sizes = [(math.ceil(text_width(text, size)) + 8, height) for _, _, text in labelled]
    places = place_labels(sizes, [box for _, box, _ in labelled], [mark.score for mark, _, _ in labelled], picture)
    items: list[Item] = []
    left_out = []
    for (mark, _, text), place in zip(labelled, places, strict=True):
        if place is None:
            left_out.append((mark.label, mark.colour))
        else:
            items.append(Rect(place, fill=mark.colour, radius=3))
            items.append(Words((place[0] + 4, place[1] + round(size * 0.98)), text, size, text_on(mark.colour)))
    return items, tuple(left_out)


def _fit(text: str, room: float, size: int) -> str:
    """Truncate a text to one line."""
    text = " ".join(text.split())
    if text_width(text, size) <= room:
        return text
    cuts = (f"{text[:n].rstrip()}…" for n in range(len(text) - 1, 0, -1))
    return next((cut for cut in cuts if text_width(cut, size) <= room), text)


def _cross(point: Point, arm: int) -> list[Item]:
    x, y = point
    return [
        Line(start, end, ink, width)
        for width, ink in ((5, "#000000"), (2, PAPER))
        for start, end in (((x - arm, y), (x + arm, y)), ((x, y - arm), (x, y + arm)))
    ]


def _cut(box: Box, size: tuple[int, int]) -> Box:
    """Round a box to whole pixels and clip it to the picture, at least two pixels wide and high."""
    x1, y1 = (min(max(round(value), 0), max(side - 2, 0)) for value, side in zip(box[:2], size, strict=True))
    x2, y2 = (min(round(value), side) for value, side in zip(box[2:], size, strict=True))
    return x1, y1, max(x1 + 2, x2), max(y1 + 2, y2)


def _grown(box: Box) -> Box:
    return box[0] - 1, box[1] - 1, box[2] + 1, box[3] + 1


def _scaled(box: Box, scale: float) -> Box:
    x1, y1, x2, y2 = box
    return x1 * scale, y1 * scale, x2 * scale, y2 * scale
