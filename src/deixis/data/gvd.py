"""Flickr30k as Grounded Video Description (GVD) prepared it: five captions an image, object words with one box each.

``dic_flickr30k.json``                  images with their split; words, classes and lemmas
``flickr30k_cleaned_class.json``        captions, and class, position and box of each object word; also image sizes
``cap_flickr30k.json``                  the same with rare words replaced by UNK; read if the file above is absent
``split_ids_flickr30k_entities.json``   29,000 training, 1,014 validation and 1,000 test images; optional
``images/<id>.jpg``                     the photographs

Each object word is a phrase of one word: its head is the word, its type the class (``men``: ``man``). Words with the
same class and box share an entity. Corners are inclusive, so the loader adds one pixel to x2 and y2.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from deixis import boxes as geometry
from deixis.data.dictionary import Dictionary, read_dictionary
from deixis.data.reading import BadFile, BadRecord, box_in_image, get_list, plain_name, read_json, record_errors
from deixis.data.sample import Caption, Dataset, Entity, Expected, Sample, Skipped
from deixis.errors import DeixisError
from deixis.language.tokenise import align
from deixis.types import Box, Phrase

NAME = "gvd"

DICTIONARY, CLEANED, CAPTIONS = "dic_flickr30k.json", "flickr30k_cleaned_class.json", "cap_flickr30k.json"
SPLIT_FILE = "split_ids_flickr30k_entities.json"
SPLITS = ("train", "val", "test")
IMAGE_FOLDERS = ("images", "flickr30k-images", "flickr30k_images")
_AUTHORS = "the authors of GVD (L. Zhou and others), in their repository's Flickr30k branch"


def expected(root: Path) -> tuple[Expected, ...]:
    """List the files of the prepared data set."""
    folder = next((name for name in IMAGE_FOLDERS if (root / name).is_dir()), IMAGE_FOLDERS[0])
    return (
        Expected(DICTIONARY, "the list of images, words and classes", _AUTHORS),
        Expected(CLEANED, "captions with object words and boxes", _AUTHORS, not (root / CAPTIONS).is_file()),
        Expected(CAPTIONS, "captions with rare words replaced", _AUTHORS, False),
        Expected(SPLIT_FILE, "the images of each split", _AUTHORS, False),
        Expected(folder, "the photographs", "the authors of Flickr30k (P. Young and others), by request", False),
    )


def recognise(root: Path) -> bool:
    """Whether the folder has GVD's dictionary of Flickr30k and captions."""
    return (root / DICTIONARY).is_file() and any((root / name).is_file() for name in (CLEANED, CAPTIONS))


def splits(root: Path) -> tuple[str, ...]:
    """List the splits."""
    return SPLITS


def load(root: Path, split: str) -> Dataset:
    """Load one split, in the order of the dictionary."""
    if split not in SPLITS:
        raise DeixisError(f"{root} has no split '{split}'. Available: {', '.join(SPLITS)}.")
    dictionary = read_dictionary(root / DICTIONARY)
    wanted = _images(root, split, dictionary)
    records, path = _records(root, dictionary)
    folder = next((root / name for name in IMAGE_FOLDERS if (root / name).is_dir()), root / IMAGE_FOLDERS[0])
    samples: list[Sample] = []
    skipped: list[Skipped] = []
    for entry in dictionary.entries:
        if entry.image_id not in wanted:
            continue
        try:
            if entry.image_id not in records:
                raise BadRecord("no captions")
            size, captions = records[entry.image_id]
            place = folder / plain_name(entry.file or f"{entry.image_id}.jpg")
            samples.append(_sample(entry.image_id, captions, size, place, path, skipped))
        except BadRecord as error:
            skipped.append(Skipped(str(path), f"image {entry.image_id}: {error}"))
    return Dataset(NAME, split, tuple(samples), tuple(skipped))


def read_split_file(path: Path) -> dict[str, frozenset[str]]:
    """Read a split file: split -> image ids."""
    lists = read_json(path)
    if not isinstance(lists, dict) or not all(isinstance(names, list) for names in lists.values()):
        raise BadFile(path, 'expected a JSON object such as {"test": ["1", ...]}')
    return {split: frozenset(map(str, names)) for split, names in lists.items()}


def _images(root: Path, split: str, dictionary: Dictionary) -> frozenset[str]:
    """Ids of a split: of the split file if there is one, else of the dictionary."""
    path = root / SPLIT_FILE
    if not path.is_file():
        return frozenset(entry.image_id for entry in dictionary.entries if entry.split == split)
    lists = read_split_file(path)
    if split not in lists:
        raise BadFile(path, f"no split '{split}' (found: {', '.join(lists) or 'none'})")
    return lists[split]


Records = dict[str, tuple[Any, list[Any]]]


def _records(root: Path, dictionary: Dictionary) -> tuple[Records, Path]:
    """Image id -> size and captions, with the names of the fields of ``flickr30k_cleaned_class.json``."""
    path = root / CLEANED
    if path.is_file():
        value = read_json(path, drop=("lemma2w", "vocab", "bnd_box", "bbox_attr", "process_attr"))
        annotations = value.get("annotations") if isinstance(value, dict) else None
        if not isinstance(annotations, list):
            raise BadFile(path, 'the list "annotations" is missing')
        found: Records = {}
        for record in annotations:
            with record_errors():
                found[str(record["image_id"])] = record.get("image_size"), record["captions"]
        return found, path
    path = root / CAPTIONS
    groups = read_json(path)
    if not isinstance(groups, list) or len(groups) != len(dictionary.entries):
        raise BadFile(path, f"expected a list with the {len(dictionary.entries)} images of {DICTIONARY}")
    names = {"caption": "tokens", "clss": "process_clss", "bbox": "process_bnd_box", "idx": "process_idx"}
    return {
        entry.image_id: (None, [{names.get(k, k): v for k, v in caption.items()} for caption in group])
        for entry, group in zip(dictionary.entries, groups, strict=True)
    }, path


def _sample(image_id: str, records: list[Any], size: Any, place: Path, path: Path, skipped: list[Skipped]) -> Sample:
    known = read_size(size)
    entities: dict[tuple[str, Box], Entity] = {}
    captions = []
    for number, record in enumerate(records):
        try:
            with record_errors():
                caption, bad = _caption(record, known, entities)
            captions.append(caption)
            skipped += [Skipped(str(path), f"image {image_id}, caption {number}: {reason}") for reason in bad]
        except BadRecord as error:
            skipped.append(Skipped(str(path), f"image {image_id}, caption {number}: {error}"))
    if not captions:
        raise BadRecord("no usable caption")
    return Sample(image_id, tuple(captions), path=place, size=known, entities=tuple(entities.values()))


def read_size(value: Any) -> tuple[int, int] | None:
    """Width and height of an ``image_size``; None if it is absent or not a size."""
    if isinstance(value, dict):
        value = [value.get("width"), value.get("height")]
    valid = isinstance(value, list) and len(value) >= 2 and all(type(n) is int and n > 0 for n in value[:2])
    return (value[0], value[1]) if valid else None


def _caption(
    record: Any, size: tuple[int, int] | None, entities: dict[tuple[str, Box], Entity]
) -> tuple[Caption, list[str]]:
    """Return a caption, and the reasons why some of its object words have no box."""
    official = get_list(record, "tokens")
    columns = [get_list(record, name) for name in ("process_idx", "process_clss", "process_bnd_box")]
    if not all(isinstance(token, str) for token in official) or len({len(column) for column in columns}) != 1:
        raise BadRecord("tokens must be strings; process_idx, process_clss and process_bnd_box of one length")
    text, spans = joined(official)
    aligned = align(text)
    phrases, bad = [], []
    for index, name, corners in sorted(zip(*columns, strict=True), key=lambda row: row[0]):
        if not isinstance(index, int) or not 0 <= index < len(official) or not isinstance(name, str) or not name:
            raise BadRecord(f"the object word {index} is not in the caption")
        start, end = aligned.span(*spans[index])
        if start == end:
            continue  # punctuation
        try:
            x1, y1, x2, y2 = (float(x) for x in corners)
            box = box_in_image((x1, y1, x2 + 1, y2 + 1), size or (math.inf, math.inf))
        except (BadRecord, TypeError, ValueError) as error:
            bad.append(f"the box of word {index}: {error}")
            continue
        entity = entities.setdefault(
            (name, box), Entity(str(len(entities)), geometry.as_boxes([box]), types=(name,), label=name)
        )
        phrases.append(Phrase(official[index], start, end, official[index].lower(), entity.id, types=(name,)))
    if not aligned.tokens:
        raise BadRecord("the caption is empty")
    return Caption(text, aligned.tokens, tuple(phrases)), bad


def joined(official: list[str]) -> tuple[str, list[tuple[int, int]]]:
    """Join official tokens to a text; also return the character span of each token."""
    text = ""
    spans: list[tuple[int, int]] = []
    for token in official:
        text += " " if text and token else ""
        spans.append((len(text), len(text) + len(token)))
        text += token
    return text, spans
