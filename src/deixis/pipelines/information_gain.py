"""Information gain of a caption: log p(caption given image) minus log p(caption given a blank image), per word.

A captioner's favourite sentences are likely for every image, so that the probability of a sentence alone says little.
The gain says how much of it comes from the photograph.
"""

from __future__ import annotations

from deixis.methods.updown.model import Captioner
from deixis.types import Candidate
from deixis.vision.blank import BlankRegions

MIN_GAIN = 0.65
"""Nats per word, for the default captioner. A tenth of the validation photographs lies below; their captions are much
worse than the others' (``experiments/flickr8k-entities/confidence.txt``)."""


def information_gain(candidate: Candidate, captioner: Captioner, blank: BlankRegions) -> float:
    """Return the gain in nats per word, against the blank image under which the caption is likeliest."""
    if not candidate.words or candidate.logprob is None:
        return float("-inf")
    found = captioner.force_decode(blank.regions, [[candidate.words]] * len(blank.regions))
    without_image = max(each[0].logprob or 0.0 for each in found)
    return (candidate.logprob - without_image) / (len(candidate.words) + 1)
