"""From a seed to a :class:`~deixis.data.sample.Sample`: layout, drawing, facts and captions together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from deixis.data.sample import Entity, Sample
from deixis.data.scenes import facts
from deixis.data.scenes.captions import SCENE, Pieces, Writer, to_caption
from deixis.data.scenes.draw import Drawing, draw, paint_backdrop
from deixis.data.scenes.layout import Scene, Thing, Unit, make_layout
from deixis.data.scenes.rng import Rng
from deixis.types import Box

_LAYOUT, _BACKDROP, _WORDS = 0, 1, 2  # each has its own random numbers, so that one can change without the others
_CYCLE = 0.8  # way of one step of a gait, in heights


@dataclass(frozen=True, eq=False)
class Composition:
    """A finished picture or video with all that led to it."""

    scene: Scene
    drawings: tuple[Drawing, ...]  # one per frame
    sentences: tuple[Pieces, ...]
    sample: Sample


def compose(seed: Sequence[int], image_id: str, size: int, frames: int = 0) -> Composition:
    """Make a picture (``frames`` = 0) or a video; a layout that hides its main thing is thrown away."""
    writer, attempt = None, -1
    while writer is None:
        attempt += 1
        words = (*seed, min(frames, 1), attempt)
        scene = make_layout(Rng(*words, _LAYOUT), moving=frames > 0)
        backdrop = paint_backdrop(scene, size, Rng(*words, _BACKDROP))
        times = [k / max(frames - 1, 1) for k in range(frames)] or [0.5]
        drawings = [draw(at_time(scene, time), backdrop) for time in times]
        writer = _gather(scene, drawings, Rng(*words, _WORDS))
    sentences = writer.write()
    pixels = np.stack([drawing.pixels for drawing in drawings]) if frames else drawings[0].pixels
    entities = _entities([facts.find_boxes(scene, drawing) for drawing in drawings], moving=frames > 0)
    sample = Sample(image_id, tuple(map(to_caption, sentences)), size=(size, size), entities=entities, pixels=pixels)
    return Composition(scene, tuple(drawings), tuple(sentences), sample)


def at_time(scene: Scene, time: float) -> Scene:
    """Return the scene at a time 0..1 of a video; at 0.5 everything is where the layout put it."""
    units = [replace(u, things=tuple(_moved(u, t, time) for t in u.things)) if any(u.drift) else u for u in scene.units]
    return replace(scene, units=tuple(units))


def _moved(unit: Unit, thing: Thing, time: float) -> Thing:
    dx, dy = unit.drift
    look = replace(thing.look, phase=thing.look.phase + abs(dx) * time / (_CYCLE * thing.height))
    return replace(thing, look=look, x=thing.x + dx * (time - 0.5), y=thing.y + dy * (time - 0.5))


def _gather(scene: Scene, drawings: Sequence[Drawing], rng: Rng) -> Writer | None:
    """Return a writer with the facts, or None if the main thing is hidden.

    A referent of a video may be named if it is visible in most frames, a spatial relation if it holds in all frames.
    """
    views = [facts.find_referents(scene, drawing) for drawing in drawings]
    often = [2 * sum(referent.nameable for referent in same) > len(views) for same in zip(*views, strict=True)]
    referents = [referent._replace(nameable=named) for referent, named in zip(views[0], often, strict=True)]
    if not often[0]:
        return None
    spatial = [facts.find_spatial(scene, drawing, view) for drawing, view in zip(drawings, views, strict=True)]
    lasting = [relation for relation in spatial[0] if all(relation in found for found in spatial)]
    parts = facts.find_boxes(scene, drawings[len(drawings) // 2], facts.NAMED_PART_SIDE)
    named = {referent.id: referent for referent in referents if referent.nameable}
    return Writer(rng, scene, named, [*facts.find_built_in(scene, referents), *lasting], parts)


def _entities(per_frame: Sequence[dict[str, list[Box]]], moving: bool) -> tuple[Entity, ...]:
    """Return one entity per id, with the boxes of all frames."""
    out = []
    for key in dict.fromkeys(key for boxes in per_frame for key in boxes):
        found = [(box, number) for number, boxes in enumerate(per_frame) for box in boxes.get(key, ())]
        boxes, numbers = zip(*found, strict=True)
        label, kind = facts.label_and_type(key)
        out.append(Entity(key, np.array(boxes), (kind,), label, np.array(numbers) if moving else None))
    nowhere = np.zeros((0, 4))
    return (*out, Entity(SCENE, nowhere, (SCENE,), SCENE, np.zeros(0, np.int64) if moving else None, scene=True))
