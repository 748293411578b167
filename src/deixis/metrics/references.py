"""References for scoring: a split of a data set of :mod:`deixis.data`, or GVD's reference file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from deixis.data import Dataset, Loader, Sample, gvd, recognise, scenes
from deixis.data.dictionary import read_classes
from deixis.data.reading import read_json
from deixis.errors import DeixisError
from deixis.language.classes import ObjectClasses
from deixis.language.tokenise import tokens
from deixis.metrics.formats import Images, segment_id
from deixis.metrics.grounded_captions import ObjectWord, Sentence, Sentences
from deixis.metrics.phrases import PhraseReference
from deixis.types import Box

CATEGORISED = ("flickr30k_entities",)
"""Data sets whose phrase types are the categories of the papers' tables."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A reference split. Fields that the data set does not provide are empty."""

    name: str  # the data set, or "gvd-flickr30k", "gvd-activitynet"
    split: str
    images: Images
    captions: Mapping[str, tuple[tuple[str, ...], ...]]  # image -> the words of each caption
    sentences: Sentences  # image -> captions with object words; GVD's file only
    frequency: Mapping[str, int]  # class -> object words in training; GVD's file only
    phrases: tuple[PhraseReference, ...] = ()
    samples: tuple[Sample, ...] = ()
    training: Callable[[], Sequence[Sample]] = tuple  # reads the training split
    classes: ObjectClasses | None = None  # object classes that the data set has a list of

    @property
    def video(self) -> bool:
        """Whether the items are video segments."""
        return self.name == "gvd-activitynet" or any(sample.is_video for sample in self.samples)


def read_reference(
    path: Path, split: str | Sequence[str] = "test", split_file: Path | None = None, exclude: Collection[str] = ()
) -> Reference:
    """Read a reference from a data set folder, generated scenes, or GVD's reference JSON.

    Several splits are one reference; its split is named "val+test".
    Without ``split_file`` all images of GVD's file are used. ``exclude`` has ids of images of a data set to leave out.
    """
    splits = (split,) if isinstance(split, str) else tuple(dict.fromkeys(split))
    if not splits:
        raise DeixisError("no split is given. Give one or several with --split.")
    if path.is_dir() or scenes.recognise(path):
        if split_file is not None:
            raise DeixisError(f"{path} is a data set with its own splits. Remove --split-file.")
        return _from_dataset(path, splits, exclude)
    if not path.exists():
        raise DeixisError(f"{path} does not exist. Expected a data set folder or GVD's reference file.")
    return _from_gvd(path, splits, split_file)


# Data sets ----------------------------------------------------------------------------------------------------------


def _load_splits(loader: Loader, root: Path, splits: Sequence[str]) -> Dataset:
    """Load several splits as one; an image in two of them is an error."""
    parts = [loader.load(root, split) for split in splits]
    if len(parts) == 1:
        return parts[0]
    samples = tuple(sample for part in parts for sample in part)
    counts = Counter(sample.image_id for sample in samples)
    twice = [image for image, count in counts.items() if count > 1]
    if twice:
        raise DeixisError(
            f"{root}: image {twice[0]} is in several of the splits {', '.join(splits)}. Give one of them."
        )
    skipped = tuple(note for part in parts for note in part.skipped)
    return Dataset(parts[0].name, "+".join(part.split for part in parts), samples, skipped)


def _from_dataset(root: Path, splits: Sequence[str], exclude: Collection[str] = ()) -> Reference:
    loader = recognise(root)
    dataset = _load_splits(loader, root, splits)
    split = "+".join(splits)
    if exclude:
        kept = tuple(sample for sample in dataset if sample.image_id not in exclude)
        dataset = replace(dataset, samples=kept, split=f"{dataset.split}, {len(kept)} of {len(dataset)} images")
    if not dataset.samples:
        raise DeixisError(f"{root}: the split '{split}' is empty. Available: {', '.join(loader.splits(root))}.")

    @cache
    def others() -> frozenset[str]:
        names = [name for name in loader.splits(root) if name not in splits]
        return frozenset(sample.image_id for name in names for sample in loader.load(root, name))

    family, mark, _ = splits[0].rpartition(":")  # "karpathy:test" belongs to "karpathy:train"
    train = f"{family}{mark}train"
    made = make_reference(
        dataset,
        training=lambda: loader.load(root, train).samples if train in loader.splits(root) else (),
        in_other_split=lambda image: image in others(),
    )
    return replace(made, classes=read_classes(root / gvd.DICTIONARY)) if loader.NAME == gvd.NAME else made


def make_reference(
    dataset: Dataset, training: Callable[[], Sequence[Sample]], in_other_split: Callable[[str], bool] = lambda _: False
) -> Reference:
    """Build a reference from a split; ``training`` returns the training split, used for the object classes."""
    samples = {sample.image_id: sample for sample in dataset}

    @cache
    def size(image: str) -> tuple[int, int] | None:
        try:
            return samples[image].image_size() if image in samples else None
        except (FileNotFoundError, DeixisError):
            return None

    return Reference(
        dataset.name,
        dataset.split,
        Images(frozenset(samples), _file_names(dataset), size, in_other_split),
        captions={s.image_id: tuple(c.tokens for c in s.captions) for s in dataset if s.captions},
        sentences={},
        frequency={},
        phrases=phrase_references(dataset),
        samples=dataset.samples,
        training=training,
    )


def _file_names(dataset: Dataset) -> dict[str, str]:
    """File name with and without extension -> image id, for unambiguous names."""
    ids_of: dict[str, set[str]] = {}
    for sample in dataset:
        path = sample.segment.path if sample.segment is not None else sample.path
        for name in () if path is None else (path.name, path.stem):
            ids_of.setdefault(name, set()).add(sample.image_id)
    return {name: ids.pop() for name, ids in ids_of.items() if len(ids) == 1}


def phrase_references(dataset: Dataset) -> tuple[PhraseReference, ...]:
    """All phrases with boxes, in caption order. Video entities are left out."""
    found = []
    for sample in dataset:
        entities = {entity.id: entity for entity in sample.entities}
        for number, caption in enumerate(sample.captions):
            for phrase in caption.phrases:
                entity = entities.get(phrase.entity or "")
                if entity is None or len(entity.boxes) == 0 or entity.frames is not None:
                    continue
                found.append(
                    PhraseReference(
                        id=f"{sample.image_id}#{number}.{phrase.start}-{phrase.end} {phrase.text}",
                        image=sample.image_id,
                        phrase=phrase.text,
                        boxes=entity.boxes,
                        size=_known_size(sample),
                        category=phrase.types[0] if phrase.types and dataset.name in CATEGORISED else "",
                        caption=number,
                        start=phrase.start,
                    )
                )
    return tuple(found)


def has_grounded_phrases(sample: Sample) -> bool:
    """Return whether a caption of the sample has a phrase whose entity has a box."""
    boxed = {entity.id for entity in sample.entities if len(entity.boxes)}
    return any(phrase.entity in boxed for caption in sample.captions for phrase in caption.phrases)


def _known_size(sample: Sample) -> tuple[int, int]:
    try:
        return sample.image_size()
    except FileNotFoundError:
        raise DeixisError(
            f"Image {sample.image_id} is missing, and its annotation has no size. Add the image file."
        ) from None


# GVD's files --------------------------------------------------------------------------------------------------------


def _from_gvd(path: Path, wanted: Sequence[str], split_file: Path | None) -> Reference:
    document = read_json(path)
    annotations = document.get("annotations") if isinstance(document, dict) else None
    if not isinstance(annotations, dict | list) or not annotations:
        raise DeixisError(f'{path} is not a GVD reference file. Expected "annotations" of images or videos.')
    splits = None if split_file is None else _read_splits(split_file)
    split = "+".join(wanted)
    scored: set[str] = set()
    if splits is not None:
        for name in wanted:
            if name not in splits:
                raise DeixisError(f"{split_file} has no split '{name}'. Available: {', '.join(splits) or 'none'}.")
            scored |= splits[name]
    owner = {name: part for part, names in (splits or {}).items() for name in names}
    kept: dict[str, tuple[Sentence, ...]] = {}
    others: set[str] = set()
    frequency: Counter[str] = Counter()
    for name, record in _named(annotations):
        sentences = _gvd_sentences(path, name, record)
        if splits is not None and name not in scored:
            others.update(sentences)
            if owner.get(name, "").startswith("train"):
                frequency.update(word.name for group in sentences.values() for s in group for word in s.objects)
            continue
        twice = kept.keys() & sentences.keys()
        if twice:
            raise DeixisError(f"{path}: image {min(twice)} has two annotations. Remove one of them.")
        kept.update(sentences)
    if not kept:
        raise DeixisError(f"{path} has no image of the split '{split}'. Check that {split_file} belongs to it.")
    return Reference(
        "gvd-activitynet" if isinstance(annotations, dict) else "gvd-flickr30k",
        split if splits is not None else "all",
        Images(frozenset(kept), in_other_split=others.__contains__),
        captions={image: tuple(tokens(" ".join(s.tokens)) for s in group) for image, group in kept.items()},
        sentences=kept,
        frequency=frequency,
    )


def _read_splits(path: Path) -> dict[str, set[str]]:
    lists = read_json(path)
    if not isinstance(lists, dict) or not all(isinstance(names, list) for names in lists.values()):
        raise DeixisError(f'{path} is not a split file. Expected a JSON object such as {{"test": ["1", ...]}}.')
    return {split: set(map(str, names)) for split, names in lists.items()}


def _named(annotations: Any) -> list[tuple[str, Any]]:
    """List image or video names with their records; Flickr30k has a list, ActivityNet an object."""
    if isinstance(annotations, dict):
        return list(annotations.items())
    return [(str(r.get("image_id")) if isinstance(r, dict) else "?", r) for r in annotations]


def _gvd_sentences(path: Path, name: str, record: Any) -> dict[str, tuple[Sentence, ...]]:
    try:
        if "segments" in record:
            return {segment_id(name, s): (_gvd_segment(r),) for s, r in record["segments"].items()}
        return {name: tuple(map(_gvd_caption, record["captions"]))}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DeixisError(f"{path}, {name}: invalid GVD annotation ({reason}).") from None


def _gvd_caption(record: Mapping[str, Any]) -> Sentence:
    """Read a caption of the Flickr30k file, with one box per word."""
    columns = (record["process_clss"], record["process_idx"], record["process_bnd_box"])
    words = [ObjectWord(str(name), int(index), (_inclusive(box),)) for name, index, box in zip(*columns, strict=True)]
    return Sentence(tuple(words), tuple(map(str, record["tokens"])))


def _gvd_segment(record: Mapping[str, Any]) -> Sentence:
    """Read a segment of the ActivityNet file; boxes and words are many-to-many."""
    columns = [record[name] for name in ("process_idx", "process_clss", "process_bnd_box", "frame_ind")]
    places: dict[int, tuple[str, list[Box], list[int]]] = {}
    for positions, names, corners, frame in zip(*columns, strict=True):
        for index, name in zip(positions, names, strict=True):
            _, boxes, frames = places.setdefault(int(index), (str(name), [], []))
            boxes.append(_inclusive(corners))
            frames.append(int(frame))
    words = [ObjectWord(name, at, tuple(boxes), tuple(frames)) for at, (name, boxes, frames) in sorted(places.items())]
    return Sentence(tuple(words), tuple(map(str, record["tokens"])))


def _inclusive(corners: Sequence[float]) -> Box:
    """Convert GVD's 0-based inclusive corners to a box."""
    x1, y1, x2, y2 = map(float, corners)
    if not all(map(math.isfinite, (x1, y1, x2, y2))):
        raise ValueError(f"the box {corners} must have four finite numbers")
    return x1, y1, x2 + 1, y2 + 1
