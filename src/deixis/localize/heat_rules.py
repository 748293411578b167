"""Region of a heat map by heat, area, detector score and class name (rule "heat", ours)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.localize.heat import Floats, heat_inside
from deixis.types import Regions

MIN_PROBABILITY = 0.001
"""Smallest score or class probability that counts, so that none excludes a region."""


@dataclass(frozen=True)
class HeatRule:
    """Score of a region: heat above a floor / area ** p * detector score ** q * class probability ** r."""

    floor: float  # between 0 (minimum of the map) and 1 (its maximum); heat below counts as 0
    area_power: float  # p: 0 prefers the whole image, 1 the hottest cell
    score_power: float  # q: 0 ignores the score of the proposal
    class_power: float = 0.0  # r: 0 ignores the class of the region

    def select(self, maps: Floats, regions: Regions, class_probs: Floats | None = None) -> npt.NDArray[np.intp]:
        """Index ``[P]`` of the region with the highest score for each map ``[P, H, W]``; N > 0."""
        return self.scores(maps, regions, class_probs).argmax(1)

    def scores(self, maps: Floats, regions: Regions, class_probs: Floats | None = None) -> Floats:
        """Scores ``[P, N]`` of the regions; ``class_probs [P, N]`` as :func:`..class_names.class_probabilities`."""
        low, high = maps.min((1, 2), keepdims=True), maps.max((1, 2), keepdims=True)
        inside = heat_inside(np.maximum(maps - low - self.floor * (high - low), 0), regions)
        scores = inside / np.maximum(geometry.area(regions.boxes), 1) ** self.area_power  # at least one pixel
        if self.score_power and regions.scores is not None:
            scores = scores * np.maximum(regions.scores, MIN_PROBABILITY) ** self.score_power
        if self.class_power and class_probs is not None:
            scores = scores * np.maximum(class_probs, MIN_PROBABILITY) ** self.class_power
        return scores


@dataclass(frozen=True)
class HeatRules:
    """Rules for one kind of proposals, by what a phrase names."""

    known: HeatRule  # one object of a class of the detector
    other: HeatRule  # one object of another class
    plural: HeatRule  # several objects: the box around all of them is larger and has no class


DETECTOR_RULES = HeatRules(HeatRule(0.2, 0.6, 0.3, 0.4), HeatRule(0.0, 0.3, 0.0), HeatRule(0.0, 0.3, 0.1))
"""For boxes of a detector, whose score is the probability of a whole object."""

PROPOSAL_RULES = HeatRules(HeatRule(0.1, 0.3, 0.0), HeatRule(0.1, 0.3, 0.0), HeatRule(0.0, 0.2, 0.0))
"""For other proposals. All values were chosen on validation photographs (experiments/flickr8k-entities/boxes.py)."""


def select_by_heat(
    maps: Floats, regions: Regions, class_probs: Floats, plural: Sequence[bool], detector: bool
) -> npt.NDArray[np.intp]:
    """Index ``[P]`` of the region of each map ``[P, H, W]``.

    ``class_probs [P, N]`` is 1 in rows of phrases that name no class of the detector. ``plural [P]`` marks phrases that
    name several objects. ``detector``: a detector made the regions.
    """
    rules = DETECTOR_RULES if detector else PROPOSAL_RULES
    known, other, several = (
        rule.select(maps, regions, class_probs) for rule in (rules.known, rules.other, rules.plural)
    )
    is_known = (class_probs < 1).any(1)
    return np.where(np.asarray(plural, dtype=bool), several, np.where(is_known, known, other))
