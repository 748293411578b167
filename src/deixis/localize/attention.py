"""Region or box from attention over regions (rules "attention" and "vote")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.localize.heat import heat_map
from deixis.localize.votes import vote_region
from deixis.types import AttentionTrace, Box, FrameBox, Grounding, Place, Regions


def select_region(
    regions: Regions, attention: npt.NDArray[np.floating], place: Place = "vote", detector: bool = False
) -> int:
    """Return the index of the region for ``attention [N]``: its maximum, or the region with the most votes.

    ``detector``: the scores of the regions are those of a detector.
    """
    return int(attention.argmax()) if place == "attention" else vote_region(regions, attention, detector)


def ground_word(
    trace: AttentionTrace,
    step: int,
    word: str,
    regions: Regions,
    place: Place = "attention",
    detector: bool = False,
    frame_threshold: float = 0.0,
    times: Sequence[float] = (),
) -> Grounding:
    """Return the grounding of the word at a step, from the branches that predicted it.

    Their best boxes are the ``parts``. "attention": the box is the union of the parts (Distributed Attention,
    Sec. 3.3). "vote": the box is the region with the most votes by the branches' mean attention. The score is the mean
    attention of these branches to their best boxes.

    In a clip this holds for each frame by itself: the ``track`` has the best box of every frame, and the grounding is
    that of the frame with the highest score. A frame is shown if its score is at least ``frame_threshold`` times the
    highest one. ``times`` are the seconds of the frames, by default their numbers.
    """
    attention = trace.attention[step][trace.branch_mask[step]]  # [branches, N]
    if regions.frames is None:
        box, score, parts = _box(regions, attention, place, detector)
        return Grounding(word, box, score, step, step + 1, parts, head=step)
    found = []
    for frame in np.unique(regions.frames).tolist():
        rows = np.flatnonzero(regions.frames == frame)
        box, score, parts = _box(regions.select(rows), attention[:, rows], place, detector)
        found.append(FrameBox(frame, float(times[frame]) if times else float(frame), box, score, parts))
    return from_track(Grounding(word, found[0].box, 0.0, step, step + 1, head=step), found, frame_threshold)


def from_track(grounding: Grounding, track: Sequence[FrameBox], frame_threshold: float) -> Grounding:
    """Return a grounding with the boxes of all frames; its box is the one with the highest score.

    A frame is shown if its score is at least ``frame_threshold`` times the highest one.
    """
    best = max(track, key=lambda one: one.score)
    kept = tuple(replace(one, shown=one.score >= frame_threshold * best.score) for one in track)
    return replace(
        grounding, box=best.box, score=best.score, parts=best.parts, frame=best.frame, time=best.time, track=kept
    )


def _box(
    regions: Regions, attention: npt.NDArray[np.floating], place: Place, detector: bool
) -> tuple[Box, float, tuple[Box, ...]]:
    """Box, score and parts for attention ``[branches, N]`` over the regions of one image or frame."""
    best = regions.boxes[np.unique(attention.argmax(-1))]
    parts = tuple(geometry.as_box(box) for box in best) if len(best) > 1 else ()
    if place == "vote":
        box = regions.boxes[select_region(regions, attention.mean(0), place, detector)]
    else:
        box = geometry.union(best)
    return geometry.as_box(box), float(attention.max(-1).mean()), parts


def branch_groundings(
    trace: AttentionTrace, groundings: tuple[Grounding, ...], cells: int = 24
) -> list[list[Grounding]]:
    """Return, for each grounding of a caption, the best region of each branch at its head, with a heat map.

    In a clip, these are the regions of the grounding's frame.
    """
    found = []
    for one in groundings:
        step = one.start if one.head is None else one.head
        attention, boxes = frame_attention(trace, step, one.frame)
        found.append(
            [
                Grounding(
                    one.text,
                    geometry.as_box(boxes[int(weights.argmax())]),
                    float(weights.max()),
                    one.start,
                    one.end,
                    heat=heat_map(weights, boxes, trace.size, cells),
                    frame=one.frame,
                    time=one.time,
                )
                for weights in attention
            ]
        )
    return found


def frame_attention(
    trace: AttentionTrace, step: int, frame: int | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.floating]]:
    """Return attention ``[K, n]`` and boxes ``[n, 4]`` at a step: of one frame of a clip, or of a photograph.

    Without ``frame``, a clip's frame is the one with the highest attention of a branch that predicted the word.
    """
    attention = trace.attention[step]
    if trace.frames is None:
        return attention, trace.boxes
    if frame is None:
        frame = int(trace.frames[int(attention[trace.branch_mask[step]].max(0).argmax())])
    rows = np.flatnonzero(trace.frames == frame)
    return attention[:, rows], trace.boxes[rows]
