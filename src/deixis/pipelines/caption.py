"""Caption pipeline: decode, rerank, check, ground."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, get_args

from deixis.language.sentence import sentence
from deixis.localize.attention import from_track
from deixis.pipelines.checks import CHECKS, Check, run_checks
from deixis.pipelines.clip import Clip
from deixis.pipelines.ground import along_time
from deixis.pipelines.information_gain import information_gains
from deixis.pipelines.models import Models, PhraseGrounder
from deixis.pipelines.photo import Photo, encode_batch, extract_batch, parse_batch
from deixis.pipelines.place import PlaceOption, place, place_rule
from deixis.pipelines.rerank import rank, rerank
from deixis.pipelines.results import BY_FRAMES, CaptionResult, Warning
from deixis.pipelines.second_look import first_supported, seen_classes
from deixis.types import Candidate, GroundedCaption, Place

BATCH = 16  # photographs that are prepared and decoded together


@dataclass(frozen=True)
class CaptionOptions:
    """Steps of the pipeline that can be changed; the defaults are what every verb does."""

    rerank: Literal["grounder", "none"] = "grounder"  # use the grounder, if it has comparable scores
    place: PlaceOption | None = None  # None: the grounder where there is one, else the captioner's own rule
    checks: tuple[Check, ...] = CHECKS
    heat: bool = False  # keep the grounder's heat maps


DEFAULT = CaptionOptions()

Measure = Callable[[str], AbstractContextManager[object]]
"""Timer of a named part of the pipeline; ``nullcontext`` measures nothing."""


def caption(
    photos: Sequence[Photo], models: Models, options: CaptionOptions = DEFAULT, measure: Measure = nullcontext
) -> list[CaptionResult]:
    """Caption photographs and clips; every step is one line of this function or of :func:`finish`."""
    options = replace(options, place=place_rule(models, options.place))
    if any(isinstance(photo, Clip) for photo in photos):
        return [
            _caption_clip(one, models, options)
            if isinstance(one, Clip)
            else caption([one], models, options, measure)[0]
            for one in photos
        ]
    grounder = models.grounder if reranks(models, options) else None
    with measure("regions"):
        extract_batch(photos, models.extractor)
    with measure("encode"):
        if models.grounder is not None and (grounder is not None or options.place not in ("attention", "vote")):
            encode_batch(photos, models.grounder)
    generation = models.captioner.generation
    width = generation.beam if grounder is None else generation.rerank_beam or generation.beam
    with measure("decode"):
        beams = models.captioner.decode([photo.regions(models.extractor) for photo in photos], width)
    with measure("parse"):
        parse_batch(photos, [[candidate.words for candidate in beam] for beam in beams])
    with measure("rerank"):
        chosen = [choose(beam, photo, grounder, models, options) for photo, beam in zip(photos, beams, strict=True)]
    with measure("check"):
        blank = models.blank if "gain" in options.checks else None
        gains = [math.inf] * len(chosen) if blank is None else information_gains(chosen, models.captioner, blank)
    return [finish(*each, models, options, measure) for each in zip(photos, chosen, gains, strict=True)]


def choose(
    beam: Sequence[Candidate], photo: Photo, grounder: PhraseGrounder | None, models: Models, options: CaptionOptions
) -> Candidate:
    """Return the best sentence of a beam whose objects are in the photograph, as far as the extractor knows them."""
    repeats = models.captioner.generation.allow_repeated_words
    if "second-look" not in options.checks:
        return rank(beam, photo, grounder, repeats)[0]
    ranked = rank(beam, photo, grounder, repeats, seen_classes(photo, models.extractor))
    return first_supported(ranked, photo, models.extractor)


def _caption_clip(clip: Clip, models: Models, options: CaptionOptions) -> CaptionResult:
    """Caption a clip, with a captioner of clips or frame by frame; the checks are those of photographs."""
    if not models.captioner.describes_clips:
        return caption_by_frames(clip, models, options)
    generation = models.captioner.generation
    (beam,) = models.captioner.decode([clip.regions(models.extractor)], generation.beam)
    chosen = rerank(beam, clip, None, generation.allow_repeated_words)
    return finish(clip, chosen, math.inf, models, replace(options, checks=()))


def caption_by_frames(clip: Clip, models: Models, options: CaptionOptions) -> CaptionResult:
    """Caption the middle frame of a clip with a captioner of photographs, and ground its words in every frame."""
    clip.regions(models.extractor)  # of all frames, before one of them is a photograph
    (middle,) = caption([clip.photo(clip.middle)], models, options)
    option = place_rule(models, options.place)
    by_attention = option in get_args(Place)
    tracks = []
    for frame in range(len(clip.times)):
        photo = clip.photo(frame)
        candidate = Candidate(middle.caption.words, None, 0.0, middle.trace)
        if by_attention:
            regions = [photo.regions(models.extractor)]
            candidate = models.captioner.force_decode(regions, [[middle.caption.words]])[0][0]
        tracks.append(place(candidate, photo, models, option))
    phrases, words = (
        [along_time(each, clip.times) for each in zip(*some, strict=True)] for some in zip(*tracks, strict=True)
    )
    if by_attention:  # attention has no threshold of presence
        phrases, words = ([from_track(one, one.track, 0.0) for one in some] for some in (phrases, words))
    grounded = replace(
        middle.caption, groundings=tuple(phrases), word_groundings=tuple(words), times=clip.times, image=clip.name
    )
    told = Warning(
        BY_FRAMES,
        f"the captioner {models.captioner.name} describes photographs: the sentence is that of the frame at "
        f"{clip.times[clip.middle]:.1f} s, and its nouns were located in each of {len(clip.times)} frames.",
        lowers_confidence=False,
    )
    return CaptionResult(clip.source, grounded, (*middle.warnings, told), middle.trace)


def finish(
    photo: Photo,
    chosen: Candidate,
    gain: float,
    models: Models,
    options: CaptionOptions,
    measure: Measure = nullcontext,
) -> CaptionResult:
    """Check a sentence and ground its noun phrases."""
    with measure("check"):
        chosen, warnings = run_checks(chosen, photo, models, gain, options.checks)
    with measure("place"):
        groundings, words = place(chosen, photo, models, place_rule(models, options.place), options.heat)
    grounded = GroundedCaption(
        words=chosen.words,
        groundings=groundings,
        logprob=chosen.logprob,
        image=photo.name,
        width=photo.size[0],
        height=photo.size[1],
        model=models.name,
        caption=sentence(chosen.words),
        word_groundings=words,
        model_hash=models.hash,
        times=photo.times if isinstance(photo, Clip) else (),
    )
    return CaptionResult(photo.source, grounded, warnings, chosen.trace)


def reranks(models: Models, options: CaptionOptions) -> bool:
    """Return whether beams are reranked: if the grounder reads the captioner's regions and has rerank weights."""
    grounder = models.grounder
    able = grounder is not None and models.shares_regions and grounder.rerank_weights is not None
    return able and options.rerank == "grounder"


def caption_stream(
    photos: Iterable[Photo],
    models: Models,
    options: CaptionOptions = DEFAULT,
    measure: Measure = nullcontext,
) -> Iterator[CaptionResult]:
    """Caption any number of photographs in batches, in their order; ``measure`` times the parts of the pipeline.

    After an interrupt, the photographs that are already opened are captioned before it is raised.
    """
    for some in _batches(iter(photos)):
        yield from caption(some, models, options, measure)


def _batches(photos: Iterator[Photo]) -> Iterator[list[Photo]]:
    while True:
        some: list[Photo] = []
        try:
            for photo in islice(photos, BATCH):
                some.append(photo)
        except KeyboardInterrupt:
            if some:
                yield some
            raise
        if some:
            yield some
        if len(some) < BATCH:
            return
