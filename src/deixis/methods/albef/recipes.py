"""The fusion models: ALBEF, AMC and its loss variants with the papers' values, and small siblings for two cores.

Where each value comes from stands in docs/paper-index.md; a comment beside a value says where code and paper differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from deixis.methods.albef.config import AlbefConfig, base, small
from deixis.methods.albef.losses.map_consistency import MapConfig
from deixis.methods.albef.momentum import MomentumConfig
from deixis.training.recipe import PAIRS, Phase, Recipe, Schedule

TAUGHT = "photographs with captions, and boxes of the training set or of a detector"


@dataclass(frozen=True, kw_only=True)
class AlbefRecipe(Recipe):
    """A fusion model. Its objectives: albef (contrast, matching, masked words), amc (those, and maps on boxes), align.

    The last one is ours and no more than a beginning: words and cells find each other before anything is fused.
    """

    purpose = "A fusion model: a phrase goes in with a photograph, its heat map, point and box come out."
    model: AlbefConfig  # sizes of the vocabulary and of the grid are filled in from the data
    momentum: MomentumConfig = field(default_factory=MomentumConfig)
    maps: MapConfig = field(default_factory=MapConfig)
    text: Literal["minilm", "pieces", "fresh"] = "minilm"  # what is begun with: MiniLM, its word pieces, the captions'
    detections: str = ""  # file of COCO results whose boxes teach; empty: boxes of the training set, if amc wants any
    min_score: float = 0.3  # of a detection
    min_area: float = 0.08  # of the image; smaller boxes teach nothing (AMC, Sec. 4.1)
    align: float = 0.0  # weight of the alignment of words and cells (ours) beside the other terms
    captions: float = 0.0  # how often, in the objective amc, an image with boxes is shown with a caption all the same
    flip: bool = True  # mirror images, with left and right changed in the text; the published code leaves the text
    select: str = "pointing"  # R@1 needs no boxes


ALBEF_BASE = AlbefRecipe(
    name="albef-base",
    paper="ALBEF, as AMC describes it (Sec. 2.1, 4.1): ViT-B/16 at 256 pixels, BERT-base 6 + 6",
    supervision=PAIRS,
    model=base(),
    text="pieces",  # ALBEF begins with weights of BERT and of an image classifier, which no package brings
    phases=(Phase(epochs=20, objective="albef"),),
    schedule=Schedule(rate=1e-5, decay=1.0, every=1, clip=0),
    images=512,
    max_words=25,
    select="R@1",
)

AMC_BASE = replace(
    ALBEF_BASE,
    name="amc-base",
    paper="AMC, Table 1 and 3b; begin with a published ALBEF (--start ALBEF.pth)",
    supervision=TAUGHT,
    phases=(Phase(epochs=20, objective="amc"),),
    select="pointing",
)

ALBEF_SMALL = replace(
    ALBEF_BASE,
    name="albef-small",
    paper="ALBEF on grid cells of the backbone and MiniLM 3 + 3, for two cores",
    model=small(),
    text="minilm",
    phases=(Phase(epochs=5, objective="align", rate=5e-4), Phase(epochs=4, objective="albef", rate=2e-4)),
    schedule=Schedule(rate=5e-4, decay=0.8, every=1, clip=1.0),
    images=64,
    max_words=18,
    # a copy that lags by hundreds of steps holds a training of a thousand back, and so do its early beliefs
    momentum=MomentumConfig(momentum=0.9, queue=0, soft=0.0),
    align=1.0,
    min_area=0.005,
)

AMC_SMALL = replace(
    ALBEF_SMALL,
    name="amc-small",
    paper="AMC on grid cells of the backbone and MiniLM 3 + 3, for two cores; begin with an albef-small (--start)",
    supervision=TAUGHT,
    phases=(Phase(epochs=2, objective="amc", rate=2e-4),),
    captions=0.5,  # the names of a detector are few: words of captions are not to be forgotten for them
    select="pointing",
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

FUSIONS: dict[str, AlbefRecipe] = {
    recipe.name: recipe
    for recipe in (
        ALBEF_SMALL,
        AMC_SMALL,
        AMC_COSINE_SMALL,
        AMC_MEAN_SMALL,
        AMC_MAX_SMALL,
        ALBEF_BASE,
        AMC_BASE,
    )
}
