"""Information gain of a caption: log p(caption given image) minus log p(caption given a blank image), per word.

A captioner's favourite sentences are likely for every image, so that the probability of a sentence alone says little.
The gain says how much of it comes from the photograph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from deixis.methods.updown.model import Captioner
from deixis.types import Candidate
from deixis.vision.blank import BlankRegions

MIN_GAIN = 0.65
"""Nats per word, for the default captioner. A tenth of the validation photographs lies below; their captions are much
worse than the others' (``experiments/flickr8k-entities/confidence.txt``)."""


def information_gains(candidates: Sequence[Candidate], captioner: Captioner, blank: BlankRegions) -> list[float]:
    """Return the gain of each caption in nats per word, against the blank image under which it is likeliest."""
    scored = [one for one in candidates if one.words and one.logprob is not None]  # not templates
    if not scored:
        return [-math.inf] * len(candidates)
    found = captioner.force_decode(blank.regions, [[one.words for one in scored]] * len(blank.regions))
    gains = {}
    for candidate, *forced in zip(scored, *found, strict=True):
        without_image = max(one.logprob or 0.0 for one in forced)
        gains[candidate] = ((candidate.logprob or 0.0) - without_image) / (len(candidate.words) + 1)
    return [gains.get(one, -math.inf) for one in candidates]
