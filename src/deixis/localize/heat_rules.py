"""Region of a heat map by heat, area, detector score and class name (rule "heat", ours)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.language.names import SCENE_NOUNS
from deixis.localize.class_names import names_part
from deixis.localize.heat import Floats, heat_inside
from deixis.localize.several import several_objects
from deixis.types import Phrase, Regions

MIN_PROBABILITY = 0.001
"""Smallest score or class probability that counts, so that none excludes a region."""

MIN_ATTENTION = 1e-6
"""Smallest attention that counts."""


@dataclass(frozen=True)
class HeatRule:
    """Score of a region: heat above a floor / area ** p * detector score ** q * class ** r * attention ** w."""

    floor: float  # between 0 (minimum of the map) and 1 (its maximum); heat below counts as 0
    area_power: float  # p: 0 prefers the whole image, 1 the hottest cell
    score_power: float  # q: 0 ignores the score of the proposal
    class_power: float = 0.0  # r: 0 ignores the class of the region
    attention_power: float = 0.0  # w: 0 ignores the attention to the region itself; for matchers

    def select(
        self, maps: Floats, regions: Regions, class_probs: Floats | None = None, attention: Floats | None = None
    ) -> npt.NDArray[np.intp]:
        """Index ``[P]`` of the region with the highest score for each map ``[P, H, W]``; N > 0."""
        return self.scores(maps, regions, class_probs, attention).argmax(1)

    def scores(
        self, maps: Floats, regions: Regions, class_probs: Floats | None = None, attention: Floats | None = None
    ) -> Floats:
        """Scores ``[P, N]`` of the regions; ``class_probs [P, N]`` as :func:`..class_names.class_probabilities`.

        ``attention [P, N]`` is that of the phrases to the regions, where the map was made of it.
        """
        low, high = maps.min((1, 2), keepdims=True), maps.max((1, 2), keepdims=True)
        inside = heat_inside(np.maximum(maps - low - self.floor * (high - low), 0), regions)
        scores = inside / np.maximum(geometry.area(regions.boxes), 1) ** self.area_power  # at least one pixel
        if self.score_power and regions.scores is not None:
            scores = scores * np.maximum(regions.scores, MIN_PROBABILITY) ** self.score_power
        if self.class_power and class_probs is not None:
            scores = scores * np.maximum(class_probs, MIN_PROBABILITY) ** self.class_power
        if self.attention_power and attention is not None:
            scores = scores * np.maximum(attention, MIN_ATTENTION) ** self.attention_power
        return scores


@dataclass(frozen=True)
class HeatRules:
    """Rules for one kind of proposals, by what a phrase names."""

    known: HeatRule  # one object of a class of the detector
    part: HeatRule  # a part of a person, or clothes, that the detector locates
    other: HeatRule  # one object of another class
    plural: HeatRule  # several objects: the box around all of them is larger and has no class
    scene: HeatRule  # a place: it often fills most of the image


DETECTOR_RULES = HeatRules(
    known=HeatRule(0.2, 0.6, 0.3, 0.4),
    part=HeatRule(0.2, 0.6, 0.3, 0.4),
    other=HeatRule(0.2, 0.5, 0.0),
    plural=HeatRule(0.0, 0.3, 0.1),
    scene=HeatRule(0.0, 0.3, 0.0),
)
"""For boxes of a detector, whose score is the probability of a whole object."""

PROPOSAL_RULES = HeatRules(
    known=HeatRule(0.1, 0.3, 0.0),
    part=HeatRule(0.1, 0.3, 0.0),
    other=HeatRule(0.1, 0.3, 0.0),
    plural=HeatRule(0.0, 0.2, 0.0),
    scene=HeatRule(0.1, 0.3, 0.0),
)
"""For other proposals. All values were chosen on validation photographs (experiments/flickr8k-entities/boxes.py)."""

MATCHER_RULES = HeatRules(
    known=HeatRule(0.0, 0.5, 0.0, 0.4, 0.05),
    part=HeatRule(0.0, 0.1, 0.1, 0.6, 0.4),
    other=HeatRule(0.0, 0.3, 0.0, 0.0, 0.4),
    plural=HeatRule(0.0, 0.3, 0.1),
    scene=HeatRule(0.0, 0.3, 0.5, 0.0, 0.05),
)
"""For maps of a matcher's attention to boxes of a detector (experiments/everyday/rules.py)."""


def boxes_by_heat(
    maps: Floats,
    regions: Regions,
    class_probs: Floats,
    phrases: Sequence[Phrase],
    detector: bool,
    attention: Floats | None = None,
) -> npt.NDArray[np.float64]:
    """Box ``[P, 4]`` of each phrase from its map ``[P, H, W]``.

    ``class_probs [P, N]`` is 1 in rows of phrases that name no class of the detector. ``detector``: a detector made the
    regions. ``attention [P, N]``: the maps were made of this attention to the regions. A phrase that names several
    objects of a class has the box around those that the detector found.
    """
    rules = PROPOSAL_RULES if not detector else DETECTOR_RULES if attention is None else MATCHER_RULES
    is_known = np.asarray((class_probs < 1).any(1))
    boxes = np.empty((len(phrases), 4))
    for row, phrase in enumerate(phrases):
        several = phrase.plural and not (is_known[row] and names_part(phrase.lemma))
        around = several_objects(regions.boxes, class_probs[row]) if several and is_known[row] else None
        if around is None:
            rule, own = _rule(rules, phrase, several, bool(is_known[row])), slice(row, row + 1)
            attended = None if attention is None else attention[own]
            around = regions.boxes[rule.select(maps[own], regions, class_probs[own], attended)[0]]
        boxes[row] = around
    return boxes


def _rule(rules: HeatRules, phrase: Phrase, several: bool, known: bool) -> HeatRule:
    if several:
        return rules.plural
    if known:
        return rules.part if names_part(phrase.lemma) else rules.known
    return rules.scene if phrase.lemma in SCENE_NOUNS else rules.other
