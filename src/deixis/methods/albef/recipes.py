"""Recipes of ALBEF, AMC and its loss variants: the papers' values, and small siblings for two cores.

README.md in this folder gives the source of each value. A comment beside a value says where code and paper differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

from deixis.data.visual_genome import Source
from deixis.methods.albef.config import AlbefConfig, base, small
from deixis.methods.albef.inputs import TRAINING, InputConfig
from deixis.methods.albef.losses.map_consistency import MapConfig
from deixis.methods.albef.momentum import MomentumConfig
from deixis.training.recipe import BOXES, Phase, Recipe, Schedule


@dataclass(frozen=True, kw_only=True)
class AlbefRecipe(Recipe):
    """A fusion model.

    Its losses: albef (contrast, matching, masked words), amc (those, and map consistency on boxes), and align, which
    is ours (alignment of words and grid cells before fusion).
    """

    purpose = "A fusion model: a photograph and a phrase in; heat map, point and box out."
    losses = ("albef", "amc", "align")
    loss_terms: ClassVar[Mapping[str, str]] = {
        "align": "alignment of words and grid cells before fusion",
        "contrast": "image-text contrast (ITC)",
        "match": "image-text matching (ITM)",
        "words": "prediction of masked words (MLM)",
        "mean": "map consistency, means inside and outside the box (L_mean)",
        "max": "map consistency, maxima inside and outside the box (L_max)",
        "cosine": "map consistency, cosine distance of map and box mask",
    }
    model: AlbefConfig  # sizes of the vocabulary and of the grid are set from the data
    inputs: InputConfig = field(default_factory=InputConfig)  # a model of --init-from keeps its own
    momentum: MomentumConfig = field(default_factory=MomentumConfig)
    maps: MapConfig = field(default_factory=MapConfig)
    # initial text encoder: MiniLM; none, with MiniLM's word pieces; none, with word pieces of the captions
    text: Literal["minilm", "pieces", "fresh"] = "minilm"
    detections: str = ""  # file of COCO results with the boxes of the loss amc; empty: boxes of the training set
    min_score: float = 0.3  # of a detection
    min_area: float = 0.08  # of a box, as a share of the image; smaller boxes are left out (AMC, Sec. 4.1)
    words: float = 1.0  # weight of the masked words; 0: they are not predicted
    align: float = 0.0  # weight of the alignment of words and cells (ours) in the losses albef and amc
    captions: float = 0.0  # probability, in the loss amc, that an image with boxes is used with a caption instead
    sources: tuple[Source, ...] = ("region", "object", "attribute", "spatial")  # of the boxes (AMC, Table 3a)
    targets: Literal["all", "single", "several"] = "all"  # texts with boxes: all, with one box, with several
    inside: Literal["all", "one"] = "all"  # inside of a text with several boxes: all, or one at random (published code)
    epoch: Literal["images", "texts"] = "images"  # an epoch has one text of each image, or every text (published code)
    negative_group: int = 0  # pairs that are compared with each other: groups of this size; 0: the whole batch
    equal_texts: bool = True  # pairs with equal texts are positives of each other; False: negatives (published code)
    flip: bool = True  # mirror images
    mirror_texts: bool = True  # swap left and right in the text of a mirrored image; the published code does not
    jitter: Literal["ours", "published"] = "ours"  # change of colours (see images.py)
    checkpoint_activations: bool = False  # compute the image encoder twice instead of keeping its activations
    workers: int = 0  # threads that decode the images of the next batch
    monitor: str = "pointing"  # R@1 needs no boxes

    def box_sources(self) -> tuple[str, ...]:
        """Where the boxes of the loss amc come from."""
        if all(phase.loss != "amc" for phase in self.phases):
            return ()
        return (f"boxes of a detector ({Path(self.detections).name})" if self.detections else BOXES,)

    @property
    def uses_regions(self) -> bool:
        """False where the image encoder reads pixels."""
        return not self.model.patch


ALBEF_BASE = AlbefRecipe(
    name="albef-base",
    paper="ALBEF, as AMC describes it (Sec. 2.1, 4.1): ViT-B/16 at 256 pixels, BERT-base 6 + 6",
    model=base(),
    inputs=TRAINING,
    text="pieces",  # ALBEF starts from BERT and an image classifier, whose weights no package contains
    phases=(Phase(epochs=20, loss="albef"),),
    schedule=Schedule(lr=1e-5, decay=1.0, decay_every=1, clip_norm=0),
    batch_images=512,
    max_words=25,
    checkpoint_activations=True,
    workers=4,
    monitor="R@1",
)

AMC_BASE = replace(
    ALBEF_BASE,
    name="amc-base",
    paper="AMC, Table 1 and 3b; start from a published ALBEF (--init-from ALBEF.pth)",
    phases=(Phase(epochs=20, loss="amc"),),
    monitor="pointing",
)

AMC_PUBLISHED = replace(
    AMC_BASE,
    name="amc-published",
    paper="AMC as its published code trains it, where that differs from the paper",
    phases=(Phase(epochs=30, loss="amc"),),
    schedule=Schedule(
        optimiser="adamw",
        weight_decay=0.02,
        decay_all=False,
        lr=1e-5,
        cosine=True,
        warmup_epochs=20,
        warmup_lr=1e-6,
        min_lr=1e-6,
        clip_norm=0,
    ),
    accumulate=8,
    negative_group=64,  # pairs of one of eight processes
    momentum=MomentumConfig(negatives="momentum", dropout=True),
    maps=MapConfig(pooled=True),
    inside="one",
    epoch="texts",
    equal_texts=False,
    mirror_texts=False,
    jitter="published",
)

ALBEF_SMALL = replace(
    ALBEF_BASE,
    name="albef-small",
    paper="ALBEF on grid cells of the backbone and MiniLM 3 + 3, for two cores",
    model=small(),
    inputs=InputConfig(),
    text="minilm",
    phases=(Phase(epochs=5, loss="align", lr=5e-4), Phase(epochs=4, loss="albef", lr=2e-4)),
    schedule=Schedule(lr=5e-4, decay=0.8, decay_every=1, clip_norm=1.0),
    batch_images=64,
    max_words=18,
    # a momentum copy that lags by hundreds of steps slows a training of a thousand steps down, and so do its targets
    momentum=MomentumConfig(momentum=0.9, queue=0, soft=0.0),
    checkpoint_activations=False,
    workers=0,
    align=1.0,
    min_area=0.005,
)

AMC_SMALL = replace(
    ALBEF_SMALL,
    name="amc-small",
    paper="AMC on grid cells of the backbone and MiniLM 3 + 3, for two cores; start from an albef-small (--init-from)",
    phases=(Phase(epochs=2, loss="amc", lr=2e-4),),
    captions=0.5,  # a detector has few class names; captions keep the other words in training
    monitor="pointing",
)

AMC_COSINE_SMALL = replace(
    AMC_SMALL,
    name="amc-cosine-small",
    paper="the cosine distance of AMC's Table 3b, small",
    maps=MapConfig(loss="cosine"),
)

AMC_MEAN_SMALL = replace(
    AMC_SMALL, name="amc-mean-small", paper="L_mean alone (AMC, Table 3b), small", maps=MapConfig(mean=1.0, most=0.0)
)

AMC_MAX_SMALL = replace(
    AMC_SMALL, name="amc-max-small", paper="L_max alone (AMC, Table 3b), small", maps=MapConfig(mean=0.0, most=1.0)
)

ALBEF_GRADCAM_SMALL = replace(
    ALBEF_SMALL,
    name="albef-gradcam-small",
    paper="ALBEF with the paper's maps (Grad-CAM of the match score) and losses, small",
    model=replace(small(), map_source="gradcam", map_layer=1),
    phases=(Phase(epochs=9, loss="albef", lr=2e-4),),
    align=0.0,
)

AMC_GRADCAM_SMALL = replace(
    ALBEF_GRADCAM_SMALL,
    name="amc-gradcam-small",
    paper="AMC with the paper's maps and losses, small; start from an albef-gradcam-small (--init-from)",
    phases=(Phase(epochs=10, loss="amc", lr=2e-4),),
    captions=0.5,
    monitor="pointing",
)

ALBEF_RECIPES: dict[str, AlbefRecipe] = {
    recipe.name: recipe
    for recipe in (
        ALBEF_SMALL,
        AMC_SMALL,
        AMC_COSINE_SMALL,
        AMC_MEAN_SMALL,
        AMC_MAX_SMALL,
        ALBEF_GRADCAM_SMALL,
        AMC_GRADCAM_SMALL,
        ALBEF_BASE,
        AMC_BASE,
        AMC_PUBLISHED,
    )
}
