"""Lists of images and boxes that go with an evaluation: images to leave out, and boxes of a detector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.data import visual_genome
from deixis.data.reading import BadFile, read_json, read_lines, read_packed_json
from deixis.errors import DeixisError

MAX_BYTES = 2 * 2**30  # of a file of boxes, compressed or not


def excluded_images(paths: Sequence[Path]) -> frozenset[str]:
    """Return ids of images to leave out.

    One file of ids (a JSON list, or one id in a line), or a Visual Genome folder: the COCO ids of its training images.
    A second path is a list of the Visual Genome images that count instead of ``train.txt``.
    """
    first, *rest = paths
    if first.is_dir():
        if len(rest) > 1:
            raise DeixisError("--exclude takes a Visual Genome folder and at most one list of its images.")
        return visual_genome.coco_ids(first, rest[0] if rest else None)
    if rest:
        raise DeixisError(f"--exclude {first} must be a Visual Genome folder where a second path is given.")
    if first.suffix == ".json":
        ids = read_json(first)
        if not isinstance(ids, list) or not all(isinstance(i, int | str) and not isinstance(i, bool) for i in ids):
            raise BadFile(first, "expected a JSON list of image ids")
        return frozenset(map(str, ids))
    return frozenset(text.split()[0] for _, text in read_lines(first))


def read_proposals(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Read image id -> boxes ``[N, 4]`` of a detector: ``{image_id: [[x, y, width, height, ...], ...]}``.

    All boxes are kept in the order of the file; what follows the four numbers is ignored.
    """
    content = read_packed_json(path, MAX_BYTES)
    if not isinstance(content, dict):
        raise BadFile(path, "expected an object {image_id: [[x, y, width, height, ...], ...]}")
    return {image: _boxes(path, image, rows) for image, rows in content.items()}


def _boxes(path: Path, image: str, rows: Any) -> npt.NDArray[np.float64]:
    try:
        found = np.array([row[:4] for row in rows], dtype=np.float64).reshape(-1, 4)
        if not np.isfinite(found).all() or len(found) != len(rows):
            raise ValueError
    except (TypeError, ValueError, KeyError):
        raise BadFile(path, f"image {image[:40]}: expected a list of boxes [x, y, width, height, ...]") from None
    return np.asarray(geometry.from_xywh(found), dtype=np.float64)
