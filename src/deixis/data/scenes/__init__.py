"""Made scenes: pictures drawn by code from a seed, with exact boxes and five captions each.

Things have parts, colours and sizes, hide each other and stand in relations. Entity ids: ``dog1`` is a thing,
``dog1.tail`` a part of it, ``group.dog`` a group with one box per member, ``scene`` the place.

A scene depends on seed, split and index alone, so a larger data set begins with the smaller one. In place of a folder,
the data set has a name: ``scenes`` and ``scenes:200`` are 1,000 and 200 training scenes (a fifth of that in the other
splits), ``scenes:200:7`` has another seed, ``scenes-video:50`` moves. A folder of that name has precedence.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from deixis.data.sample import Dataset, Expected, Sample
from deixis.data.scenes.partial_proposals import Proposals, proposals
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.data.scenes.compose import Composition

__all__ = [
    "NAME", "SPLITS", "Proposals", "expected", "load", "make_scene", "make_scenes", "make_video", "make_videos",
    "proposals", "recognise", "remake", "splits",
]  # fmt: skip

NAME = "scenes"
SPLITS = ("train", "val", "test")
SIZE, FRAMES = 224, 10
_SPEC = re.compile(r"scenes(?P<video>-video)?(?::(?P<n>\d{1,7})(?::(?P<seed>\d{1,9}))?)?")


def make_scene(seed: int, index: int, size: int = SIZE, split: str = "train") -> Sample:
    """Make one picture ``[size, size, 3]`` with five captions and the tight boxes of its entities."""
    return compose_scene(seed, index, size, split).sample


def make_scenes(n: int, seed: int = 0, split: str = "train", size: int = SIZE) -> Dataset:
    """Make the first n pictures of a split."""
    return Dataset(NAME, split, tuple(make_scene(seed, index, size, split) for index in range(n)))


def make_video(seed: int, index: int, size: int = SIZE, split: str = "train", frames: int = FRAMES) -> Sample:
    """Make one video segment: pixels ``[frames, size, size, 3]``, and boxes with the number of their frame."""
    return compose_scene(seed, index, size, split, frames).sample


def make_videos(n: int, seed: int = 0, split: str = "train", size: int = SIZE, frames: int = FRAMES) -> Dataset:
    """Make the first n video segments of a split."""
    return Dataset(NAME, split, tuple(make_video(seed, index, size, split, frames) for index in range(n)))


def compose_scene(seed: int, index: int, size: int = SIZE, split: str = "train", frames: int = 0) -> Composition:
    """Make a scene with all that led to it: layout, drawings, sentences with their relations."""
    from deixis.data.scenes.compose import compose  # imports OpenCV

    if split not in SPLITS:
        raise ValueError(f"There is no split '{split}'; the splits are {', '.join(SPLITS)}.")
    kind = "video" if frames else "scene"
    return compose((seed, SPLITS.index(split), index), f"{kind}-{seed}-{split}-{index:05d}", size, frames)


def remake(image_id: str) -> Sample:
    """Make the picture or video segment of this id again, as :func:`load` made it."""
    kind, seed, split, index = image_id.split("-")
    return (make_video if kind == "video" else make_scene)(int(seed), int(index), split=split)


def recognise(root: str | Path) -> bool:
    """Whether this is a name such as ``scenes:200`` and not a folder."""
    return _SPEC.fullmatch(str(root)) is not None and not Path(root).exists()


def expected(root: str | Path) -> tuple[Expected, ...]:
    """Return no files: the pictures are made."""
    return ()


def splits(root: str | Path) -> tuple[str, ...]:
    """Return the three splits; they never share a scene."""
    return SPLITS


def load(root: str | Path, split: str) -> Dataset:
    """Make one split of the data set of this name."""
    spec = _SPEC.fullmatch(str(root))
    if spec is None:
        raise DeixisError(f"{root} is not a name of made scenes; write scenes, scenes:200 or scenes-video:50:7.")
    if split not in SPLITS:
        raise DeixisError(f"{root} has no split '{split}'; there is {', '.join(SPLITS)}.")
    n, seed = int(spec["n"] or 1000), int(spec["seed"] or 0)
    n = n if split == "train" else max(n // 5, 1)
    return make_videos(n, seed, split) if spec["video"] else make_scenes(n, seed, split)
