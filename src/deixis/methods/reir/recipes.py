"""Recipes of ReIR, the rows of its ablation, and the reconstruction baselines, each at two sizes.

README.md in this folder gives the source of each value. A comment beside a value says where code and paper differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from deixis.methods.reir.config import ReirConfig
from deixis.methods.reir.losses.caption_ranking import RankingConfig
from deixis.methods.reir.losses.reconstruction import Attended
from deixis.methods.reir.losses.self_taught import SelfTaughtConfig
from deixis.training.recipe import Phase, Recipe, Schedule

FROM_DATA = 0  # set when the data is known


@dataclass(frozen=True)
class RelationConfig:
    """Classification of relations."""

    weight: float = 1.0  # lambda_2
    min_count: int = 101  # occurrences of a relation that make it a category: more than 100 (Sec. 4.2)
    most: int = 0  # largest number of categories; 0: no limit. The paper has 88; this parser finds more at full size
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
    batch_pairs: bool = True  # batch_images counts pairs of an image and one of its captions, as in the paper
    reconstruct: float = 1.0  # weight of the phrase reconstruction at both stages; the published code drops the first
    decoder_input: Attended = "first"  # where the decoder reads the attended feature
    ranking: RankingConfig = field(default_factory=RankingConfig)
    relations: RelationConfig = field(default_factory=RelationConfig)
    self_taught: SelfTaughtConfig = field(default_factory=SelfTaughtConfig)  # used only by models with box regression
    monitor: Literal["accuracy", "mean_iou", "pointing", "AUC"] = "accuracy"  # all but AUC need validation boxes


REIR = ReirRecipe(
    name="reir",
    paper="ReIR, Table 2, 'ours'",
    model=ReirConfig(vocabulary=FROM_DATA, features=FROM_DATA),
    phases=(Phase(epochs=22),),  # 80k iterations of 40 of the 148,915 captions of Flickr30k (Sec. 4.2)
    schedule=Schedule(
        optimiser="sgd",
        lr=1e-3,
        weight_decay=5e-4,
        warmup_steps=500,  # published code
        decay=0.1,
        milestones=(0.4, 0.5),  # 32k and 40k of 80k iterations (Sec. 4.2)
        clip_norm=0.0,
    ),
    batch_images=40,
    max_words=40,
)

NO_RELATIONS = RelationConfig(weight=0.0)
ONE_STAGE = replace(REIR.model, two_stages=False, regress="none", graph="none")

BASELINE = replace(
    REIR,
    name="reir-baseline",
    paper="ReIR, Table 2, baseline: one stage, boxes as they are",
    model=ONE_STAGE,
    relations=NO_RELATIONS,
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
    """The rows of Table 2 between the baseline and the full model, of Table 3, and of the supplement."""
    unrelated = replace(REIR, relations=NO_RELATIONS)  # rows without VOGN and RC
    changes: dict[str, tuple[str, ReirRecipe, ReirConfig]] = {
        "two-stages": ("Table 2, TSD", unrelated, replace(REIR.model, regress="none", graph="none")),
        "region-regression": (
            "Table 2, TSD, STR without the phrase",
            unrelated,
            replace(REIR.model, regress="region", graph="none"),
        ),
        "regression": ("Table 2, TSD, STR", unrelated, replace(REIR.model, graph="none")),
        "graph": ("Table 2, TSD, VOGN and RC", REIR, replace(REIR.model, regress="none")),
        "uniform-graph": (
            "Table 2, TSD, STR, VOGN without attention and RC",
            REIR,
            replace(REIR.model, graph="uniform"),
        ),
        "graph-only": ("supplement, VOGN without RC", unrelated, REIR.model),
        "relations-only": ("supplement, RC without VOGN", REIR, replace(REIR.model, graph="none")),
        "keep-3": ("Table 3, K = 3", REIR, replace(REIR.model, keep=3)),
        "keep-10": ("Table 3, K = 10", REIR, replace(REIR.model, keep=10)),
    }
    return [
        replace(base, name=f"reir-{name}", paper=f"ReIR, {row}", model=model)
        for name, (row, base, model) in changes.items()
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
        # Adam: SGD at the paper's rate hardly moves the network in so few steps
        schedule=Schedule(lr=1e-3, decay=0.8, decay_every=1, clip_norm=1.0),
        ranking=replace(recipe.ranking, form="log", similarity="phrases"),
        relations=replace(recipe.relations, min_count=21),
        batch_images=64,
        min_count=3,
    )


_PAPER_SIZE = [REIR, BASELINE, *_rows(), WHOLE, RECONSTRUCTION, KNOWLEDGE]

REIR_RECIPES: dict[str, ReirRecipe] = {recipe.name: recipe for each in _PAPER_SIZE for recipe in (each, small(each))}
