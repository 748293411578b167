"""Stored boxes: from a file of any detector, or the true boxes of a data set."""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deixis import boxes as geometry
from deixis.data.reading import BadFile, BadRecord, get, get_numbers, read_bytes, read_packed_json
from deixis.errors import DeixisError
from deixis.vision.proposals.base import Found, Image, Proposals, finish

SUFFIXES = (".json", ".json.gz", ".npz")
MAX_BYTES = 2 * 2**30  # of a file, and of its content after decompression


@dataclass(frozen=True)
class BoxFile:
    """Boxes from a file, by image id.

    ``.json`` or ``.json.gz``: COCO results, a list of ``{"image_id", "bbox": [x, y, width, height], "score"}``, and
    optionally ``"category"`` or ``"category_id"``. ``.npz``: one array for each image, named by its id, ``[N, 4]``
    corners ``x1, y1, x2, y2`` or ``[N, 5]`` with the score last. All in pixels of the original image.
    """

    path: Path
    limit: int = 100
    supervision: str = ""  # description of the detector's training data; empty: unknown

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Return at most ``limit`` boxes of an image, the whole image first; raise if the file has none."""
        found = _read(self.path).get(image_id)
        if found is None:
            example = next(iter(_read(self.path)), "none")
            raise DeixisError(
                f"{self.path} has no boxes for the image '{image_id}' (its ids are such as '{example}'). "
                "Add boxes, or leave the image out."
            )
        return finish(found, image, self.limit)

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON, with the file's name and checksum but without its folder."""
        taught = self.supervision or f"boxes: whatever taught the detector behind {self.path.name}"
        return {"name": self.path.name, "supervision": taught, "limit": self.limit, "sha256": _digest(self.path)}


@dataclass(frozen=True)
class Truth:
    """True boxes of a data set, by image id: the perfect detector of Table 3 of Cyclical.

    An entity with several boxes gives their union, with which phrases are scored, and then each box.
    """

    root: Path
    limit: int = 100

    def propose(self, image: Image, image_id: str = "") -> Proposals:
        """Return the true boxes, the whole image first; raise if the image has none."""
        found = _truth(self.root).get(image_id)
        if found is None:
            raise DeixisError(f"{self.root} has no true boxes for the image '{image_id}'. Leave the image out.")
        return finish(found, image, self.limit)

    def describe(self) -> dict[str, Any]:
        """Return the settings as JSON, with the name of the data set but without its folder."""
        from deixis import data

        taught = f"boxes: the true boxes of {data.recognise(self.root).NAME}, at test time too"
        return {"name": "truth", "supervision": taught, "limit": self.limit}


@functools.lru_cache(maxsize=2)
def _read(path: Path) -> Mapping[str, Found]:
    """Read image id -> boxes, best first."""
    found = _read_npz(path) if path.suffix == ".npz" else _read_coco_results(path)
    if not found:
        raise DeixisError(f"{path} has no boxes. Give a file of boxes.")
    return found


@functools.lru_cache(maxsize=2)
def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path, MAX_BYTES)).hexdigest()


def _read_coco_results(path: Path) -> dict[str, Found]:
    records = read_packed_json(path, MAX_BYTES)
    if not isinstance(records, list):
        raise BadFile(path, "a COCO results list of {image_id, bbox, score} was expected")
    rows: dict[str, list[tuple[float, list[float], str]]] = {}
    for number, record in enumerate(records):
        try:
            image_id = str(get(record, "image_id"))
            [score] = get_numbers({"score": [get(record, "score")]}, "score", 1)
            category = str(record.get("category", record.get("category_id", "")))
            rows.setdefault(image_id, []).append((score, get_numbers(record, "bbox", 4), category))
        except BadRecord as error:
            raise BadFile(path, f"record {number}: {error}") from None
    classes = tuple(sorted({category for each in rows.values() for _, _, category in each}))
    place = {name: index for index, name in enumerate(classes)}
    found: dict[str, Found] = {}
    for image_id, each in rows.items():
        each.sort(key=lambda row: -row[0])
        boxes = geometry.from_xywh([box for _, box, _ in each])
        scores = np.array([score for score, _, _ in each])
        if classes == ("",):
            found[image_id] = Found(boxes, scores)
        else:
            ids = np.array([[place[category]] for _, _, category in each])
            found[image_id] = Found(boxes, scores, classes, ids, scores[:, None])
    return found


def _read_npz(path: Path) -> dict[str, Found]:
    packed = io.BytesIO(read_bytes(path, MAX_BYTES))
    found: dict[str, Found] = {}
    try:
        with zipfile.ZipFile(packed) as archive:
            if sum(member.file_size for member in archive.infolist()) > MAX_BYTES:
                raise BadFile(path, f"over the limit of {MAX_BYTES:,} bytes once unpacked")
        with np.load(packed, allow_pickle=False) as arrays:
            for image_id in arrays.files:
                found[image_id] = _rows(path, image_id, arrays[image_id])
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise BadFile(path, f"not readable as NPZ without pickled objects ({error})") from None
    return found


def _rows(path: Path, image_id: str, array: Any) -> Found:
    if array.size == 0:
        return Found(np.zeros((0, 4)), np.zeros(0))
    if array.ndim != 2 or array.shape[1] not in (4, 5) or array.dtype.kind not in "fiu":
        raise BadFile(path, f"the array '{image_id}' is {array.dtype} {array.shape}, not numbers [N, 4] or [N, 5]")
    rows = array.astype(np.float64)
    if not np.isfinite(rows).all():
        raise BadFile(path, f"the array '{image_id}' has numbers that are not finite")
    # Without scores, boxes are ranked in the order of the file.
    scores = rows[:, 4] if rows.shape[1] == 5 else 1 - np.arange(len(rows)) / len(rows)
    order = np.argsort(-scores, kind="stable")
    return Found(rows[order, :4], scores[order])


@functools.lru_cache(maxsize=2)
def _truth(root: Path) -> Mapping[str, Found]:
    from deixis import data

    loader = data.recognise(root)
    found: dict[str, Found] = {}
    for split in loader.splits(root):
        for sample in loader.load(root, split):
            entities = [entity.boxes for entity in sample.entities if len(entity.boxes)]
            unions = [geometry.union(boxes)[None] for boxes in entities]
            parts = [boxes for boxes in entities if len(boxes) > 1]
            if unions:
                boxes = np.concatenate(unions + parts)
                found[sample.image_id] = Found(boxes, np.ones(len(boxes)))
    if not found:
        raise DeixisError(f"{root} has no boxes. 'deixis data check {root}' lists what is missing.")
    return found
