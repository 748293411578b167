"""Inputs of the fusion model: how texts and images are prepared, ours and as published by ALBEF and AMC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Resize = Literal["reduced", "bicubic", "bilinear"]


@dataclass(frozen=True)
class InputConfig:
    """Preparation of texts and images; the defaults are ours."""

    # reduced: Pillow's bicubic after a coarse reduction; bicubic: Pillow's; bilinear: OpenCV's, without antialiasing
    resize: Resize = "reduced"
    pixels: int = 0  # side of the square image; 0: the side for which positions are learnt
    clean: bool = False  # clean texts as published (see clean_text)
    max_words: int = 0  # words of a cleaned text; 0: no limit
    sep: bool = True  # append [SEP] to the word pieces


TRAINING = InputConfig("bilinear", 0, clean=True, max_words=50, sep=False)
"""Inputs of AMC's training."""

PUBLISHED: Mapping[str, InputConfig] = {
    "flickr30k_entities": InputConfig("bilinear", 256, clean=True, max_words=50, sep=False),
    "refer": InputConfig("bicubic", 384, clean=True, max_words=30, sep=False),
}
"""Data set -> inputs of the published evaluations of ALBEF and AMC."""

BOUNDS = {"pixels": (0, 4096), "max_words": (0, 512)}
"""Bounds of a stored configuration."""

_DELETED = re.compile(r"[,.'!?\"()*#:;~]")
_SPACES = re.compile(r"\s{2,}")


def clean_text(text: str, max_words: int = 0) -> str:
    """Clean a text as ALBEF and AMC do: lower case, ``,.'!?"()*#:;~`` deleted, ``-`` and ``/`` become spaces.

    ``<person>`` becomes "person"; other symbols stay. The text is cut after ``max_words`` words (0: no limit).
    """
    text = _DELETED.sub("", text.lower()).replace("-", " ").replace("/", " ").replace("<person>", "person")
    words = _SPACES.sub(" ", text).rstrip("\n").strip(" ").split(" ")
    return " ".join(words[: max_words or None])
