"""Sizes of the network of ReIR, and its switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from deixis.fields import from_dict
from deixis.types import Place

OLD_NAMES = {"read": "phrase_lstm", "see": "embed_regions", "locate": "embed_location", "judge": "score"}
"""Names of layers in weights of version 0.1 -> names now."""


BOUNDS = {"dropout": (0, 1), "keep": (1, 1000), "top_names": (0, 1000), "min_similarity": (0, 1)}
"""Bounds of a stored configuration; the other sizes are compared with the stored weights."""

MIN_NAME = 0.01
"""Smallest s^a whose logarithm is taken, so that no region is excluded by its name alone."""


@dataclass(frozen=True)
class ReirConfig:
    """Sizes of the network, and the switches of the paper's Table 2."""

    vocabulary: int
    features: int  # width of a region feature
    whiten: int = 0  # > 0: region features are whitened and reduced to that width first
    words: int = 300  # word embedding
    width: int = 1024  # D; the paper gives only the backbone's 2048
    hidden: int = 512  # of F_cls and F_M
    regress_hidden: int = 256  # of F_reg
    dropout: float = 0.0
    context: bool = True  # the LSTM reads a phrase within its sentence (Eq. 1); False: alone
    keep: int = 5  # K (Table 3)
    two_stages: bool = True  # TSD: the best K regions are matched again
    regress: Literal["phrase", "region", "none"] = "phrase"  # STR: box regression; "region": without x_q in Eq. 2, 10
    graph: Literal["attention", "uniform", "none"] = "attention"  # VOGN; "uniform": without the weights of Eq. 7
    similarity: Literal["network", "linear", "product"] = "network"  # F_cls: two layers on the pair; one (published
    # code; needs names, see __post_init__); or a scaled cosine
    share_stages: bool = True  # one F_cls and one F_reg for both stages (Eq. 2, 9, 10); False: one each
    repool: bool = True  # the second stage pools the moved boxes again; False: it keeps the features of the proposals
    names: Literal["multiply", "prior", "add", "none"] = "multiply"  # s^a: Eq. 4; attention ~ exp(s) (s^a)^w, which is
    # positive and scaled by a learnt w (ours); added with a learnt weight (ours); or not used
    min_similarity: float = 0.0  # a phrase whose most similar class name has a lower s^a is matched without names
    place: Place = "attention"  # regions are ranked by attention, or by votes (deixis.localize.votes)
    detector: bool = False  # region scores are those of a detector and count in the votes; set from the data
    top_names: int = 1  # classes of a region that count in s^a, by probability; 1 in the paper; 0: all

    def __post_init__(self) -> None:
        if self.graph != "none" and not self.two_stages:
            raise ValueError("a network with one stage needs graph 'none': the graph is input of the second stage")
        if self.similarity == "linear" and self.names in ("none", "add", "prior"):
            # w_q x_q + w_o x_o: the first part is the same for all regions, so no softmax depends on the phrase
            raise ValueError("similarity 'linear' needs names 'multiply': without it all phrases have one attention")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ReirConfig:
        """Read a stored configuration; networks of version 0.1 had heads for each stage and did not pool again."""
        place = "attention" if value.get("place") in (None, "best") else value["place"]
        first = {"regress_hidden": value.get("hidden", cls.hidden), "share_stages": False, "repool": False}
        return from_dict(cls, {**first, **value, "place": place}, BOUNDS)
