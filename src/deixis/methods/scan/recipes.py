"""The matchers: SCAN and POS-SCAN with the paper's values, and a small sibling of each that trains on two cores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from deixis.methods.scan.network import ScanConfig
from deixis.training.recipe import PAIRS, Phase, Recipe, Schedule

FROM_DATA = 0  # filled in when the data is known


@dataclass(frozen=True, kw_only=True)
class ScanRecipe(Recipe):
    """A matcher. Its objectives: hardest (the hinge of POS-SCAN Eq. 7), all (the sum of all violations).

    ``images`` counts the pairs of image and caption in a batch.
    """

    purpose = "A matcher of sentences and photographs: it ranks them for each other and points at what is named."
    model: ScanConfig  # its vocabulary and width of features are filled in from the data
    margin: float = 0.2  # m of Eq. 7
    select: Literal["recall_sum"] = "recall_sum"  # R@1 + R@5 + R@10 both ways, as SCAN selects


SCAN = ScanRecipe(
    name="scan",
    paper="SCAN text-to-image as the POS-SCAN paper trains it (Eq. 1-7)",
    supervision=PAIRS,
    model=ScanConfig(vocabulary=FROM_DATA, features=FROM_DATA),
    phases=(Phase(epochs=30),),  # this line and the next: SCAN's own, which the paper follows
    schedule=Schedule(rate=2e-4, decay=0.1, every=15, clip=2.0),
    images=128,
    minimum=4,
    max_words=60,  # neither SCAN nor the paper cuts the captions of its matcher
)

POS_SCAN = replace(
    SCAN,
    name="pos-scan",
    paper="POS-SCAN: only nouns count in the score (Eq. 8)",
    model=replace(SCAN.model, count="nouns"),
)


def small(recipe: ScanRecipe) -> ScanRecipe:
    """The same method at a size and length that one core trains in half an hour on 8,000 photographs.

    It begins with all negatives: the hardest ones alone keep an untrained matcher where all scores are equal, and the
    papers' thirty epochs have the time to get away from there.
    """
    return replace(
        recipe,
        name=f"{recipe.name}-small",
        model=replace(recipe.model, words=256, embed=512),
        phases=(Phase(epochs=1, objective="all"), Phase(epochs=3, rate=4e-4)),
        schedule=Schedule(rate=5e-4, decay=0.5, every=1, clip=2.0),
        images=64,
        minimum=3,
        max_words=20,
    )


MATCHERS: dict[str, ScanRecipe] = {recipe.name: recipe for each in (SCAN, POS_SCAN) for recipe in (each, small(each))}
