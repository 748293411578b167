"""Captions as self-critical training prepared them (R. Luo; POS-SCAN's ``flickrtalk``): words by number.

``flickrtalk.json`` or ``cocotalk.json``            ``ix_to_word`` and the list of images with their splits
``flickrtalk_label.h5`` or ``cocotalk_label.h5``    ``labels [M, length]``, padded with 0; ``label_start_ix`` and
                                                    ``label_end_ix``: first and last caption of an image, from 1

Captions are cut at the length of ``labels``, and rare words are UNK. As in the published code, ``train`` has all images
that are not in ``val`` or ``test``. References of published caption scores are the whole captions: evaluate with the
data set itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from deixis.data.dictionary import UNKNOWN, Dictionary, read_dictionary
from deixis.data.hdf5 import find_array, open_hdf5, read_array
from deixis.data.reading import BadFile, BadRecord
from deixis.data.sample import Caption, Dataset, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import tokens

NAME = "talk"

SPLITS = ("train", "val", "test")
IMAGE_FOLDERS = ("images", "flickr30k-images", "flickr30k_images", "val2014")
_AUTHORS = "the authors of POS-SCAN (Y. Zhou and others) or of self-critical training (R. Luo), or their scripts"


def expected(root: Path) -> tuple[Expected, ...]:
    """List the two files."""
    stem = _stem(root) or "flickrtalk"
    return (
        Expected(f"{stem}.json", "the words and the list of images", _AUTHORS),
        Expected(f"{stem}_label.h5", "the captions as numbers of words", _AUTHORS),
    )


def recognise(root: Path) -> bool:
    """Whether the folder has ``*talk.json`` and its ``*talk_label.h5``."""
    return bool(_stem(root))


def splits(root: Path) -> tuple[str, ...]:
    """List the splits."""
    return SPLITS


def load(root: Path, split: str) -> Dataset:
    """Load one split, in file order."""
    if split not in SPLITS:
        raise DeixisError(f"{root} has no split '{split}'. Available: {', '.join(SPLITS)}.")
    stem = _stem(root)
    dictionary, path = read_dictionary(root / f"{stem}.json"), root / f"{stem}_label.h5"
    labels, first, last = _read(path, len(dictionary.entries))
    folder = next((root / name for name in IMAGE_FOLDERS if (root / name).is_dir()), root / IMAGE_FOLDERS[0])
    samples: list[Sample] = []
    skipped: list[Skipped] = []
    for row, entry in enumerate(dictionary.entries):
        if (entry.split if entry.split in ("val", "test") else "train") != split:
            continue
        numbers = labels[int(first[row]) - 1 : int(last[row])]
        captions = [_caption(list(line), dictionary) for line in numbers]
        usable = tuple(caption for caption in captions if caption is not None)
        if not usable or not 1 <= first[row] <= last[row] <= len(labels):
            skipped.append(Skipped(str(path), f"image {entry.image_id} has no usable caption"))
            continue
        name = Path(entry.file).name or f"{entry.image_id}.jpg"
        samples.append(Sample(entry.image_id, usable, path=folder / name, size=entry.size))
    return Dataset(NAME, split, tuple(samples), tuple(skipped))


def _read(path: Path, images: int) -> tuple[Any, Any, Any]:
    """Read captions and their places; refuse wrong shapes."""
    found = {}
    with open_hdf5(path) as file:
        for name in ("labels", "label_start_ix", "label_end_ix"):
            array = find_array(file, path, name)
            if array is None:
                raise BadFile(path, f"expected HDF5 with labels, label_start_ix and label_end_ix; {name} is missing")
            try:
                found[name] = read_array(array)
            except BadRecord as error:
                raise BadFile(path, f"{name}: {error}") from None
    labels, first, last = found.values()
    if labels.ndim != 2 or first.shape != (images,) or last.shape != (images,):
        raise BadFile(path, f"expected captions of {images} images, found {first.shape} first captions")
    if any(part.dtype.kind not in "iu" for part in found.values()) or not np.isfinite(labels).all():
        raise BadFile(path, "the captions must be whole numbers")
    return labels, first, last


def _caption(numbers: list[int], dictionary: Dictionary) -> Caption | None:
    words = []
    for number in numbers:
        if number == 0:
            break
        if not 1 <= number <= len(dictionary.words):
            return None
        word = dictionary.words[int(number) - 1]
        words.append("unk" if word in UNKNOWN else word)
    text = " ".join(words)
    found = tokens(text)
    return Caption(text, tuple(map(sys.intern, found))) if found else None


def _stem(root: Path) -> str:
    found = [path.stem for path in sorted(root.glob("*talk.json")) if (root / f"{path.stem}_label.h5").is_file()]
    if len(found) > 1:
        raise DeixisError(f"{root} has {', '.join(found)}. Put each of them into a folder of its own.")
    return found[0] if found else ""
