"""Several looks at one photograph: the branches of a captioner word by word, and the captions of several models."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from deixis.errors import DeixisError
from deixis.show.draw import Mark, Span, caption_spans, colour, draw_marks, draw_photo, draw_text
from deixis.show.drawing import FAINT, Drawing, beside, framed, stack
from deixis.show.heat import overlay
from deixis.types import GroundedCaption, Grounding

CELL = 300  # pixels of a picture's width in a strip
GAP = 16


def draw_branches(
    image: Image.Image,
    caption: GroundedCaption,
    branches: Sequence[Sequence[Grounding]],
    voted: Sequence[Sequence[bool]],
    width: int = CELL,
) -> Drawing:
    """A row for each grounded word, a column for each branch, and the merged box last (Distributed Attention, Fig. 7).

    ``branches[i][k]`` is where branch k looked for ``caption.groundings[i]``, with a heat map or without;
    ``voted[i][k]`` whether it would have said that word itself. A branch that would not is told by its note.
    """
    counts = {len(row) for row in (*branches, *voted)}
    if not len(branches) == len(voted) == len(caption.groundings) or len(counts) > 1:
        raise ValueError("each grounded word needs a look and a vote of every branch")
    if not branches:
        raise DeixisError("the caption names nothing that has a place; there are no branches to draw.")
    size, narrow = max(12, width // 18), width // 2

    def cell(look: Grounding, ink: str, note: str = "") -> Drawing:
        photo = image if look.heat is None else overlay(image, look.heat)
        mark = Mark(look.box, "", ink, look.parts).scaled(photo.width / image.width)
        below = draw_text([Span(f"{look.score:.2f}{note}")], width, size, padding=2, ink=FAINT)
        return stack([draw_marks(photo, [mark], width), below])

    names = [f"branch {k + 1}" for k in range(len(branches[0]))]
    heads = [draw_text([Span(name)], width, size, padding=2, ink=FAINT) for name in (*names, "merged")]
    rows = [beside([Drawing(narrow, 1), *heads], GAP)]
    for i, grounding in enumerate(caption.groundings):
        word = draw_text([Span(grounding.text, colour(i))], narrow, round(size * 1.2), padding=0)
        votes = zip(branches[i], voted[i], strict=True)
        cells = [cell(look, colour(i), "" if vote else ", another word") for look, vote in votes]
        rows.append(beside([word, *cells, cell(grounding, colour(i))], GAP))
    sentence = draw_text(caption_spans(caption), rows[0].width, round(size * 1.4), padding=0)
    return framed(stack([sentence, *rows], GAP), GAP)


def draw_comparison(
    image: Image.Image, captions: Sequence[GroundedCaption], names: Sequence[str] = (), width: int = 640
) -> Drawing:
    """The captions of several models of one photograph side by side (Distributed Attention, Fig. 5).

    A word that several captions say has the same colour in all of them. ``names`` stand above the pictures, the
    models' own if none are given.
    """
    if not captions:
        raise ValueError("there is nothing to compare")
    words = dict.fromkeys(grounding.text for caption in captions for grounding in caption.groundings)
    inks = {word: colour(i) for i, word in enumerate(words)}
    panels = []
    for caption, name in zip(captions, names or [caption.model for caption in captions], strict=True):
        colours = [inks[grounding.text] for grounding in caption.groundings]
        marks = [Mark.of(grounding, ink) for grounding, ink in zip(caption.groundings, colours, strict=True)]
        size = width // 26
        panels.append(
            stack(
                [
                    draw_text([Span(name)], width, round(size * 0.8), padding=4, ink=FAINT),
                    draw_photo(image, marks, width),
                    draw_text(caption_spans(caption, colours), width, size, padding=6),
                ]
            )
        )
    return framed(beside(panels, GAP), GAP)
