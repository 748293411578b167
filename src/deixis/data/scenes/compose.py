"""From seed words to a :class:`~deixis.data.sample.Sample`: layout, drawing, facts and words brought together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from deixis.data.sample import Entity, Sample
from deixis.data.scenes import facts
from deixis.data.scenes.backdrop import paint_backdrop
from deixis.data.scenes.canvas import Canvas
from deixis.data.scenes.dice import Dice
from deixis.data.scenes.drawing import Drawing, draw
from deixis.data.scenes.facts import Place, Referent, Relation
from deixis.data.scenes.layout import Scene, Unit, at_time, make_layout, make_moving_layout
from deixis.data.scenes.words import Motion, Sentence, Story, sentences

_LAYOUT, _BACKDROP, _WORDS = 0, 1, 2  # each has its own random numbers, so that one can change without the others
_PART_SIDE = 0.02  # a part must be this big to be named, in picture widths


@dataclass(frozen=True, eq=False)
class Composition:
    """A finished scene or video with all that led to it."""

    scene: Scene
    drawings: tuple[Drawing, ...]  # one per frame
    sentences: tuple[Sentence, ...]
    sample: Sample


@dataclass(frozen=True, eq=False)
class _Frame:
    """One drawing, and what is to be seen in it."""

    drawing: Drawing
    referents: list[Referent]
    places: list[Place]


def compose(seed: Sequence[int], image_id: str, size: int, frames: int = 0) -> Composition:
    """A picture (``frames`` = 0) or a video of that many frames; a layout that hides its main thing is thrown away."""
    attempt = 0
    while True:
        words = (*seed, min(frames, 1), attempt)
        scene, views = _draw(words, size, frames)
        story = _tell_motion(scene, views) if frames else _tell(scene, views[0])
        if story is not None:
            break
        attempt += 1
    told = sentences(story, Dice(*words, _WORDS))
    pixels = np.stack([view.drawing.pixels for view in views]) if frames else views[0].drawing.pixels
    captions = tuple(sentence.caption() for sentence in told)
    entities = _entities([view.places for view in views], moving=frames > 0)
    sample = Sample(image_id, captions, size=(size, size), entities=entities, pixels=pixels)
    return Composition(scene, tuple(view.drawing for view in views), tuple(told), sample)


def _draw(words: Sequence[int], size: int, frames: int) -> tuple[Scene, list[_Frame]]:
    scene = (make_moving_layout if frames else make_layout)(Dice(*words, _LAYOUT))
    canvas = Canvas(size)
    paint_backdrop(canvas, scene.setting, Dice(*words, _BACKDROP))
    if not frames:
        return scene, [_look(scene, draw(scene, canvas))]
    times = [k / max(frames - 1, 1) for k in range(frames)]
    return scene, [_look(scene, draw(at_time(scene, time), canvas.copy())) for time in times]


def _look(scene: Scene, drawing: Drawing) -> _Frame:
    everyone = facts.referents(scene, drawing)
    return _Frame(drawing, everyone, facts.places(scene, drawing, everyone))


def _tell(scene: Scene, view: _Frame) -> Story | None:
    """What a still picture shows; None if its main thing is hidden."""
    if not view.referents[0].nameable:
        return None
    return Story(
        setting=scene.setting,
        things=scene.things,
        referents={referent.id: referent for referent in view.referents if referent.nameable},
        relations=(*facts.built_in(scene, view.referents), *facts.spatial(view.drawing, view.referents)),
        parts=_big_parts(view),
    )


def _big_parts(view: _Frame) -> frozenset[str]:
    side = _PART_SIDE * view.drawing.size
    parts = [place for place in view.places if "." in place.id]
    return frozenset(p.id for p in parts if any(min(b[2] - b[0], b[3] - b[1]) >= side for b in p.boxes))


def _entities(per_frame: list[list[Place]], moving: bool) -> tuple[Entity, ...]:
    """One entity per id, with the boxes of all frames."""
    labels: dict[str, Place] = {}
    boxes: dict[str, list[tuple[float, float, float, float]]] = {}
    numbers: dict[str, list[int]] = {}
    for number, places in enumerate(per_frame):
        for place in places:
            labels.setdefault(place.id, place)
            boxes.setdefault(place.id, []).extend(place.boxes)
            numbers.setdefault(place.id, []).extend([number] * len(place.boxes))
    out = [
        Entity(
            id=key,
            boxes=np.array(boxes[key], dtype=np.float64).reshape(-1, 4),
            types=place.types,
            label=place.label,
            frames=np.array(numbers[key], dtype=np.int64) if moving else None,
        )
        for key, place in labels.items()
    ]
    nowhere: npt.NDArray[np.float64] = np.zeros((0, 4))
    frames = np.zeros(0, dtype=np.int64) if moving else None
    return (*out, Entity(facts.SCENE, nowhere, ("scene",), facts.SCENE, frames, scene=True))


# Videos -------------------------------------------------------------------------------------------------------------


def _tell_motion(scene: Scene, views: Sequence[_Frame]) -> Story | None:
    """What a video shows; None if its main thing is hidden in half of the frames.

    A referent may be named if it is well to be seen in most frames. A relation is told if it holds in every frame in
    which both are well to be seen.
    """
    often = [sum(view.referents[k].nameable for view in views) * 2 > len(views) for k in range(len(views[0].referents))]
    everyone = [replace(referent, nameable=seen) for referent, seen in zip(views[0].referents, often, strict=True)]
    if not everyone[0].nameable:
        return None
    named = {referent.id: referent for referent in everyone if referent.nameable}
    return Story(
        setting=scene.setting,
        things=scene.things,
        referents=named,
        relations=(*facts.built_in(scene, everyone), *_lasting(views, named)),
        parts=_big_parts(views[len(views) // 2]),
        motions={
            referent.id: _motion(scene, views, referent, named)
            for referent in named.values()
            if referent.leads and scene.units[referent.unit].drift != (0.0, 0.0)
        },
    )


def _lasting(views: Sequence[_Frame], named: Collection[str]) -> list[Relation]:
    found = [set(facts.spatial(view.drawing, view.referents)) for view in views]
    visible = [{referent.id for referent in view.referents if referent.nameable} for view in views]
    candidates = sorted(set().union(*found), key=lambda r: (r.name, r.subject, r.object))
    return [
        r
        for r in candidates
        if {r.subject, r.object} <= set(named)
        and all(r in here for here, ids in zip(found, visible, strict=True) if {r.subject, r.object} <= ids)
    ]


def _motion(scene: Scene, views: Sequence[_Frame], referent: Referent, named: Mapping[str, Referent]) -> Motion:
    unit = scene.units[referent.unit]
    way = "up" if unit.moves == "rise" else "left" if unit.drift[0] < 0 else "right"
    first, last = (any(view.drawing.boxes[k] for k in referent.things) for view in (views[0], views[-1]))
    middle, half = _middle(unit), abs(unit.drift[0]) / 2
    passes = [
        other.id
        for other in named.values()
        if other.leads and scene.units[other.unit].drift == (0.0, 0.0)
        if abs(_middle(scene.units[other.unit]) - middle) < half - 0.1
    ]
    return Motion(unit.moves, way, enters=not first, leaves=not last, passes=tuple(passes))


def _middle(unit: Unit) -> float:
    """Half way between the left and the right end of a unit, in picture widths."""
    return (min(thing.bounds[0] for thing in unit.things) + max(thing.bounds[2] for thing in unit.things)) / 2
