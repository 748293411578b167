"""The captioners: published rows with the papers' values, and a small sibling of each that trains on two cores.

Where each value comes from stands in docs/paper-index.md; a comment beside a value says where code and paper differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from deixis.methods.updown.losses.cycle import CycleConfig
from deixis.methods.updown.losses.distillation import DistilConfig
from deixis.methods.updown.losses.self_critical import CriticConfig
from deixis.methods.updown.network import DecoderConfig
from deixis.training.recipe import BOXES, PAIRS, Phase, Recipe, Schedule

FROM_DATA = 0  # filled in when the data is known


@dataclass(frozen=True)
class Supervision:
    """Weights of the losses that boxes give, for the objective 'supervised'."""

    attention: float = 0.1
    classes: float = 0.1


@dataclass(frozen=True, kw_only=True)
class UpDownRecipe(Recipe):
    """A captioner. Its objectives: cross-entropy, cycle, supervised, self-critical."""

    purpose = "A grounded captioner: a sentence in which every noun points at its place."
    model: DecoderConfig  # its vocabulary and widths of features are filled in from the data
    cycle: CycleConfig = field(default_factory=CycleConfig)
    boxes: Supervision = field(default_factory=Supervision)
    distil: DistilConfig = field(default_factory=DistilConfig)  # joins every objective but the self-critical
    critic: CriticConfig = field(default_factory=CriticConfig)
    smoothing: float = 0.0  # of the target words
    scheduled_sampling: float = 0.0  # chance, at the end of training, that the decoder hears its own word instead
    select: Literal["CIDEr", "BLEU-4", "F1_all", "F1_loc"] = "CIDEr"  # F1 needs validation images with boxes


UPDOWN = UpDownRecipe(
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


def taught(recipe: UpDownRecipe, teacher: str) -> UpDownRecipe:
    """The same, shown by a matcher where to look at nouns."""
    return replace(
        recipe,
        name=f"{recipe.name}+{teacher}",
        paper=f"{recipe.paper}; attention distilled from {teacher.upper()} (POS-SCAN Eq. 15)",
        distil=DistilConfig(teacher),
    )


def cycled(recipe: UpDownRecipe) -> UpDownRecipe:
    """The same, with the cycle of the Cyclical paper in the last phase; no paper has tried it."""
    *before, last = recipe.phases
    return replace(
        recipe,
        name=f"{recipe.name}+cycle",
        paper=f"{recipe.paper}; with the cycle of Cyclical",
        phases=(*before, replace(last, objective="cycle")),
    )


def rewarded(recipe: UpDownRecipe, reward: str) -> UpDownRecipe:
    """The same, and then self-critical training with CIDEr-D ("cider"), or with it and the score of a matcher."""
    if reward == "cider":
        critic, rewards = CriticConfig(), "CIDEr"
    else:
        critic, rewards = CriticConfig(match=1.0, judge=reward), f"CIDEr and {reward.upper()}"
    return replace(
        recipe,
        name=f"{recipe.name}+scst-{reward}",
        paper=f"{recipe.paper}; then self-critical with {rewards} (POS-SCAN Eq. 17-19)",
        phases=(*recipe.phases, Phase(epochs=80, objective="self-critical", rate=5e-5)),
        critic=critic,
    )


def small(recipe: UpDownRecipe) -> UpDownRecipe:
    """The same method at a size and length that two cores train in minutes to an hour."""
    model = replace(recipe.model, words=256, hidden=384, attention=256, dropout=0.3)
    if model.location:
        model = replace(model, location=32)
    told = [phase for phase in recipe.phases if phase.objective != "self-critical"]
    critical = recipe.phases[len(told) :]
    # all small recipes have twelve epochs: the papers give later phases epochs on top, which makes no fair row
    lengths = (12,) if len(told) == 1 else (7, 5)
    phases = [replace(phase, epochs=n, rate=0.0) for phase, n in zip(told, lengths, strict=True)]
    # but self-critical training is about what comes of a finished captioner
    phases += [replace(phase, epochs=4, rate=1e-4) for phase in critical]
    distil, critic = recipe.distil, recipe.critic
    return replace(
        recipe,
        name=f"{recipe.name}-small",
        model=model,
        phases=tuple(phases),
        distil=replace(distil, teacher=f"{distil.teacher}-small") if distil.teacher else distil,
        critic=replace(critic, judge=f"{critic.judge}-small") if critic.judge else critic,
        schedule=Schedule(rate=1e-3, decay=0.8, every=1, clip=1.0),
        images=16,
        minimum=3,
    )


def _variants(recipe: UpDownRecipe) -> list[UpDownRecipe]:
    """The rows of the Cyclical paper's ablations (App. B, Table 4)."""
    changes = {
        "zero-loss": CycleConfig(visual="zero-loss"),
        "zero-representation": CycleConfig(visual="zero-representation"),
        "mlp": CycleConfig(localizer="mlp"),
        "state": CycleConfig(localizer="state"),
        "consistency": CycleConfig(consistency=0.1),  # the paper does not give the weight it began with
    }
    return [replace(recipe, name=f"{recipe.name}-{name}", cycle=cycle) for name, cycle in changes.items()]


def _combinations() -> list[UpDownRecipe]:
    """Objectives add up: each method as it is, taught by a matcher, with a cycle, and each of these rewarded."""
    matchers = ("scan", "pos-scan")
    plain = [UPDOWN, DISTRIBUTED_ATTENTION, CYCLICAL]
    with_teacher = [taught(recipe, teacher) for recipe in plain for teacher in matchers]
    with_cycle = [cycled(recipe) for recipe in (*plain, *with_teacher) if recipe.model.branches > 1]
    rows = [*plain, *with_teacher, *with_cycle]
    return [*with_teacher, *with_cycle, *(rewarded(row, reward) for row in rows for reward in ("cider", *matchers))]


_PAPER_SIZE = [
    UPDOWN,
    GVD,
    DISTRIBUTED_ATTENTION,
    CYCLICAL_BASELINE,
    CYCLICAL,
    *_variants(CYCLICAL),
    SUPERVISED,
    *_combinations(),
]

CAPTIONERS: dict[str, UpDownRecipe] = {recipe.name: recipe for each in _PAPER_SIZE for recipe in (each, small(each))}
