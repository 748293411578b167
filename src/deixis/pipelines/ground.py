"""Ground pipeline: phrases, or the noun phrases of a caption, in a photograph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.language.queries import Query, caption_query, phrase_queries
from deixis.pipelines.clip import Clip
from deixis.pipelines.models import PhraseGrounder
from deixis.pipelines.photo import Photo, encode_batch
from deixis.pipelines.results import MIN_PRESENCE
from deixis.types import FrameBox, Grounding, HeatPlace, Place


def ground(
    photo: Photo, wanted: str | Sequence[str], grounder: PhraseGrounder, place: Place | HeatPlace | None = None
) -> list[Grounding]:
    """Ground each phrase of a list by itself, or the visible noun phrases of a caption together."""
    if isinstance(wanted, str):
        (parsed,) = parse([wanted])
        queries = [caption_query(parsed)]
        if not queries[0].phrases:
            raise DeixisError(f"there is no noun phrase in '{wanted}'. Give the phrases themselves.")
    else:
        queries = phrase_queries(wanted)
    return ground_queries(photo, queries, grounder, place)


def ground_queries(
    photo: Photo, queries: Sequence[Query], grounder: PhraseGrounder, place: Place | HeatPlace | None = None
) -> list[Grounding]:
    """Ground every phrase of the queries, in order; in a clip, in every frame.

    The grounding of a clip is that of the frame with the highest probability. A frame is shown if the phrase is
    probably present in it.
    """
    if place is not None:
        check_place(grounder, place)
    if isinstance(photo, Clip):
        return _in_frames(photo, queries, grounder, place)
    return grounder.ground(photo.encoded(grounder), queries, place)


def _in_frames(
    clip: Clip, queries: Sequence[Query], grounder: PhraseGrounder, place: Place | HeatPlace | None
) -> list[Grounding]:
    photos = [clip.photo(frame) for frame in range(len(clip.times))]
    encode_batch(photos, grounder)
    per_frame = [grounder.ground(photo.encoded(grounder), queries, place) for photo in photos]
    return [along_time(each, clip.times) for each in zip(*per_frame, strict=True)]


def along_time(found: Sequence[Grounding], times: Sequence[float]) -> Grounding:
    """Combine the groundings of one phrase in all frames; boxes of different frames stay apart."""
    track = tuple(
        FrameBox(frame, times[frame], one.box, one.score, one.parts, shown=one.score >= MIN_PRESENCE)
        for frame, one in enumerate(found)
    )
    best = max(range(len(found)), key=lambda frame: found[frame].score)
    return replace(found[best], frame=best, time=times[best], track=track)


def check_place(grounder: PhraseGrounder, place: str) -> None:
    """Raise an error if a grounder has no box rule of that name."""
    if place not in grounder.box_rules:
        kind = "attention over regions" if "attention" in grounder.box_rules else "heat maps"
        known = " or ".join(grounder.box_rules)
        raise DeixisError(f"{grounder.name} finds boxes by {kind}. Its --place is {known}, not {place}.")
