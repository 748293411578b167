"""Recipes of SCAN and POS-SCAN: the paper's values, and a small sibling of each that trains on two cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from deixis.methods.scan.config import ScanConfig
from deixis.training.recipe import Phase, Recipe, Schedule

FROM_DATA = 0  # set when the data is known


@dataclass(frozen=True, kw_only=True)
class ScanRecipe(Recipe):
    """A matcher. Its losses: hardest (the hinge of POS-SCAN Eq. 7), all (the sum of all violations).

    ``batch_images`` counts the pairs of image and caption in a batch.
    """

    purpose = "A matcher of sentences and photographs: scores for retrieval, and a place for each noun of a sentence."
    losses = ("hardest", "all")
    loss_terms: ClassVar[Mapping[str, str]] = {"hinge": "triplet hinge loss over mismatched pairs"}
    model: ScanConfig  # its vocabulary and width of features are set from the data
    margin: float = 0.2  # m of Eq. 7
    monitor: Literal["recall_sum"] = "recall_sum"  # R@1 + R@5 + R@10 in both directions, as in SCAN


SCAN = ScanRecipe(
    name="scan",
    paper="SCAN text-to-image as the POS-SCAN paper trains it (Eq. 1-7)",
    model=ScanConfig(vocabulary=FROM_DATA, features=FROM_DATA),
    phases=(Phase(epochs=30),),  # this line and the next: SCAN's own, which the paper follows
    schedule=Schedule(lr=2e-4, decay=0.1, decay_every=15, clip_norm=2.0),
    batch_images=128,
    min_count=4,
    max_words=60,  # neither SCAN nor the paper cuts the captions of its matcher
)

POS_SCAN = replace(
    SCAN,
    name="pos-scan",
    paper="POS-SCAN: only nouns count in the score (Eq. 8)",
    model=replace(SCAN.model, count="nouns"),
)


SCAN_LSE = replace(
    SCAN,
    name="scan-lse",
    paper="SCAN text-to-image with LogSumExp (lambda 6) in place of the mean",
    model=replace(SCAN.model, aggregation="logsumexp", sharpness=6.0),
)

SCAN_I2T = replace(
    SCAN,
    name="scan-i2t",
    paper="SCAN image-to-text with the mean over regions (inverse temperature 4)",
    model=replace(SCAN.model, direction="image-to-text", temperature=4.0),
)

SCAN_I2T_LSE = replace(
    SCAN_I2T,
    name="scan-i2t-lse",
    paper="SCAN image-to-text with LogSumExp (lambda 5)",
    model=replace(SCAN_I2T.model, aggregation="logsumexp", sharpness=5.0),
)


def small(recipe: ScanRecipe) -> ScanRecipe:
    """The recipe at a size and length that one core trains in half an hour on 8,000 photographs.

    The first epoch uses all negatives. With the hardest negatives alone, an untrained matcher gives all pairs equal
    scores for several epochs; the paper's thirty epochs leave time for that.
    """
    return replace(
        recipe,
        name=f"{recipe.name}-small",
        model=replace(recipe.model, words=256, embed=512),
        phases=(Phase(epochs=1, loss="all"), Phase(epochs=3, lr=4e-4)),
        schedule=Schedule(lr=5e-4, decay=0.5, decay_every=1, clip_norm=2.0),
        batch_images=64,
        min_count=3,
        max_words=20,
    )


SCAN_RECIPES: dict[str, ScanRecipe] = {
    recipe.name: recipe for each in (SCAN, POS_SCAN, SCAN_LSE, SCAN_I2T, SCAN_I2T_LSE) for recipe in (each, small(each))
}
