"""Pictures of one photograph: attention of branches, of words in several models, and captions of several models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from deixis import boxes as geometry
from deixis.errors import DeixisError
from deixis.localize.heat import heat_map
from deixis.show.draw import Mark, Span, caption_spans, colour, draw_marks, draw_photo, draw_text
from deixis.show.drawing import FAINT, Drawing, beside, framed, stack
from deixis.show.heat import overlay
from deixis.types import GroundedCaption, Grounding

CELL = 300  # width of a picture in pixels
GAP = 16


def draw_branches(
    image: Image.Image,
    caption: GroundedCaption,
    branches: Sequence[Sequence[Grounding]],
    voted: Sequence[Sequence[bool]],
    width: int = CELL,
) -> Drawing:
    """Draw a row for each grounded word, a column for each branch, and the merged box last.

    As in Fig. 7 of Distributed Attention. ``branches[i][k]`` is the grounding of ``caption.groundings[i]`` by branch k,
    with or without a heat map; ``voted[i][k]`` is whether its most probable word is that word. Otherwise it has a note.
    """
    counts = {len(row) for row in (*branches, *voted)}
    if not len(branches) == len(voted) == len(caption.groundings) or len(counts) > 1:
        raise ValueError("each grounded word needs a grounding and a vote of every branch")
    if not branches:
        raise DeixisError("the caption has no grounded word, so there is no attention to draw. Use another photograph.")
    size, narrow = max(12, width // 18), width // 2

    def cell(grounding: Grounding, ink: str, note: str = "") -> Drawing:
        photo = image if grounding.heat is None else overlay(image, grounding.heat)
        mark = Mark(grounding.box, "", ink, grounding.parts).scaled(photo.width / image.width)
        below = draw_text([Span(f"{grounding.score:.2f}{note}")], width, size, padding=2, ink=FAINT)
        return stack([draw_marks(photo, [mark], width), below])

    names = [f"branch {k + 1}" for k in range(len(branches[0]))]
    heads = [draw_text([Span(name)], width, size, padding=2, ink=FAINT) for name in (*names, "merged")]
    rows = [beside([Drawing(narrow, 1), *heads], GAP)]
    for i, grounding in enumerate(caption.groundings):
        word = draw_text([Span(grounding.text, colour(i))], narrow, round(size * 1.2), padding=0)
        votes = zip(branches[i], voted[i], strict=True)
        cells = [cell(each, colour(i), "" if vote else ", another word") for each, vote in votes]
        rows.append(beside([word, *cells, cell(grounding, colour(i))], GAP))
    sentence = draw_text(caption_spans(caption), rows[0].width, round(size * 1.4), padding=0)
    return framed(stack([sentence, *rows], GAP), GAP)


def draw_word_attention(
    image: Image.Image,
    sentence: str,
    rows: Sequence[tuple[str, Sequence[str], npt.NDArray[np.floating], npt.NDArray[np.floating]]],
    shown: int = 3,
    width: int = CELL,
) -> Drawing:
    """Draw a row for each model and a column for each noun of a sentence (POS-SCAN, Fig. 1 and 4).

    A row has the name of the model, the words, their weights ``[words, N]`` and the boxes ``[N, 4]`` of the regions.
    Each picture has the heat of all weights, and the ``shown`` regions of the largest weights with their values; the
    box of the largest is thick.
    """
    size, narrow = max(12, width // 18), width // 2
    lines: list[Drawing] = []
    for model, words, weights, boxes in rows:
        cells = []
        for number, (word, row) in enumerate(zip(words, weights, strict=True)):
            best = np.argsort(-row, kind="stable")[:shown]
            photo = overlay(image, heat_map(row, boxes, image.size))
            first, *others = (geometry.as_box(boxes[n]) for n in best)
            mark = Mark(first, "", colour(number), tuple(others)).scaled(photo.width / image.width)
            below = f"{word}: {', '.join(f'{row[n]:.2f}' for n in best)}"
            note = draw_text([Span(below, colour(number))], width, size, padding=2)
            cells.append(stack([draw_marks(photo, [mark], width), note]))
        name = draw_text([Span(model)], narrow, size, padding=0, ink=FAINT)
        lines.append(beside([name, *cells], GAP))
    if not lines:
        raise ValueError("a picture of attention needs at least one model")
    wide = max(line.width for line in lines)
    return framed(stack([draw_text([Span(sentence)], wide, round(size * 1.4), padding=0), *lines], GAP), GAP)


def draw_comparison(
    image: Image.Image, captions: Sequence[GroundedCaption], names: Sequence[str] = (), width: int = 640
) -> Drawing:
    """Draw the captions of several models for one photograph side by side (Distributed Attention, Fig. 5).

    A word of several captions has the same colour in all of them. ``names`` are written above the pictures; by default
    the names of the models.
    """
    if not captions:
        raise ValueError("a comparison needs at least one caption")
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
