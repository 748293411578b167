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


def compose(seed: Sequence[int], image_id: str, size: int, frames: int = 0) -> Composition:
    """A picture (``frames`` = 0) or a video of that many frames; a layout that hides its main thing is thrown away."""
    attempt = 0
    while True:
        words = (*seed, min(frames, 1), attempt)
        scene, drawings = _draw(words, size, frames)
        story = _tell_motion(scene, drawings) if frames else _tell(scene, drawings[0])
        if story is not None:
            break
        attempt += 1
    told = sentences(story, Dice(*words, _WORDS))
    pixels = np.stack([drawing.pixels for drawing in drawings]) if frames else drawings[0].pixels
    entities = _entities([facts.places(scene, drawing) for drawing in drawings], moving=frames > 0)
    captions = tuple(sentence.caption() for sentence in told)
    sample = Sample(image_id, captions, size=(size, size), entities=entities, pixels=pixels)
    return Composition(scene, tuple(drawings), tuple(told), sample)


def _draw(words: Sequence[int], size: int, frames: int) -> tuple[Scene, list[Drawing]]:
    scene = (make_moving_layout if frames else make_layout)(Dice(*words, _LAYOUT))
    canvas = Canvas(size)
    paint_backdrop(canvas, scene.setting, Dice(*words, _BACKDROP))
    if not frames:
        return scene, [draw(scene, canvas)]
    times = [k / max(frames - 1, 1) for k in range(frames)]
    return scene, [draw(at_time(scene, time), canvas.copy()) for time in times]


def _tell(scene: Scene, drawing: Drawing) -> Story | None:
    """What a still picture shows; None if its main thing is hidden."""
    everyone = facts.referents(scene, drawing)
    if not everyone[0].nameable:
        return None
    return Story(
        setting=scene.setting,
        things=scene.things,
        referents={referent.id: referent for referent in everyone if referent.nameable},
        relations=(*facts.built_in(scene, everyone), *facts.spatial(scene, drawing, everyone)),
        parts=frozenset(_big_parts(facts.places(scene, drawing), drawing)),
    )


def _big_parts(places: list[Place], drawing: Drawing) -> list[str]:
    side = _PART_SIDE * drawing.pixels.shape[0]
    return [p.id for p in places if "." in p.id and any(min(b[2] - b[0], b[3] - b[1]) >= side for b in p.boxes)]


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


def _tell_motion(scene: Scene, drawings: Sequence[Drawing]) -> Story | None:
    """What a video shows; None if its main thing is hidden in most frames.

    A referent may be named if it is well to be seen in most frames. A relation is told if it holds in every frame in
    which both are well to be seen.
    """
    frames = [facts.referents(scene, drawing) for drawing in drawings]
    often = [sum(frame[k].nameable for frame in frames) * 2 > len(frames) for k in range(len(frames[0]))]
    everyone = [replace(referent, nameable=seen) for referent, seen in zip(frames[0], often, strict=True)]
    if not everyone[0].nameable:
        return None
    named = {referent.id: referent for referent in everyone if referent.nameable}
    return Story(
        setting=scene.setting,
        things=scene.things,
        referents=named,
        relations=(*facts.built_in(scene, everyone), *_lasting(scene, drawings, frames, named)),
        parts=frozenset(_big_parts(facts.places(scene, drawings[len(drawings) // 2]), drawings[0])),
        motions={
            referent.id: _motion(scene, drawings, referent, named)
            for referent in named.values()
            if referent.leads and scene.units[referent.unit].drift != (0.0, 0.0)
        },
    )


def _lasting(
    scene: Scene, drawings: Sequence[Drawing], frames: Sequence[Sequence[Referent]], named: Collection[str]
) -> list[Relation]:
    found = [set(facts.spatial(scene, d, frame)) for d, frame in zip(drawings, frames, strict=True)]
    visible = [{referent.id for referent in frame if referent.nameable} for frame in frames]
    candidates = sorted(set().union(*found), key=lambda r: (r.name, r.subject, r.object))
    return [
        r
        for r in candidates
        if {r.subject, r.object} <= set(named)
        and all(r in here for here, ids in zip(found, visible, strict=True) if {r.subject, r.object} <= ids)
    ]


def _motion(scene: Scene, drawings: Sequence[Drawing], referent: Referent, named: Mapping[str, Referent]) -> Motion:
    unit = scene.units[referent.unit]
    way = "up" if unit.moves == "rise" else "left" if unit.drift[0] < 0 else "right"
    first, last = (any(drawing.box(k) is not None for k in referent.things) for drawing in (drawings[0], drawings[-1]))
    middle = _middle(unit)
    low, high = middle - abs(unit.drift[0]) / 2, middle + abs(unit.drift[0]) / 2
    passes = [
        other.id
        for other in named.values()
        if other.leads and scene.units[other.unit].drift == (0.0, 0.0)
        if low + 0.1 < _middle(scene.units[other.unit]) < high - 0.1
    ]
    return Motion(unit.moves, way, enters=not first, leaves=not last, passes=tuple(passes))


def _middle(unit: Unit) -> float:
    """Half way between the left and the right end of a unit, in picture widths."""
    return (min(thing.bounds[0] for thing in unit.things) + max(thing.bounds[2] for thing in unit.things)) / 2
