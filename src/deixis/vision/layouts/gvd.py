"""Region features of Grounded Video Description (GVD, L. Zhou and others), of Flickr30k and of ActivityNet.

A folder with ``dic_flickr30k.json`` or ``dic_anet.json``; row ``i`` of the detections is entry ``i`` of this file.

Flickr30k
``flickr30k_detection_vg_X-101-64x4d-FPN_2x_feature/<id>.npy``                      ``[n, 2048]``
``flickr30k_detection_vg_X-101-64x4d-FPN_2x_feat_map_100prop_box_only.h5``          ``dets_labels [N, 100, 6]``: corners
    in pixels of the photograph, class, score; ``nms_num [N]``: rows in use

ActivityNet
``fc6_feat_100rois/<video>_segment_<00>.npy``       ``[F, 100, 2048]``, F <= 10 frames
``anet_detection_vg_fc6_feat_100rois.h5``           ``dets_labels [N, 1000, 7]``: corners at a width of 720 pixels,
    frame, class, score; ``dets_num [N]``; ``hw [N, 2]``: height and width
``rgb_motion_1d/<video without v_>_resnet.npy``     ``[T, 2048]`` of the whole video, and ``_bn.npy [T, 1024]``

Rows are unsorted. Class 0 is the background. Rows whose score is at most the threshold are dropped for photographs; for
videos they become zeros (box, feature and score), because a region is found there by its row.

``detectron_weights/*.pkl`` and ``vg_object_vocab.txt``, in the folder or its parent, are the class head: with them the
regions have class probabilities. The frame features of a video become its temporal
features ``[T, 3072]``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis.data.array_pickle import load_array_pickle
from deixis.data.dictionary import Dictionary, Entry, read_dictionary
from deixis.data.gvd import read_size
from deixis.data.hdf5 import find_array, open_hdf5, read_array
from deixis.data.reading import BadFile, BadRecord, read_json, read_lines
from deixis.errors import DeixisError
from deixis.types import Json, Labels, Regions
from deixis.vision.head import ClassHead
from deixis.vision.layouts.glove import BACKGROUND, map_classes
from deixis.vision.layouts.records import (
    Files,
    ImportOptions,
    Record,
    Sizes,
    Source,
    count,
    find_files,
    load_array,
    numbers,
    to_boxes,
)

FEATURES = "flickr30k_detection_vg_X-101-64x4d-FPN_2x_feature"
DETECTIONS = "flickr30k_detection_vg_X-101-64x4d-FPN_2x_feat_map_100prop_box_only.h5"
VIDEO_FEATURES, VIDEO_DETECTIONS, FRAME_FEATURES = (
    "fc6_feat_100rois",
    "anet_detection_vg_fc6_feat_100rois.h5",
    "rgb_motion_1d",
)
DIM, MOTION_DIM = 2048, 1024
FRAME_WIDTH = 720
IMAGE_FOLDERS = ("images", "flickr30k-images", "flickr30k_images")
HEAD_FILES = ("fc7_w", "fc7_b", "cls_score_w", "cls_score_b")


def open_gvd(root: Path, options: ImportOptions, unpack: Path) -> Source:
    """Open a GVD data folder; ``unpack`` is a folder for the archive of frame features, if they are in an archive."""
    root = _data_folder(root)
    dictionary = read_dictionary(root / ("dic_anet.json" if _is_video(root) else "dic_flickr30k.json"))
    if not dictionary.entries:
        raise BadFile(dictionary.path, 'no "images" or "videos"')
    names = _class_names(root, options)
    head, notes = _read_head(root, names, dictionary, options, unpack / "detectron_weights")
    detections = _Detections(root, dictionary, options, names)
    if dictionary.video:
        reader: _Photographs | _Videos = _Videos(root, detections, unpack)
    else:
        reader = _Photographs(root, detections, _sizes(root, dictionary, options))
    return Source(
        _describe(dictionary.video, head, options),
        lambda done: _records(reader, dictionary, head, done),
        len(dictionary.entries),
        head,
        settings={"sizes": reader.sizes_from},
        notes=(*notes, *reader.notes),
    )


def _describe(video: bool, head: ClassHead | None, options: ImportOptions) -> Json:
    return {
        "version": 1,
        "layout": "gvd",
        "backbone": {"name": options.detector or "detectron-vg-fc6", "dim": DIM, "supervision": "boxes"},
        "proposals": {
            "name": "gvd-activitynet" if video else "gvd-flickr30k",
            "limit": 1000 if video else 100,
            "supervision": "boxes of Visual Genome",
        },
        "threshold": options.threshold,
        "background": options.background,
        "head_sha256": None if head is None else head.digest(),
    }


# Files --------------------------------------------------------------------------------------------------------------


def _data_folder(root: Path) -> Path:
    """Find the folder with GVD's dictionary: the given one, or ``flickr30k`` or ``anet`` in it."""
    for folder in (root, root / "flickr30k", root / "anet"):
        if (folder / "dic_flickr30k.json").is_file() or (folder / "dic_anet.json").is_file():
            return folder
    raise DeixisError(
        f"{root} has neither dic_flickr30k.json nor dic_anet.json, which list the images of the feature files. "
        "Get it from the authors of GVD and put it into this folder."
    )


def _is_video(root: Path) -> bool:
    found = [(root / name).is_file() for name in ("dic_flickr30k.json", "dic_anet.json")]
    if all(found):
        raise DeixisError(f"{root} has dic_flickr30k.json and dic_anet.json. Put the two data sets into two folders.")
    return found[1]


def _beside(root: Path, name: str) -> Path | None:
    return next((path / name for path in (root, root.parent) if (path / name).exists()), None)


def _class_names(root: Path, options: ImportOptions) -> tuple[str, ...]:
    """Names of the detector's classes, background first; empty if there is no list."""
    path = options.classes or _beside(root, "vg_object_vocab.txt")
    return () if path is None else (BACKGROUND, *(line for _, line in read_lines(path)))


def _read_head(
    root: Path, names: tuple[str, ...], dictionary: Dictionary, options: ImportOptions, unpack: Path
) -> tuple[ClassHead | None, tuple[str, ...]]:
    """Read the class head and map it to the classes of the data set if GloVe vectors are given; also return notes."""
    folder = _beside(root, "detectron_weights")
    archive = _beside(root, "detectron_weights.tar.gz")
    if folder is None and archive is not None:
        folder = Files(archive, (".pkl",)).unpacked(unpack).path
    if folder is None:
        if options.glove is not None:
            raise DeixisError(f"--glove maps a class head, and {root} has no detectron_weights. Get this folder first.")
        return None, ("no detectron_weights beside the features: regions have no class probabilities.",)
    if not names:
        raise DeixisError(f"{folder} needs the list vg_object_vocab.txt. Put it beside the folder, or give --classes.")
    arrays = [load_array_pickle(folder / f"{name}.pkl") for name in HEAD_FILES]
    if any(array.dtype.kind != "f" for array in arrays):
        raise DeixisError(f"{folder}: the weights must be floating-point numbers. Download the folder again.")
    try:
        fc7_weight, fc7_bias, class_weight, class_bias = (array.astype(np.float32) for array in arrays)
        head = ClassHead(fc7_weight, fc7_bias, class_weight, class_bias, names)
    except (ValueError, IndexError) as error:
        raise DeixisError(f"{folder}: {error}. Expected weights of {len(names)} classes with background.") from None
    if head.fc7_weight.shape[1] != DIM:
        raise DeixisError(f"{folder}/fc7_w.pkl has shape {list(head.fc7_weight.shape)}, expected [n, {DIM}].")
    if options.glove is None:
        return head, ()
    mapped, unknown = map_classes(head, dictionary.classes, options.glove)
    note = f"{len(unknown)} classes have no GloVe vector and begin with zero weights: {', '.join(unknown)}"
    return mapped, (note,) if unknown else ()


def _sizes(root: Path, dictionary: Dictionary, options: ImportOptions) -> Sizes:
    """Image sizes: from ``flickr30k_cleaned_class.json``, from the dictionary, or from the photographs."""
    known = {entry.image_id: entry.size for entry in dictionary.entries if entry.size is not None}
    path = root / "flickr30k_cleaned_class.json"
    if options.images is None and path.is_file():
        annotations = read_json(path, drop=("captions", "lemma2w", "vocab")).get("annotations", [])
        for record in annotations:
            size = read_size(record.get("image_size"))
            if size is not None:
                known[str(record.get("image_id"))] = size
    images = options.images or next((root / name for name in IMAGE_FOLDERS if (root / name).is_dir()), None)
    return Sizes({} if options.images else known, images)


class _Detections:
    """Rows of the detections file."""

    def __init__(self, root: Path, dictionary: Dictionary, options: ImportOptions, names: tuple[str, ...]) -> None:
        self.path = root / (VIDEO_DETECTIONS if dictionary.video else DETECTIONS)
        self.dictionary, self.options, self.names = dictionary, options, names
        if not self.path.is_file():
            raise DeixisError(f"{self.path} does not exist. Get the detections from the authors of GVD.")
        self.file: Any = open_hdf5(self.path)
        rows, width = (1000, 7) if dictionary.video else (100, 6)
        entries = len(dictionary.entries)
        self.rows = self._dataset("dets_labels", (entries, rows, width))
        self.used = read_array(self._dataset("dets_num" if dictionary.video else "nms_num", (entries,)))
        self.hw = self._dataset("hw", (entries, 2)) if dictionary.video else None

    def _dataset(self, name: str, shape: tuple[int, ...]) -> Any:
        found = find_array(self.file, self.path, name)
        if found is None:
            keys = ", ".join(self.file.keys()) or "none"
            raise BadFile(self.path, f"the array '{name}' is missing (found: {keys})")
        if tuple(found.shape) != shape and not (name.endswith("num") and tuple(found.shape) == (*shape, 1)):
            raise BadFile(
                self.path,
                f"'{name}' has shape {list(found.shape)}, expected {list(shape)} for {self.dictionary.path.name}",
            )
        if found.dtype.kind not in ("f" if name == "dets_labels" else "fiu"):
            raise BadFile(self.path, f"'{name}' has type {found.dtype}, expected numbers")
        return found

    def read(self, row: int) -> npt.NDArray[np.float32]:
        """Return the rows in use of one image."""
        used = count(np.ravel(self.used[row])[0], self.rows.shape[1], "the number of detections")
        return numbers(read_array(self.rows, row)[:used], (None, self.rows.shape[2]), "dets_labels")

    def kept(self, table: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Whether the score of each row is above the threshold; without background if so asked."""
        kept = table[:, -1] > np.float32(self.options.threshold)
        return kept if self.options.background else kept & (table[:, -2] != 0)

    def labels(self, table: npt.NDArray[np.float32]) -> Labels:
        """Class and probability of each row."""
        ids = table[:, -2:-1].astype(np.int64)
        if (ids < 0).any() or (ids != table[:, -2:-1]).any() or (self.names and (ids >= len(self.names)).any()):
            raise BadRecord(f"a class is not a whole number from 0 to {len(self.names) - 1 if self.names else 'n'}")
        names = self.names or (BACKGROUND, *(f"class {i}" for i in range(1, 1601)))
        if ids.size and ids.max() >= len(names):
            raise BadRecord(f"class {ids.max()} is beyond the {len(names)} classes of Visual Genome")
        return Labels(ids, table[:, -1:], names)


# Readers ------------------------------------------------------------------------------------------------------------


def _records(
    reader: _Photographs | _Videos, dictionary: Dictionary, head: ClassHead | None, done: Collection[str]
) -> Iterator[Record]:
    """Yield the images that are not done: in the order of the archive, or of the dictionary."""
    rows = {reader.file_name(entry): row for row, entry in enumerate(dictionary.entries)}
    seen: set[str] = set()
    for name, read in _named(reader.files, rows):
        if name not in rows or name in seen:
            continue
        seen.add(name)
        entry = dictionary.entries[rows[name]]
        if entry.image_id in done:
            continue
        try:
            regions = reader.read(rows[name], entry, read())
            if head is not None:
                regions = replace(regions, class_probs=head.class_probs(regions.features), class_names=head.names)
            yield Record(entry.image_id, regions, training=entry.split.startswith("train"))
        except BadRecord as error:
            yield Record(entry.image_id, reason=str(error))
    for name, row in rows.items():
        entry = dictionary.entries[row]
        if name not in seen and entry.image_id not in done:
            yield Record(entry.image_id, reason=f"{reader.files.path} has no file {name}.npy")


def _named(files: Files, names: Collection[str]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if files.archive:
        yield from files.stream()
        return
    for name in names:
        if (files.path / f"{name}.npy").is_file():
            yield name, lambda name=name: files.find(name) or b""  # type: ignore[misc]


class _Photographs:
    """Regions of Flickr30k."""

    def __init__(self, root: Path, detections: _Detections, sizes: Sizes) -> None:
        self.files = _require_files(root, FEATURES)
        self.detections, self.sizes = detections, sizes
        self.sizes_from, self.notes = sizes.source, sizes.notes

    def file_name(self, entry: Entry) -> str:
        return entry.image_id

    def read(self, row: int, entry: Entry, data: bytes) -> Regions:
        table = self.detections.read(row)
        features = numbers(load_array(data, f"{entry.image_id}.npy"), (None, DIM), f"{entry.image_id}.npy")
        if len(features) < len(table):
            raise BadRecord(f"{len(features)} features for {len(table)} detections")
        size = self.sizes.of(entry.image_id, entry.file or f"{entry.image_id}.jpg", table)
        if (table[:, 2] > size[0] + 1).any() or (table[:, 3] > size[1] + 1).any():
            raise BadRecord(f"a box is outside the image of {size[0]} x {size[1]} pixels")
        kept = self.detections.kept(table)
        table, features = table[kept], features[: len(kept)][kept]
        if not len(table):
            raise BadRecord(f"no detection has a score above {self.detections.options.threshold:g}")
        return Regions(
            boxes=to_boxes(table[:, :4], size),
            features=features,
            size=size,
            scores=table[:, 5],
            labels=self.detections.labels(table),
        )


class _Videos:
    """Regions and frame features of ActivityNet's segments."""

    sizes_from = "detections"

    def __init__(self, root: Path, detections: _Detections, unpack: Path) -> None:
        self.files = _require_files(root, VIDEO_FEATURES)
        self.detections, self.unpack = detections, unpack
        self.frames = find_files(root, FRAME_FEATURES)
        self.notes = () if self.frames is not None else (f"no {FRAME_FEATURES}: segments have no frame features.",)

    @cached_property
    def frame_files(self) -> Files | None:
        return None if self.frames is None else self.frames.unpacked(self.unpack)

    def file_name(self, entry: Entry) -> str:
        video, _, number = entry.image_id.rpartition("_segment_")
        return f"{video}_segment_{int(number):02d}" if number.isdecimal() else entry.image_id

    def read(self, row: int, entry: Entry, data: bytes) -> Regions:
        table = self.detections.read(row)
        name = f"{self.file_name(entry)}.npy"
        array = numbers(load_array(data, name), (None, None, DIM), name)
        features = array.reshape(-1, DIM)
        if len(features) != len(table):
            raise BadRecord(f"{len(features)} features for {len(table)} detections")
        height, width = (float(n) for n in self.detections.hw[row])  # type: ignore[index]
        if not 0 < height < 1e5 or not 0 < width < 1e5:
            raise BadRecord(f"the height and width {height:g}, {width:g} are not those of a video")
        size = FRAME_WIDTH, max(1, round(height * FRAME_WIDTH / width))
        frames = table[:, 4]
        if (frames != np.floor(frames)).any() or (frames < 0).any() or (frames > 9).any():
            raise BadRecord("a frame is not a whole number from 0 to 9")
        kept = self.detections.kept(table)
        labels = self.detections.labels(np.where(kept[:, None], table, 0))
        return Regions(
            boxes=np.where(kept[:, None], to_boxes(table[:, :4], size), 0),
            features=np.where(kept[:, None], features, 0),
            size=size,
            scores=np.where(kept, table[:, 6], 0),
            labels=labels,
            frames=frames.astype(np.int64),
            temporal=self._frames(entry),
        )

    def _frames(self, entry: Entry) -> npt.NDArray[np.float32] | None:
        """Features ``[T, 3072]`` of the whole video: appearance, then motion."""
        if self.frame_files is None:
            return None
        video = entry.image_id.rpartition("_segment_")[0].removeprefix("v_")
        parts = []
        for kind, dim in (("resnet", DIM), ("bn", MOTION_DIM)):
            data = self.frame_files.find(f"{video}_{kind}")
            if data is None:
                raise BadRecord(f"{FRAME_FEATURES} has no file {video}_{kind}.npy")
            name = f"{video}_{kind}.npy"
            parts.append(numbers(load_array(data, name), (None, dim), name))
        if len(parts[0]) != len(parts[1]):
            raise BadRecord(f"{len(parts[0])} rows of appearance, but {len(parts[1])} of motion")
        rows = np.concatenate(parts, axis=1)
        if not len(rows):
            raise BadRecord(f"{video}_resnet.npy has no rows")
        return rows


def _require_files(root: Path, name: str) -> Files:
    found = find_files(root, name)
    if found is None:
        raise DeixisError(f"{root} has neither {name} nor {name}.tar.gz. Get the features from the authors of GVD.")
    return found
