"""Drawings of clips: a strip of frames, the attention at every word, and a video with boxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from deixis.errors import DeixisError
from deixis.files import atomic_path
from deixis.localize.attention import frame_attention
from deixis.localize.heat import heat_map
from deixis.show.draw import Mark, Span, caption_spans, colour, draw_marks, draw_text
from deixis.show.drawing import FAINT, Drawing, beside, framed, stack
from deixis.show.heat import overlay
from deixis.types import AttentionTrace, FrameBox, GroundedCaption, Grounding

CELL, COLUMNS, GAP = 300, 5, 12
WIDEST = 1280  # pixels of a written video


def shown_marks(groundings: Sequence[Grounding], frame: int) -> list[Mark]:
    """Return the marks of the groundings that people see in a frame, each in its colour."""
    found = [(i, one, one.shown_at(frame)) for i, one in enumerate(groundings)]
    return [Mark(at.box, one.text, colour(i), at.parts, at.score) for i, one, at in found if at is not None]


def draw_strip(
    images: Sequence[Image.Image],
    times: Sequence[float],
    groundings: Sequence[Grounding],
    sentence: Sequence[Span] = (),
    note: str = "",
) -> Drawing:
    """Draw the sampled frames of a clip in rows, each with its time and the boxes that are shown in it."""
    size = max(12, CELL // 20)
    cells = []
    for frame, (image, time) in enumerate(zip(images, times, strict=True)):
        picture = draw_marks(image, shown_marks(groundings, frame), CELL, size)
        cells.append(stack([picture, draw_text([Span(f"{time:.1f} s")], CELL, size, padding=2, ink=FAINT)]))
    rows = [beside(cells[start : start + COLUMNS], GAP) for start in range(0, len(cells), COLUMNS)]
    width = max(row.width for row in rows)
    parts = [*rows, *([draw_text(sentence, width, round(size * 1.6), padding=0)] if sentence else [])]
    if note:
        parts.append(draw_text([Span(note)], width, size, padding=0, ink=FAINT))
    return framed(stack(parts, GAP), GAP)


def draw_words(images: Sequence[Image.Image], caption: GroundedCaption, trace: AttentionTrace) -> Drawing:
    """Draw every word and where the captioner attended when it wrote it (Cyclical, Figures 9 to 16).

    ``images`` are the photograph, or the frames of a clip. In a clip, each word has the frame with its best region. The
    heat is the mean attention of the branches that predicted the word, and the box is its best region.
    """
    if not caption.words or len(trace.attention) < len(caption.words):
        raise DeixisError("the caption has no attention to draw: it is a template, or it has no words.")
    inks = {at: colour(i) for i, one in enumerate(caption.groundings) for at in range(one.start, one.end)}
    size, cells = max(12, CELL // 16), []
    for step, word in enumerate(caption.words):
        voted = trace.branch_mask[step]
        attention, boxes = frame_attention(trace, step)
        weights = attention[voted].mean(0)
        frame = 0
        if trace.frames is not None:
            frame = int(trace.frames[int(trace.attention[step][voted].max(0).argmax())])
        image = images[frame]
        picture = overlay(image, heat_map(weights, boxes, trace.size, 24))
        x1, y1, x2, y2 = (float(v) for v in boxes[int(weights.argmax())])
        mark = Mark((x1, y1, x2, y2), "", inks.get(step, FAINT)).scaled(picture.width / image.width)
        at = f"  {caption.times[frame]:.1f} s" if trace.frames is not None and caption.times else ""
        below = draw_text([Span(word, inks.get(step)), Span(at)] if at else [Span(word, inks.get(step))], CELL, size, 4)
        cells.append(stack([draw_marks(picture, [mark], CELL), below]))
    rows = [beside(cells[start : start + COLUMNS], GAP) for start in range(0, len(cells), COLUMNS)]
    sentence = draw_text(caption_spans(caption), max(row.width for row in rows), round(size * 1.2), padding=0)
    return framed(stack([sentence, *rows], GAP), GAP)


def box_at(track: Sequence[FrameBox], time: float) -> FrameBox | None:
    """Return the box of a track at a time between its sampled frames; None where people see none.

    Between two neighbouring frames that both show it the box moves linearly. Else it is that of the nearest frame.
    """
    if not track:
        return None
    times = [one.time for one in track]
    after = int(np.searchsorted(times, time))
    left, right = track[max(after - 1, 0)], track[min(after, len(track) - 1)]
    if left.shown and right.shown and right.time > left.time:
        share = min(max((time - left.time) / (right.time - left.time), 0.0), 1.0)
        x1, y1, x2, y2 = ((1 - share) * a + share * b for a, b in zip(left.box, right.box, strict=True))
        return replace(left, box=(x1, y1, x2, y2), time=time, parts=())
    nearest = min((left, right), key=lambda one: abs(one.time - time))
    return nearest if nearest.shown else None


def draw_moment(image: Image.Image, caption: GroundedCaption, time: float, width: int) -> Image.Image:
    """Draw one frame of a video with the boxes of its moment, and the sentence below."""
    found = [(i, one, box_at(one.track, time)) for i, one in enumerate(caption.groundings)]
    marks = [Mark(at.box, one.text, colour(i)) for i, one, at in found if at is not None]
    picture = draw_marks(image, marks, width)
    text = draw_text(caption_spans(caption), width, max(14, width // 30))
    return stack([picture, text]).to_image()


def write_video(frames: Iterable[tuple[float, Image.Image]], caption: GroundedCaption, out: Path, rate: float) -> None:
    """Write the frames of a clip (time, image) as a video with boxes; one frame is in memory at a time."""
    import av

    codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
    with atomic_path(out) as path, av.open(str(path), "w", format="mp4") as container:
        stream: Any = None
        last = -1
        for time, image in frames:
            drawn = draw_moment(image, caption, time, min(image.width, WIDEST) // 2 * 2)
            if stream is None:
                stream = container.add_stream(codec, rate=Fraction(rate).limit_denominator(1000))
                stream.width, stream.height = drawn.width // 2 * 2, drawn.height // 2 * 2
                stream.pix_fmt = "yuv420p"
                stream.codec_context.time_base = Fraction(1, 1000)
            at = round(1000 * time)
            if at <= last:
                continue
            last = at
            frame = av.VideoFrame.from_ndarray(
                np.asarray(drawn.crop((0, 0, stream.width, stream.height))), format="rgb24"
            )
            frame.pts, frame.time_base = at, Fraction(1, 1000)
            for packet in stream.encode(frame):
                container.mux(packet)
        if stream is None:
            raise DeixisError(f"{out} was not written: the clip has no frames.")
        for packet in stream.encode():
            container.mux(packet)
