"""Caption pipeline: decode, rerank, check, ground."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from deixis.language.sentence import sentence
from deixis.pipelines.checks import CHECKS, Check, run_checks
from deixis.pipelines.information_gain import information_gains
from deixis.pipelines.models import Models
from deixis.pipelines.photo import Photo, encode_batch, parse_batch
from deixis.pipelines.place import PlaceOption, check_option, default_place, place
from deixis.pipelines.rerank import rerank
from deixis.pipelines.results import CaptionResult
from deixis.types import Candidate, GroundedCaption

BATCH = 16  # photographs that are prepared and decoded together


@dataclass(frozen=True)
class CaptionOptions:
    """Steps of the pipeline that can be changed; the defaults are what every verb does."""

    rerank: Literal["grounder", "none"] = "grounder"  # use the grounder, if it has comparable scores
    place: PlaceOption | None = None  # None: the grounder where there is one, else the captioner's own rule
    checks: tuple[Check, ...] = CHECKS
    heat: bool = False  # keep the grounder's heat maps


DEFAULT = CaptionOptions()


def caption(photos: Sequence[Photo], models: Models, options: CaptionOptions = DEFAULT) -> list[CaptionResult]:
    """Caption photographs; every step is one line of this function or of :func:`finish`."""
    check_option(models, options.place or default_place(models))
    prepare(photos, models, options)
    grounder = models.grounder if reranks(models, options) else None
    generation = models.captioner.generation
    width = generation.beam if grounder is None else generation.rerank_beam or generation.beam
    beams = models.captioner.decode([photo.regions(models.extractor) for photo in photos], width)
    parse_batch(photos, [[candidate.words for candidate in beam] for beam in beams])
    repeats = generation.allow_repeated_words
    chosen = [rerank(beam, photo, grounder, repeats) for photo, beam in zip(photos, beams, strict=True)]
    blank = models.blank if "gain" in options.checks else None
    gains = [math.inf] * len(chosen) if blank is None else information_gains(chosen, models.captioner, blank)
    return [finish(*each, models, options) for each in zip(photos, chosen, gains, strict=True)]


def finish(photo: Photo, chosen: Candidate, gain: float, models: Models, options: CaptionOptions) -> CaptionResult:
    """Check a sentence and ground its noun phrases."""
    chosen, warnings = run_checks(chosen, photo, models, gain, options.checks)
    groundings, words = place(chosen, photo, models, options.place or default_place(models), options.heat)
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
    )
    return CaptionResult(photo.source, grounded, warnings, chosen.trace)


def prepare(photos: Sequence[Photo], models: Models, options: CaptionOptions) -> None:
    """Extract missing regions, and encode all photographs with the grounder in one pass."""
    for photo in photos:
        photo.regions(models.extractor)
    if models.grounder is not None and (reranks(models, options) or options.place not in ("attention", "vote")):
        encode_batch(photos, models.grounder)


def reranks(models: Models, options: CaptionOptions) -> bool:
    """Return whether beams are reranked: if the grounder reads the captioner's regions and has rerank weights."""
    grounder = models.grounder
    able = grounder is not None and models.shares_regions and grounder.rerank_weights is not None
    return able and options.rerank == "grounder"


def caption_stream(
    photos: Iterable[Photo],
    models: Models,
    options: CaptionOptions = DEFAULT,
    measure: Callable[[str], AbstractContextManager[None]] = lambda part: nullcontext(),
) -> Iterator[CaptionResult]:
    """Caption any number of photographs in batches, in their order; ``measure`` is a timer for the part "caption".

    After an interrupt, the photographs that are already opened are captioned before it is raised.
    """
    for some in _batches(iter(photos)):
        with measure("caption"):
            results = caption(some, models, options)
        yield from results


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
