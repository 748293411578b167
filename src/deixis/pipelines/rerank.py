"""Rerank beam candidates with a grounder's match scores.

The likeliest candidate of a beam often fits many photographs. A grounder was trained to tell the captions of a
photograph from those of others. The score of a candidate becomes

    logprob / length ** length_power + caption * evidence(sentence) + weakest_phrase * log p(weakest noun phrase)

with the grounder's :class:`~deixis.types.RerankWeights`. No training is involved.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from deixis.language.names import COCO_NOUNS
from deixis.language.queries import visible_phrases
from deixis.language.sentence import repeats_word
from deixis.pipelines.models import PhraseGrounder
from deixis.pipelines.photo import Photo
from deixis.types import Candidate

MIN_PROB = 1e-3
"""Smallest probability of a phrase that is told from 0."""

SEEN_WEIGHT = 1.0
"""Score of a sentence that names all objects which are seen for certain (log-probability units)."""

REPEAT_PENALTY = 1e4
"""Penalty for sentences that repeat a word (log-probability units)."""


def rerank(
    beam: Sequence[Candidate], photo: Photo, grounder: PhraseGrounder | None, allow_repeats: bool = True
) -> Candidate:
    """Return the best candidate; see :func:`rank`."""
    return rank(beam, photo, grounder, allow_repeats)[0]


def rank(
    beam: Sequence[Candidate],
    photo: Photo,
    grounder: PhraseGrounder | None,
    allow_repeats: bool = True,
    seen: Collection[str] = (),
) -> list[Candidate]:
    """Return the candidates by the sum of their own score and the grounder's, or by their own score, the best first.

    Candidates that repeat a word come last unless allowed. ``seen`` are classes of objects that a detector is certain
    of: a candidate that names all of them gets ``SEEN_WEIGHT``, one that names a part of them its share.
    """
    scores = [candidate.score for candidate in beam]
    if grounder is not None and len(beam) > 1:
        scores = [own + match for own, match in zip(scores, match_scores(beam, photo, grounder), strict=True)]
    if not allow_repeats:
        scores = [s - REPEAT_PENALTY * repeats_word(c.words) for s, c in zip(scores, beam, strict=True)]
    if seen:
        scores = [s + SEEN_WEIGHT * named_share(c, photo, seen) for s, c in zip(scores, beam, strict=True)]
    return [beam[i] for i in sorted(range(len(beam)), key=scores.__getitem__, reverse=True)]


def named_share(candidate: Candidate, photo: Photo, classes: Collection[str]) -> float:
    """Return the share of classes that a sentence names; "puppy" names a dog."""
    named = {COCO_NOUNS.get(noun, noun) for noun in photo.nouns(candidate.words)}
    return len(named & set(classes)) / len(classes)


def match_scores(beam: Sequence[Candidate], photo: Photo, grounder: PhraseGrounder) -> list[float]:
    """Return the weighted evidence of each candidate and of its weakest noun phrase.

    A sentence without a noun phrase has the least probability: nothing of it can be found.
    """
    weights = grounder.rerank_weights
    assert weights is not None
    parses = [photo.parse(candidate.words) for candidate in beam]
    sentences = [parsed.phrase(0, len(parsed)) for parsed in parses]
    phrases = [visible_phrases(parsed) if weights.weakest_phrase else () for parsed in parses]
    encoded = photo.encoded(grounder)
    if not weights.weakest_phrase:
        return [weights.caption * one for one in grounder.evidence(encoded, sentences, parses)]
    evidence = iter(grounder.evidence(encoded, [*sentences, *(phrase for each in phrases for phrase in each)]))
    scores = [weights.caption * next(evidence) for _ in sentences]
    weakest = [min((grounder.phrase_probability(next(evidence)) for _ in each), default=0.0) for each in phrases]
    return [s + weights.weakest_phrase * math.log(max(p, MIN_PROB)) for s, p in zip(scores, weakest, strict=True)]
