"""Your own pictures with captions: a folder with ``captions.jsonl``, ``captions.csv`` or ``captions.tsv``.

Columns (or JSON fields) ``image`` and ``caption``, and ``split`` if you like. An image with several captions has
several rows. ``image`` is a path inside the folder, or inside ``images`` in it. Example of ``captions.csv``::

    image,caption,split
    beach.jpg,a dog runs along the beach,train
    beach.jpg,"a brown dog, wet from the sea",train
    kitchen.jpg,two people cook,val

Without a ``split`` column each image is put into train, val or test by a hash of its name and a seed: all captions
of an image stay together, and an image stays where it is when others come or go.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deixis.data.reading import BadFile, BadRecord, get_text, inside, read_json_lines, read_table
from deixis.data.sample import Caption, Dataset, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import tokens

NAME = "pairs"

FILES = ("captions.jsonl", "captions.csv", "captions.tsv")
FRACTIONS: Mapping[str, float] = MappingProxyType({"train": 0.8, "val": 0.1, "test": 0.1})
"""How images are shared out where no split column says it."""


def expected(root: Path) -> tuple[Expected, ...]:
    """The one file that makes a folder of pictures a data set."""
    found = [name for name in FILES if (root / name).is_file()]
    return (
        Expected(
            found[0] if found else FILES[0],
            "a row for each caption: columns image, caption and, if you like, split (.csv or .tsv will do)",
            "you: it is written beside your own pictures",
        ),
    )


def recognise(root: Path) -> bool:
    """Whether the folder holds a captions file."""
    return any((root / name).is_file() for name in FILES)


def splits(root: Path) -> tuple[str, ...]:
    """The values of the split column, the usual ones first; train, val, test where there is no such column."""
    return _split_names(_read(_captions_file(root), root, [])) or tuple(FRACTIONS)


def load(root: Path, split: str, *, seed: int = 0, fractions: Mapping[str, float] = FRACTIONS) -> Dataset:
    """One split, in the order in which its images first appear.

    ``seed`` and ``fractions`` (split -> share) count only where the file has no split column.
    """
    path = _captions_file(root)
    skipped: list[Skipped] = []
    images = _read(path, root, skipped)
    by_column = _split_names(images)
    names = by_column or tuple(fractions)
    if split not in names:
        raise DeixisError(f"{path} has no split '{split}'; there is {', '.join(names)}.")
    samples: list[Sample] = []
    for image_id, image in images.items():
        if by_column and not image.split:
            skipped.append(Skipped(str(path), f"{image_id} has no split", image.line))
        elif split == (image.split or assign(image_id, seed, fractions)):
            captions = tuple(Caption(text, tokens(text)) for text in image.captions)
            samples.append(Sample(image_id, captions, path=image.path))
    return Dataset(NAME, split, tuple(samples), tuple(skipped))


def assign(image_id: str, seed: int = 0, fractions: Mapping[str, float] = FRACTIONS) -> str:
    """The split of an image: its name and the seed alone decide, so that other images do not matter."""
    edges = list(accumulate(fractions.values()))
    if not edges or edges[-1] <= 0 or min(fractions.values()) < 0:
        raise DeixisError(f"the shares of the splits must be positive, not {dict(fractions)}.")
    digest = hashlib.blake2b(f"{seed}:{image_id}".encode(), digest_size=8).digest()
    point = int.from_bytes(digest) / 2**64 * edges[-1]
    return list(fractions)[min(bisect_right(edges, point), len(edges) - 1)]


@dataclass
class _Image:
    path: Path
    line: int
    split: str
    captions: dict[str, None] = field(default_factory=dict)  # an ordered set: the same caption twice is one


def _read(path: Path, root: Path, skipped: list[Skipped]) -> dict[str, _Image]:
    """The images of the file by id, which is the path inside the folder."""
    images: dict[str, _Image] = {}
    places: dict[str, Path] = {}
    for line, row in _rows(path, skipped):
        try:
            name, caption = get_text(row, "image"), get_text(row, "caption")
            split = get_text(row, "split") if str(row.get("split") or "").strip() else ""
            place = places[name] if name in places else places.setdefault(name, _place(root, name))
            image_id = place.relative_to(root).as_posix()
            image = images.setdefault(image_id, _Image(place, line, split))
            if split and image.split and split != image.split:
                raise BadRecord(f"{image_id} is already in the split {image.split} (line {image.line}), not {split}")
            image.split = image.split or split
            image.captions[caption] = None
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), line))
    return images


def _split_names(images: Mapping[str, _Image]) -> tuple[str, ...]:
    """The splits that the file names, the usual ones first."""
    named = {image.split for image in images.values() if image.split}
    return (*(name for name in FRACTIONS if name in named), *sorted(named - set(FRACTIONS)))


def _rows(path: Path, skipped: list[Skipped]) -> Iterator[tuple[int, dict[str, Any]]]:
    if path.suffix == ".jsonl":
        yield from read_json_lines(path, skipped)
        return
    for line, row in read_table(path, "," if path.suffix == ".csv" else "\t", skipped):
        absent = [name for name in ("image", "caption") if name not in row]
        if absent:
            columns = ", ".join(row)
            raise BadFile(path, f"no column {' and no column '.join(absent)} (its columns: {columns})", 1)
        yield line, row


def _place(root: Path, name: str) -> Path:
    """The path of the image inside the folder, or inside ``images`` where only that one is there."""
    direct = inside(root, name)
    try:
        nested = not direct.exists() and (root / "images" / direct.relative_to(root)).exists()
    except OSError as error:
        raise BadRecord(f"{name[:40]!r} cannot be a path ({error.strerror})") from None
    return inside(root, f"images/{name}") if nested else direct


def _captions_file(root: Path) -> Path:
    found = [root / name for name in FILES if (root / name).is_file()]
    if not found:
        raise DeixisError(f"{root} has none of {', '.join(FILES)}; write one with the columns image and caption.")
    if len(found) > 1:
        raise DeixisError(f"{root} has both {found[0].name} and {found[1].name}; keep the one that is meant.")
    return found[0]
