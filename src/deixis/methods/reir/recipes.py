"""The grounders: ReIR, the rows of its ablation, and the baselines that only reconstruct, at two sizes.

Where each value comes from stands in docs/paper-index.md; a comment beside a value says where code and paper differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from deixis.methods.reir.losses.ranking import RankingConfig
from deixis.methods.reir.losses.self_taught import SelfTaughtConfig
from deixis.methods.reir.network import ReirConfig
from deixis.training.recipe import PAIRS, Phase, Recipe, Schedule

FROM_DATA = 0  # filled in when the data is known


@dataclass(frozen=True)
class RelationConfig:
    """The relations that are told apart."""

    weight: float = 1.0  # lambda_2
    minimum: int = 101  # how often a relation must be said to be a category: more than 100 times (Sec. 4.2)
    balanced: bool = False  # rare categories count more, by the root of their frequency: the published code


@dataclass(frozen=True, kw_only=True)
class ReirRecipe(Recipe):
    """A grounder. It has one objective, the sum of Eq. 12, whose terms are weighted here."""

    purpose = "A phrase grounder: it finds the place of a phrase in a photograph, or says that it is not there."
    model: ReirConfig  # its vocabulary and width of features are filled in from the data
    reconstruct: float = 1.0  # weight of the phrase reconstruction at both stages; the published code drops the first
    ranking: RankingConfig = field(default_factory=RankingConfig)
    relations: RelationConfig = field(default_factory=RelationConfig)  # counts only where the model has a graph
    self_taught: SelfTaughtConfig = field(default_factory=SelfTaughtConfig)  # counts only where the model regresses
    select: Literal["accuracy", "mean_iou", "pointing", "AUC"] = "accuracy"  # all but AUC need validation boxes


REIR = ReirRecipe(
    name="reir",
    paper="ReIR, Table 2, 'ours'",
    supervision=PAIRS,
    model=ReirConfig(vocabulary=FROM_DATA, features=FROM_DATA),
    phases=(Phase(epochs=21),),  # 80k iterations of 40 captions on Flickr30k (Sec. 4.2)
    # Sec. 4.2 has SGD at 1e-3, a tenth at 32k and 40k iterations; Adam at this rate stands for it
    schedule=Schedule(rate=2e-4, decay=0.1, every=9, clip=1.0),
    images=8,  # 40 captions
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
    """The rows of Table 2 between the baseline and the whole."""
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
    """The same method at a size and length that two cores train in minutes to an hour."""
    # what needs far fewer steps: a product of two networks for a network of the pair, features without their large
    # common directions, and all negatives for the hardest, whose hinge stands still for long
    sizes = replace(recipe.model, words=200, width=384, hidden=384, dropout=0.2)
    model = replace(sizes, similarity="product", whiten=256)
    return replace(
        recipe,
        name=f"{recipe.name}-small",
        model=model,
        phases=(Phase(epochs=12),),
        schedule=Schedule(rate=1e-3, decay=0.8, every=1, clip=1.0),
        ranking=replace(recipe.ranking, form="log"),
        relations=replace(recipe.relations, minimum=21),
        images=16,
        minimum=3,
    )


_PAPER_SIZE = [REIR, BASELINE, *_rows(), WHOLE, RECONSTRUCTION, KNOWLEDGE]

GROUNDERS: dict[str, ReirRecipe] = {recipe.name: recipe for each in _PAPER_SIZE for recipe in (each, small(each))}
