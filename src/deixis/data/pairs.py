"""Your own images or clips with captions: a folder with ``captions.jsonl``, ``captions.csv`` or ``captions.tsv``.

The columns (or JSON fields) are ``image``, ``caption`` and, optionally, ``split``. An image with several captions has
several rows. ``image`` is a path in the folder or in its subfolder ``images``. Example of ``captions.csv``::

    image,caption,split
    beach.jpg,a dog runs along the beach,train
    beach.jpg,"a brown dog, wet from the sea",train
    kitchen.jpg,two people cook,val

Clips have the column ``clip`` instead of ``image``: a video file or a folder of frames 01.jpg .. 10.jpg. The optional
columns ``start`` and ``end`` are those of a segment, in seconds. Example::

    clip,start,end,caption
    kitchen.mp4,0,12.5,a man washes a pan
    kitchen.mp4,12.5,30,he dries it with a towel
    party.mp4,,,children dance in a garden

The id of a segment is ``kitchen.mp4#12.5-30``. Without a ``split`` column, all segments of a clip are in one split.

Without a ``split`` column, a hash of the image name and a seed determines the split (train, val or test). All captions
of an image are in one split. Adding or removing other images does not change it.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deixis.clips import frame_files
from deixis.data.reading import BadFile, BadRecord, get_text, inside, read_json_lines, read_table
from deixis.data.sample import Caption, Dataset, Expected, Sample, Segment, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import tokens

NAME = "pairs"

FILES = ("captions.jsonl", "captions.csv", "captions.tsv")
FRACTIONS: Mapping[str, float] = MappingProxyType({"train": 0.8, "val": 0.1, "test": 0.1})
"""Default fractions of the splits, for files without a split column."""


def expected(root: Path) -> tuple[Expected, ...]:
    """List the captions file."""
    found = [name for name in FILES if (root / name).is_file()]
    return (
        Expected(
            found[0] if found else FILES[0],
            "one row per caption: columns image (or clip, start, end), caption and, optionally, split",
            "you: write it into the folder of your images or clips",
        ),
    )


def recognise(root: Path) -> bool:
    """Whether the folder has a captions file."""
    return any((root / name).is_file() for name in FILES)


def splits(root: Path) -> tuple[str, ...]:
    """List the values of the split column, train, val and test first; these three if there is no such column."""
    return _split_names(_read(_captions_file(root), root, [])) or tuple(FRACTIONS)


def load(root: Path, split: str, *, seed: int = 0, fractions: Mapping[str, float] = FRACTIONS) -> Dataset:
    """Load one split, in the order of the first rows of its images.

    ``seed`` and ``fractions`` (split -> share) are used only if the file has no split column.
    """
    path = _captions_file(root)
    skipped: list[Skipped] = []
    images = _read(path, root, skipped)
    by_column = _split_names(images)
    names = by_column or tuple(fractions)
    if split not in names:
        raise DeixisError(f"{path} has no split '{split}'. Available: {', '.join(names)}.")
    samples: list[Sample] = []
    for image_id, image in images.items():
        if by_column and not image.split:
            skipped.append(Skipped(str(path), f"{image_id} has no split", image.line))
        elif split == (image.split or assign(image.file, seed, fractions)):
            captions = tuple(Caption(text, tokens(text)) for text in image.captions)
            photo = image.path if image.segment is None else None
            samples.append(Sample(image_id, captions, path=photo, frames=image.frames, segment=image.segment))
    return Dataset(NAME, split, tuple(samples), tuple(skipped))


def assign(image_id: str, seed: int = 0, fractions: Mapping[str, float] = FRACTIONS) -> str:
    """Assign an image to a split by a hash of its name and the seed."""
    edges = list(accumulate(fractions.values()))
    if not edges or edges[-1] <= 0 or min(fractions.values()) < 0:
        raise DeixisError(
            f"Invalid fractions of the splits: {dict(fractions)}. Expected numbers >= 0 with a positive sum."
        )
    digest = hashlib.blake2b(f"{seed}:{image_id}".encode(), digest_size=8).digest()
    point = int.from_bytes(digest) / 2**64 * edges[-1]
    return list(fractions)[min(bisect_right(edges, point), len(edges) - 1)]


@dataclass
class _Image:
    path: Path
    file: str  # id of the image or clip, without the segment
    line: int
    split: str
    segment: Segment | None = None  # of a clip
    frames: tuple[Path, ...] = ()  # of a clip that is a folder of frames
    captions: dict[str, None] = field(default_factory=dict)  # ordered set: duplicate captions are removed


def _read(path: Path, root: Path, skipped: list[Skipped]) -> dict[str, _Image]:
    """Read the images of the file by id, which is the path relative to the folder."""
    images: dict[str, _Image] = {}
    places: dict[str, Path] = {}
    for line, row in _rows(path, skipped):
        try:
            clip = str(row.get("clip") or "").strip() != ""
            name, caption = get_text(row, "clip" if clip else "image"), get_text(row, "caption")
            split = get_text(row, "split") if str(row.get("split") or "").strip() else ""
            place = places[name] if name in places else places.setdefault(name, _place(root, name))
            file = place.relative_to(root).as_posix()
            segment, part = _segment(row, place) if clip else (None, "")
            image_id = file + part
            if image_id not in images:
                images[image_id] = _Image(place, file, line, split, segment, frame_files(place) if clip else ())
            image = images[image_id]
            if split and image.split and split != image.split:
                raise BadRecord(f"{image_id} is in two splits: {image.split} (line {image.line}) and {split}")
            image.split = image.split or split
            image.captions[caption] = None
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), line))
    return images


def _segment(row: Mapping[str, Any], place: Path) -> tuple[Segment, str]:
    """Segment of a clip, and its part of the id; empty where the row has no times."""
    start, end = (_seconds(row, name) for name in ("start", "end"))
    if start is None and end is None:
        return Segment(0.0, math.inf, math.inf, place), ""
    first, last = start or 0.0, math.inf if end is None else end
    if not 0 <= first < last:
        raise BadRecord(f"the segment from {first:g} to {last:g} s is empty. Expected start < end")
    return Segment(first, last, math.inf, place), f"#{first:g}-{'end' if end is None else f'{end:g}'}"


def _seconds(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if value is None or str(value).strip() == "":
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise BadRecord(f'"{name}" is {str(value)[:40]!r}. Expected seconds')
    return seconds


def _split_names(images: Mapping[str, _Image]) -> tuple[str, ...]:
    """Splits in the file; train, val and test first."""
    found = {image.split for image in images.values() if image.split}
    return (*(name for name in FRACTIONS if name in found), *sorted(found - set(FRACTIONS)))


def _rows(path: Path, skipped: list[Skipped]) -> Iterator[tuple[int, dict[str, Any]]]:
    if path.suffix == ".jsonl":
        yield from read_json_lines(path, skipped)
        return
    for line, row in read_table(path, "," if path.suffix == ".csv" else "\t", skipped):
        absent = [name for name in ("image", "caption") if name not in row and not (name == "image" and "clip" in row)]
        if absent:
            columns = ", ".join(row)
            raise BadFile(path, f"missing column: {', '.join(absent)} (its columns: {columns})", 1)
        yield line, row


def _place(root: Path, name: str) -> Path:
    """Path of the image in the folder, or in ``images`` if only that one exists."""
    direct = inside(root, name)
    try:
        nested = not direct.exists() and (root / "images" / direct.relative_to(root)).exists()
    except OSError as error:
        raise BadRecord(f"{name[:40]!r} is not a valid path ({error.strerror})") from None
    return inside(root, f"images/{name}") if nested else direct


def _captions_file(root: Path) -> Path:
    found = [root / name for name in FILES if (root / name).is_file()]
    if not found:
        raise DeixisError(
            f"{root} has none of {', '.join(FILES)}. Add one with the columns image (or clip) and caption."
        )
    if len(found) > 1:
        raise DeixisError(f"{root} has both {found[0].name} and {found[1].name}. Remove one of them.")
    return found[0]
