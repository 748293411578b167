"""Recipes of ReIR, the rows of its ablation, and the reconstruction baselines, each at two sizes.

README.md in this folder gives the source of each value. A comment beside a value says where code and paper differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from deixis.methods.reir.losses.caption_ranking import RankingConfig
from deixis.methods.reir.losses.self_taught import SelfTaughtConfig
from deixis.methods.reir.network import ReirConfig
from deixis.training.recipe import Phase, Recipe, Schedule

FROM_DATA = 0  # set when the data is known


@dataclass(frozen=True)
class RelationConfig:
    """Classification of relations."""

    weight: float = 1.0  # lambda_2
    min_count: int = 101  # occurrences of a relation that make it a category: more than 100 (Sec. 4.2)
    balanced: bool = False  # weight rare categories more, by the root of their frequency: the published code


@dataclass(frozen=True, kw_only=True)
class ReirRecipe(Recipe):
    """A phrase grounder. It has one loss, the sum of Eq. 12, whose terms are weighted here."""

    purpose = "A phrase grounder: the place of a phrase in a photograph, and the probability that it is there."
    losses = ("reir",)
    loss_terms: ClassVar[Mapping[str, str]] = {
        "reconstruct": "reconstruction of the phrase from the regions of the first stage",
        "reconstruct_fine": "reconstruction of the phrase from the regions of the second stage",
        "ranking": "captions of the image against captions of other images",
        "boxes": "box regression towards the most confident region",
        "relations": "classification of the relation between two phrases",
    }
    model: ReirConfig  # its vocabulary and width of features are set from the data
    reconstruct: float = 1.0  # weight of the phrase reconstruction at both stages; the published code drops the first
    ranking: RankingConfig = field(default_factory=RankingConfig)
    relations: RelationConfig = field(default_factory=RelationConfig)  # used only by models with a graph
    self_taught: SelfTaughtConfig = field(default_factory=SelfTaughtConfig)  # used only by models with box regression
    monitor: Literal["accuracy", "mean_iou", "pointing", "AUC"] = "accuracy"  # all but AUC need validation boxes


REIR = ReirRecipe(
    name="reir",
    paper="ReIR, Table 2, 'ours'",
    model=ReirConfig(vocabulary=FROM_DATA, features=FROM_DATA),
    phases=(Phase(epochs=21),),  # 80k iterations of 40 captions on Flickr30k (Sec. 4.2)
    # Sec. 4.2 has SGD at 1e-3, divided by 10 at 32k and 40k iterations; we use Adam with this learning rate
    schedule=Schedule(lr=2e-4, decay=0.1, decay_every=9, clip_norm=1.0),
    batch_images=8,  # 40 captions
    max_words=40,
)

ONE_STAGE = replace(REIR.model, two_stages=False, regress="none", graph="none")

BASELINE = replace(
    REIR, name="reir-baseline", paper="ReIR, Table 2, baseline: one stage, boxes as they are", model=ONE_STAGE
)

RECONSTRUCTION = replace(
    BASELINE,
    name="grounder-reconstruction",
    paper="GroundeR: phrase reconstruction alone",
    model=replace(ONE_STAGE, names="none"),
    ranking=RankingConfig(weight=0.0),
)

KNOWLEDGE = replace(
    RECONSTRUCTION,
    name="grounder-reconstruction-names",
    paper="after KAC-Net: phrase reconstruction, with the names of regions",
    model=ONE_STAGE,
)


WHOLE = replace(
    REIR,
    name="reir-whole",
    paper="ReIR, with regions that vote, phrases read by themselves and no names (ours)",
    model=replace(REIR.model, place="vote", context=False, names="none", top_names=5),
)


def _rows() -> list[ReirRecipe]:
    """The rows of Table 2 between the baseline and the full model."""
    changes: dict[str, tuple[str, ReirConfig]] = {
        "two-stages": ("TSD", replace(REIR.model, regress="none", graph="none")),
        "region-regression": ("TSD, STR without the phrase", replace(REIR.model, regress="region", graph="none")),
        "regression": ("TSD, STR", replace(REIR.model, graph="none")),
        "graph": ("TSD, VOGN and RC", replace(REIR.model, regress="none")),
        "uniform-graph": ("TSD, STR, VOGN without attention and RC", replace(REIR.model, graph="uniform")),
    }
    return [
        replace(REIR, name=f"reir-{name}", paper=f"ReIR, Table 2, {row}", model=model)
        for name, (row, model) in changes.items()
    ]


def small(recipe: ReirRecipe) -> ReirRecipe:
    """The recipe at a size and length that two cores train in minutes to an hour."""
    # needs far fewer steps: a product of two networks in place of a network of the pair, whitened features, and all
    # negatives in place of the hardest, whose hinge stays constant for long
    sizes = replace(recipe.model, words=200, width=384, hidden=384, dropout=0.2)
    model = replace(sizes, similarity="product", whiten=256)
    return replace(
        recipe,
        name=f"{recipe.name}-small",
        model=model,
        phases=(Phase(epochs=12),),
        schedule=Schedule(lr=1e-3, decay=0.8, decay_every=1, clip_norm=1.0),
        ranking=replace(recipe.ranking, form="log"),
        relations=replace(recipe.relations, min_count=21),
        batch_images=16,
        min_count=3,
    )


_PAPER_SIZE = [REIR, BASELINE, *_rows(), WHOLE, RECONSTRUCTION, KNOWLEDGE]

REIR_RECIPES: dict[str, ReirRecipe] = {recipe.name: recipe for each in _PAPER_SIZE for recipe in (each, small(each))}
