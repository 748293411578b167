"""The captioners: published rows with the papers' values, and a small sibling of each that trains on two cores.

Where each value comes from stands in docs/paper-index.md; a comment beside a value says where code and paper differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from deixis.models.decoder import DecoderConfig
from deixis.objectives.cycle import CycleConfig
from deixis.recipes.recipe import BOXES, PAIRS, Phase, Recipe, Schedule

FROM_DATA = 0  # filled in when the data is known


@dataclass(frozen=True)
class Supervision:
    """Weights of the losses that boxes give, for the objective 'supervised'."""

    attention: float = 0.1
    classes: float = 0.1


@dataclass(frozen=True, kw_only=True)
class CaptionerRecipe(Recipe):
    """A captioner. Its objectives: cross-entropy, cycle, supervised."""

    purpose = "A grounded captioner: a sentence in which every noun points at its place."
    model: DecoderConfig  # its vocabulary and widths of features are filled in from the data
    cycle: CycleConfig = field(default_factory=CycleConfig)
    boxes: Supervision = field(default_factory=Supervision)
    smoothing: float = 0.0  # of the target words
    scheduled_sampling: float = 0.0  # chance, at the end of training, that the decoder hears its own word instead
    select: Literal["CIDEr", "BLEU-4", "F1_all", "F1_loc"] = "CIDEr"  # F1 needs validation images with boxes


UPDOWN = CaptionerRecipe(
    name="updown",
    paper="Up-Down, the baseline of the POS-SCAN paper (Eq. 9-14)",
    supervision=PAIRS,
    model=DecoderConfig(vocabulary=FROM_DATA, features=FROM_DATA),
    phases=(Phase(epochs=30),),
)

GVD = replace(
    UPDOWN,
    name="gvd",
    paper="GVD without self-attention and without boxes, the baseline of the Distributed Attention paper (Eq. 1-6)",
    # the attention LSTM does not hear the language LSTM: paper (Eq. 1) and published code agree in this
    model=replace(UPDOWN.model, language_to_attention=False, attend_from="previous"),
)

DISTRIBUTED_ATTENTION = replace(
    GVD,
    name="distributed-attention",
    paper="Distributed Attention, Table 1 (K = 4)",
    model=replace(GVD.model, branches=4),
    phases=(Phase(epochs=20, branches=1), Phase(epochs=20)),
)

CYCLICAL_BASELINE = replace(
    UPDOWN,
    name="cyclical-baseline",
    paper="Cyclical, Table 1, 'Baseline' without grounding supervision",
    model=replace(UPDOWN.model, location=300),
    schedule=Schedule(rate=1e-4, decay=0.1, every=0, clip=0.1),
    images=7,  # 32 captions
    phases=(Phase(epochs=80),),
)

CYCLICAL = replace(
    CYCLICAL_BASELINE,
    name="cyclical",
    paper="Cyclical, Table 1",
    phases=(Phase(epochs=35), Phase(epochs=45, objective="cycle", rate=1e-4)),
)

SUPERVISED = replace(
    UPDOWN,
    name="supervised",
    paper="the upper bound: attention and region classes learnt from boxes (POS-SCAN Eq. 16, GVD)",
    supervision=BOXES,
    phases=(Phase(epochs=30, objective="supervised"),),
    boxes=Supervision(attention=0.1, classes=0.1),  # w_att2, w_cls of GVD on Flickr30k
)


def small(recipe: CaptionerRecipe) -> CaptionerRecipe:
    """The same method at a size and length that two cores train in minutes to an hour."""
    model = replace(recipe.model, words=256, hidden=384, attention=256, dropout=0.3)
    if model.location:
        model = replace(model, location=32)
    # all small recipes have twelve epochs: the papers give later phases epochs on top, which makes no fair row
    lengths = (12,) if len(recipe.phases) == 1 else (7, 5)
    phases = tuple(replace(phase, epochs=n, rate=0.0) for phase, n in zip(recipe.phases, lengths, strict=True))
    return replace(
        recipe,
        name=f"{recipe.name}-small",
        model=model,
        phases=phases,
        schedule=Schedule(rate=1e-3, decay=0.8, every=1, clip=1.0),
        images=16,
        minimum=3,
    )


def _variants(recipe: CaptionerRecipe) -> list[CaptionerRecipe]:
    """The rows of the Cyclical paper's ablations (App. B, Table 4)."""
    changes = {
        "zero-loss": CycleConfig(visual="zero-loss"),
        "zero-representation": CycleConfig(visual="zero-representation"),
        "mlp": CycleConfig(localizer="mlp"),
        "state": CycleConfig(localizer="state"),
        "consistency": CycleConfig(consistency=0.1),  # the paper does not give the weight it began with
    }
    return [replace(recipe, name=f"{recipe.name}-{name}", cycle=cycle) for name, cycle in changes.items()]


_PAPER_SIZE = [UPDOWN, GVD, DISTRIBUTED_ATTENTION, CYCLICAL_BASELINE, CYCLICAL, *_variants(CYCLICAL), SUPERVISED]

CAPTIONERS: dict[str, CaptionerRecipe] = {recipe.name: recipe for each in _PAPER_SIZE for recipe in (each, small(each))}
