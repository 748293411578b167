"""Recipes of the captioners: published rows with the papers' values, and a small sibling of each for two cores.

:func:`with_teacher`, :func:`with_cycle` and :func:`with_reward` add a loss to any of them.
README.md in this folder gives the source of each value. A comment beside a value says where code and paper differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from deixis.errors import DeixisError
from deixis.methods.updown.config import DecoderConfig
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.losses.cycle import CycleConfig
from deixis.methods.updown.losses.distillation import DistilConfig
from deixis.methods.updown.losses.self_critical import CriticConfig
from deixis.methods.updown.losses.supervised import SupervisedConfig
from deixis.training.recipe import BOXES, Phase, Recipe, Schedule

FROM_DATA = 0  # set when the data is known
SMALL = "-small"  # end of the names of small recipes
SELF_CRITICAL = "self-critical"


@dataclass(frozen=True, kw_only=True)
class UpDownRecipe(Recipe):
    """A captioner. Its losses: cross-entropy, cycle, supervised, self-critical."""

    purpose = "A grounded captioner: a sentence in which every noun has a place."
    losses = ("cross-entropy", "cycle", "supervised", SELF_CRITICAL)
    loss_terms: ClassVar[Mapping[str, str]] = {
        "words": "cross-entropy of the caption's words",
        "decode": "cross-entropy of the first decoding (cycle)",
        "reconstruct": "cross-entropy of the caption decoded from localised regions (cycle)",
        "consistency": "KL divergence of the localizer from the attention (cycle)",
        "attention": "negative log-likelihood of the attention on true boxes (supervised)",
        "classes": "classification of regions (supervised)",
        "grounding": "negative log-likelihood of the word's class and the attention on true boxes (supervised)",
        "distil": "divergence of the attention from the teacher's at nouns",
        "policy": "self-critical policy gradient",
        "reward": "mean reward of the sampled sentences (logged only)",
        "baseline": "mean reward of the baseline (logged only)",
        "gap": "mean distance of a sample's reward from the baseline (logged only)",
        "reward-cider": "CIDEr-D part of the reward (logged only)",
        "reward-match": "match score part of the reward (logged only)",
        "reward-consistency": "attention overlap part of the reward (logged only)",
    }
    model: DecoderConfig  # its vocabulary and widths of features are set from the data
    cycle: CycleConfig = field(default_factory=CycleConfig)
    supervised: SupervisedConfig = field(default_factory=SupervisedConfig)
    distillation: DistilConfig = field(default_factory=DistilConfig)  # with a teacher: added to all but self-critical
    self_critical: CriticConfig = field(default_factory=CriticConfig)
    smoothing: float = 0.0  # of the target words
    scheduled_sampling: float = 0.0  # highest probability that a word of the decoder replaces the true word
    sampling_step: float = 0.0  # increase of that probability; 0: it grows linearly over the training
    sampling_every: int = 5  # epochs between two increases
    crop: int = 0  # cells per side of a random window of larger image maps in training, boxes cut along; 0: whole maps
    batch_unit: Literal["images", "captions"] = "images"  # batch_images counts images with all captions, or captions
    generation: GenerationConfig = field(default_factory=GenerationConfig)  # how the model writes; length: max_words
    monitor: Literal["CIDEr", "BLEU-4", "F1_all", "F1_loc"] = "CIDEr"  # F1 needs validation images with boxes

    def generation_of(self, phase: Phase) -> GenerationConfig:
        """How a model of a phase writes: with the branches that the phase trains."""
        return replace(self.generation, max_words=self.max_words, branches=phase.branches or None)

    def sampling_chance(self, progress: float) -> float:
        """Probability of scheduled sampling; ``progress`` runs from 0 to 1 over the training."""
        if not self.sampling_step:
            return self.scheduled_sampling * progress
        epoch = int(progress * self.epochs + 1e-6)  # from 0
        return min(self.scheduled_sampling, self.sampling_step * (epoch // self.sampling_every))

    def box_sources(self) -> tuple[str, ...]:
        """Boxes of the training set, where a phase has the loss 'supervised'."""
        return (BOXES,) if self.has_loss("supervised") else ()

    def has_loss(self, loss: str) -> bool:
        """Whether a phase has this loss."""
        return any((phase.loss or self.losses[0]) == loss for phase in self.phases)

    @property
    def teacher(self) -> str:
        """Recipe of the teacher that the phases use; empty: none."""
        return self.distillation.teacher if any(p.loss != SELF_CRITICAL for p in self.phases) else ""

    @property
    def reward_model(self) -> str:
        """Recipe of the matcher whose score the phases use as a reward; empty: none."""
        return self.self_critical.reward_model if self.has_loss(SELF_CRITICAL) else ""


UPDOWN = UpDownRecipe(
    name="updown",
    paper="Up-Down, the baseline of the POS-SCAN paper (Eq. 9-14), Flickr30k",
    model=DecoderConfig(vocabulary=FROM_DATA, features=FROM_DATA, hidden=512),
    phases=(Phase(epochs=30),),
    schedule=Schedule(lr=5e-4, decay=0.8, decay_every=3, clip_norm=0.0, clip_value=0.1),
    batch_images=29,
    max_words=16,  # of the published code
    scheduled_sampling=0.25,
    sampling_step=0.05,
    generation=GenerationConfig(allow_adjacent_repeats=True, allow_unknown=True),
)

UPDOWN_GVD = replace(
    UPDOWN,
    name="updown-gvd",
    paper="Up-Down of the POS-SCAN paper on the features of GVD (Sec. 4.3, Q5)",
    distillation=DistilConfig(weight=0.2),
)

UPDOWN_COCO = replace(
    UPDOWN,
    name="updown-coco",
    paper="Up-Down of the POS-SCAN paper on COCO",
    model=replace(UPDOWN.model, hidden=1024),
    generation=replace(UPDOWN.generation, beam=3),
    distillation=DistilConfig(weight=1.0),
)

_IMAGE_MAP = 2048  # width of the image map of ResNet-101; set from the data

GVD = UpDownRecipe(
    name="gvd",
    paper="GVD without self-attention and without boxes, the baseline of the Distributed Attention paper (Eq. 1-6)",
    # the attention LSTM has no input from the language LSTM: paper (Eq. 1) and published code agree in this. DA prints
    # h1_{t-1} in Eq. 2 and h1_t in the sentence before it; GVD, which it extends, attends from h1_t.
    model=DecoderConfig(
        vocabulary=FROM_DATA,
        features=FROM_DATA,
        language_to_attention=False,
        fc7=2048,
        classes=481,
        location=300,
        grid=_IMAGE_MAP,
        grid_attention="own",
        image="grid",
    ),
    phases=(Phase(epochs=40),),
    batch_images=64,
    crop=16,  # 512 of 576 pixels
)

GVD_SUPERVISED = replace(
    GVD,
    name="gvd-supervised",
    paper="GVD with self-attention over regions and boxes, the supervised row of GVD and Distributed Attention",
    model=replace(GVD.model, interact=2, interact_heads=6),
    phases=(Phase(epochs=40, loss="supervised"),),
    supervised=SupervisedConfig(attention=0.1, classes=0.1, grounding=0.1),  # w_att2, w_cls, w_grd on Flickr30k
)

DISTRIBUTED_ATTENTION = replace(
    GVD,
    name="distributed-attention",
    paper="Distributed Attention, Table 1 (K = 4)",
    model=replace(GVD.model, branches=4),
    phases=(Phase(epochs=20, branches=1), Phase(epochs=20)),
)

DISTRIBUTED_ATTENTION_1 = replace(
    DISTRIBUTED_ATTENTION,
    name="distributed-attention-k1",
    paper="Distributed Attention with one branch (K = 1): network and schedule of K = 4",
    model=replace(DISTRIBUTED_ATTENTION.model, branches=1),
    phases=(Phase(epochs=20), Phase(epochs=20)),
)

MULTI_HEAD = replace(
    DISTRIBUTED_ATTENTION_1,
    name="multi-head",
    paper="Distributed Attention, Sec. 4.4: multi-head attention with 4 heads in place of branches",
    model=replace(DISTRIBUTED_ATTENTION_1.model, heads=4),
)

CYCLICAL_BASELINE = replace(
    GVD,
    name="cyclical-baseline",
    paper="Cyclical, Table 1, 'Baseline' without grounding supervision",
    model=replace(GVD.model, language_to_attention=True, grid_attention="shared"),
    # patience and minimum rate are those of the published code
    schedule=Schedule(lr=1e-4, decay=0.1, decay_every=0, patience=10, min_lr=5e-6, clip_norm=0.1),
    batch_images=32,
    phases=(Phase(epochs=80),),
)

CYCLICAL = replace(
    CYCLICAL_BASELINE,
    name="cyclical",
    paper="Cyclical, Table 1",
    phases=(Phase(epochs=35), Phase(epochs=45, loss="cycle", lr=1e-4, from_best=True)),
    cycle=CycleConfig(decode=0.6, reconstruct=0.4),  # App. B: of the final Flickr30k row
)

CYCLICAL_SUPERVISED = replace(
    CYCLICAL_BASELINE,
    name="cyclical-supervised",
    paper="Cyclical, Table 1, 'Baseline' with grounding supervision: attention and region classes",
    phases=(Phase(epochs=80, loss="supervised"),),
    supervised=SupervisedConfig(attention=0.1, classes=0.1),
)

SUPERVISED = replace(
    UPDOWN,
    name="supervised",
    paper="Up-Down with attention learnt from boxes, the upper bound of the POS-SCAN paper (Eq. 16)",
    phases=(Phase(epochs=30, loss="supervised"),),
    supervised=SupervisedConfig(attention=0.1, classes=0.0),
)

GVD_VIDEO = replace(
    GVD,
    name="gvd-video",
    paper="GVD without self-attention and without boxes on ActivityNet-Entities, Cyclical Table 2",
    model=replace(
        GVD.model,
        classes=432,  # 431 object classes of ActivityNet-Entities and the background
        grid=0,
        frames=10,
        temporal=3072,  # of the data: resnet 2048, motion 1024
        motion=1024,
        image="temporal",
        grid_attention="own",
    ),
    batch_images=240,
    crop=0,
    max_words=20,
    phases=(Phase(epochs=40),),
)

DISTRIBUTED_ATTENTION_VIDEO = replace(
    GVD_VIDEO,
    name="distributed-attention-video",
    paper="Distributed Attention, Sec. 4.6 (K = 4); elimination and union are per frame, on which the paper is silent",
    model=replace(GVD_VIDEO.model, branches=4),
    phases=(Phase(epochs=20, branches=1), Phase(epochs=20)),
)

CYCLICAL_VIDEO_BASELINE = replace(
    GVD_VIDEO,
    name="cyclical-video-baseline",
    paper="Cyclical, Table 2, 'Baseline' without grounding supervision",
    model=replace(GVD_VIDEO.model, language_to_attention=True, grid_attention="shared"),
    schedule=Schedule(lr=1e-4, decay=0.1, decay_every=0, patience=10, min_lr=5e-6, clip_norm=0.1),  # published code
    batch_images=96,
    phases=(Phase(epochs=75),),
)

CYCLICAL_VIDEO = replace(
    CYCLICAL_VIDEO_BASELINE,
    name="cyclical-video",
    paper="Cyclical, Tables 2 and 12",
    phases=(Phase(epochs=50), Phase(epochs=25, loss="cycle", lr=1e-4, from_best=True)),
)

CYCLICAL_VIDEO_ZERO = replace(
    CYCLICAL_VIDEO,
    name="cyclical-video-zero-representation",
    paper="Cyclical, App. B, Table 7, zero-representation",
    cycle=CycleConfig(visual="zero-representation"),
)

SUPERVISED_VIDEO = replace(
    CYCLICAL_VIDEO_BASELINE,
    name="supervised-video",
    paper="Cyclical, Tables 2 and 12, 'Baseline' with boxes: the upper bound; the loss sees the annotated frame only",
    phases=(Phase(epochs=75, loss="supervised"),),
    supervised=SupervisedConfig(attention=0.05, classes=0.1),  # w_att2, w_cls of GVD on ActivityNet-Entities
)

NO_TIME_VIDEO = replace(
    GVD_VIDEO,
    name="gvd-video-no-time",
    paper="control: gvd-video without temporal features and without the frame of a region",
    model=replace(GVD_VIDEO.model, temporal=0, motion=0, image="regions", grid_attention="shared", see_time=False),
)

VIDEO = [
    *(GVD_VIDEO, NO_TIME_VIDEO, DISTRIBUTED_ATTENTION_VIDEO),
    *(CYCLICAL_VIDEO_BASELINE, CYCLICAL_VIDEO, CYCLICAL_VIDEO_ZERO, SUPERVISED_VIDEO),
]
"""Recipes of captioners of clips."""


# Losses that add up -------------------------------------------------------------------------------------------------


def with_teacher(recipe: UpDownRecipe, teacher: str) -> UpDownRecipe:
    """Add the distillation of a matcher's attention at nouns; ``teacher`` is "scan" or "pos-scan"."""
    return replace(
        recipe,
        name=combined_name(recipe.name, teacher),
        paper=f"{recipe.paper}; attention distilled from {teacher.upper()} (POS-SCAN Eq. 15)",
        distillation=replace(recipe.distillation, teacher=matcher_of(recipe, teacher)),
    )


def with_cycle(recipe: UpDownRecipe) -> UpDownRecipe:
    """Replace the loss of the last phase by the cycle of the Cyclical paper; call it before :func:`with_reward`."""
    if recipe.has_loss("cycle"):
        raise DeixisError(f"recipe {recipe.name} has the loss 'cycle' already. Remove --cycle.")
    *before, last = recipe.phases
    return replace(
        recipe,
        name=combined_name(recipe.name, "cycle"),
        paper=f"{recipe.paper}; with the cycle of Cyclical",
        phases=(*before, replace(last, loss="cycle")),
    )


def with_reward(recipe: UpDownRecipe, reward_model: str = "") -> UpDownRecipe:
    """Add a phase of self-critical training with CIDEr-D and, with a ``reward_model``, the match score of a matcher.

    ``reward_model`` is "scan", "pos-scan" or empty.
    """
    config, rewards = CriticConfig(), "CIDEr"
    if reward_model:
        config = CriticConfig(match=1.0, reward_model=matcher_of(recipe, reward_model))
        rewards = f"CIDEr and {reward_model.upper()}"
    # all small recipes have twelve epochs of the other losses; self-critical training starts from a finished captioner
    # in the published code the rate of the self-critical phase is constant
    phase = Phase(epochs=4, lr=1e-4) if is_small(recipe) else Phase(epochs=80, lr=5e-5, decay=False)
    return replace(
        recipe,
        name=combined_name(recipe.name, f"scst-{reward_model or 'cider'}"),
        paper=f"{recipe.paper}; then self-critical with {rewards} (POS-SCAN Eq. 17-19)",
        phases=(*recipe.phases, replace(phase, loss=SELF_CRITICAL)),
        self_critical=config,
    )


def combined_name(name: str, addition: str) -> str:
    """The name of a recipe with one more loss: "updown-small" and "cycle" give "updown+cycle-small"."""
    end = SMALL if name.endswith(SMALL) else ""
    return f"{name.removesuffix(SMALL)}+{addition}{end}"


def matcher_of(recipe: UpDownRecipe, matcher: str) -> str:
    """The recipe of a matcher that has the size of the captioner's: small for small."""
    return f"{matcher}{SMALL}" if is_small(recipe) else matcher


def is_small(recipe: UpDownRecipe) -> bool:
    """Whether the recipe is one for two cores."""
    return recipe.name.endswith(SMALL)


# Published rows -----------------------------------------------------------------------------------------------------


def small(recipe: UpDownRecipe) -> UpDownRecipe:
    """The recipe at a size and length that two cores train in minutes to an hour.

    Region features need no grid: the whole image is the mean of the regions, and there is no grid attention.
    """
    model = replace(recipe.model, words=256, hidden=384, attention=256, dropout=0.3, grid=0)  # nothing to crop
    if model.image == "grid":
        model = replace(model, image="regions")
    if model.location:
        model = replace(model, location=32)
    if model.fc7:
        model = replace(model, fc7=256, classes=64)
    # all have twelve epochs: the papers add the epochs of later phases, which makes rows unequal
    lengths = (12,) if len(recipe.phases) == 1 else (7, 5)
    return replace(
        recipe,
        name=f"{recipe.name}{SMALL}",
        model=model,
        phases=tuple(replace(phase, epochs=n, lr=0.0) for phase, n in zip(recipe.phases, lengths, strict=True)),
        schedule=Schedule(lr=1e-3, decay=0.8, decay_every=1, clip_norm=1.0),
        batch_images=16,
        crop=0,
        min_count=3,
        max_words=20,
        scheduled_sampling=0.0,
        sampling_step=0.0,
        generation=GenerationConfig(),
    )


def _variants(recipe: UpDownRecipe) -> list[UpDownRecipe]:
    """The rows of the Cyclical paper's ablations (App. B, Table 4)."""
    changes = {
        "zero-loss": CycleConfig(visual="zero-loss"),
        "zero-representation": CycleConfig(visual="zero-representation"),
        "mlp": CycleConfig(localizer="mlp"),
        "state": CycleConfig(localizer="state"),
        "word-state": CycleConfig(localizer="word+state"),
        "consistency": CycleConfig(consistency=0.1),  # the paper does not give its first weight
    }
    return [
        replace(recipe, name=f"{recipe.name}-{name}", paper=f"Cyclical, App. B, Table 4, {name}", cycle=cycle)
        for name, cycle in changes.items()
    ]


_PAPER_SIZE = [
    *(UPDOWN, UPDOWN_GVD, UPDOWN_COCO, SUPERVISED),
    *(GVD, GVD_SUPERVISED, DISTRIBUTED_ATTENTION, DISTRIBUTED_ATTENTION_1, MULTI_HEAD),
    *(CYCLICAL_BASELINE, CYCLICAL_SUPERVISED, CYCLICAL, *_variants(CYCLICAL)),
    *VIDEO,
]
_WITHOUT_SMALL = ("updown-gvd", "updown-coco")  # their small siblings would equal updown-small

UPDOWN_RECIPES: dict[str, UpDownRecipe] = {
    recipe.name: recipe
    for each in _PAPER_SIZE
    for recipe in ((each,) if each.name in _WITHOUT_SMALL else (each, small(each)))
}
