"""Check pipeline: the probability that each noun phrase of a caption, and the whole caption, fits a photograph."""

from __future__ import annotations

from dataclasses import replace

from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.language.queries import caption_query
from deixis.pipelines.ground import ground_queries
from deixis.pipelines.models import PhraseGrounder
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import CheckResult
from deixis.types import GroundedCaption


def check(photo: Photo, caption: str, grounder: PhraseGrounder) -> CheckResult:
    """Ground the visible noun phrases of a caption and score the whole; low scores mean absent."""
    (parsed,) = parse([caption])
    if not len(parsed):
        raise DeixisError("the caption has no words. Write a sentence about the photograph.")
    found = ground_queries(photo, [caption_query(parsed)], grounder)
    whole = replace(parsed.phrase(0, len(parsed)), text=caption)
    (evidence,) = grounder.evidence(photo.encoded(grounder), [whole], [parsed])
    grounded = GroundedCaption(
        words=parsed.tokens,
        groundings=tuple(found),
        image=photo.name,
        width=photo.size[0],
        height=photo.size[1],
        model=grounder.name,
        caption=caption,
        model_hash=grounder.hash,
    )
    return CheckResult(photo.source, grounded, grounder.caption_probability(evidence))
