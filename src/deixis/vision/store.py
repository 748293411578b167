"""Feature store: regions of many images on disk by image id, in half precision and memory-mapped.

A store is a folder. ``store.json`` describes the extractor of the regions. Each ``shard-NUMBER-HASH.safetensors`` has
the regions of some images; HASH is the hash of its content. ``skipped.json`` lists the images that could not be read,
and ``skipped-I-of-N.json`` those of a run with part I of N of the images.
``head.safetensors`` has the class head of the detector, where the source of the features has one.

There is no index besides the shards. A shard is written to a temporary file, flushed to disk and renamed, so a writer
that is killed leaves no partial shard. A writer holds a lock; readers need none. Writers of different parts of the
images may write to one store at the same time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from deixis.differences import differences
from deixis.errors import DeixisError
from deixis.files import (
    MAX_FILE,
    TMP_PREFIX,
    lock,
    open_regular,
    read_settings,
    read_text,
    remove_partial,
    require_regular,
    write_atomic,
)
from deixis.types import ByteGrid, Json, Labels, Regions, require_extractor
from deixis.vision.head import ClassHead

FORMAT = 1
IMAGES_PER_SHARD = 128
"""Images per shard, which a killed writer can lose; 33 MB on disk with the default extractor."""
OPEN_SHARDS = 256
"""Shards that one reader maps at a time; each needs a file descriptor, and processes often have 1,024."""

_SHARD = re.compile(r"shard-(\d{6})-([0-9a-f]{16})\.safetensors")
_DTYPES = {
    "U8": np.uint8,
    "F16": np.float16,
    "F32": np.float32,
    "U16": np.uint16,
    "I32": np.int32,
    "I64": np.int64,
    "F64": np.float64,
}


@dataclass(frozen=True)
class Contents:
    """Content of ``store.json``."""

    extractor: str  # the extractor's short name, see deixis.vision.extractor
    description: Json  # its full description
    settings: Json = field(default_factory=dict)  # other settings of the writer, such as the size of grids

    def to_json(self) -> Json:
        """Return the content of ``store.json``."""
        return {
            "format": FORMAT,
            "extractor": self.extractor,
            "description": self.description,
            "settings": self.settings,
        }


class FeatureStore(Mapping[str, Regions]):
    """Store opened for reading; ``store[image_id]`` is the image's :class:`~deixis.types.Regions`.

    Features, probabilities and grids are float16 arrays in the mapped file, without a copy. A store can be pickled;
    each process maps the files itself.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.contents = read_contents(self.path)
        self._shards = _shards(self.path)
        self._places: dict[str, tuple[int, int]] = {}
        for number, shard in enumerate(self._shards):
            for row, image_id in enumerate(_image_ids(shard)):
                if image_id in self._places:
                    other = self._shards[self._places[image_id][0]]
                    raise DeixisError(f"{image_id} is in {other} and in {shard.name}. Delete one of these files.")
                self._places[image_id] = number, row
        self._open = lru_cache(OPEN_SHARDS)(_map_shard)

    @property
    def extractor(self) -> str:
        """Short name of the extractor of the regions."""
        return self.contents.extractor

    @property
    def bytes(self) -> int:
        """Size of the shards on disk."""
        return sum(shard.stat().st_size for shard in self._shards)

    def require(self, extractor: str) -> None:
        """Raise an error if the regions are from another extractor than the given one."""
        require_extractor(self.extractor, extractor, f"the regions in {self.path}")

    def head(self) -> ClassHead | None:
        """Read the class head of the detector; None where the source has none."""
        return ClassHead.load(self.path)

    def skipped(self) -> dict[str, Json]:
        """Images that could not be read: image id -> reason, file size and modification time."""
        listed = [read_skipped(file) for file in sorted(self.path.glob("skipped*.json"))]
        return {image_id: entry for part in listed for image_id, entry in part.items() if image_id not in self}

    def __getitem__(self, image_id: str) -> Regions:
        number, row = self._places[image_id]
        arrays, names = self._open(self._shards[number])
        start, end = arrays["offsets"][row : row + 2]
        rows = slice(int(start), int(end))
        width, height = arrays["sizes"][row]
        labels = None
        if "label_ids" in arrays:
            labels = Labels(arrays["label_ids"][rows], arrays["label_probs"][rows], names["classes"])
        return Regions(
            boxes=arrays["boxes"][rows],
            features=arrays["features"][rows],
            size=(int(width), int(height)),
            scores=arrays["scores"][rows] if "scores" in arrays else None,
            labels=labels,
            frames=arrays["frames"][rows] if "frames" in arrays else None,
            grid=_grid(arrays, row),
            extractor=self.extractor,
            class_probs=arrays["class_probs"][rows] if "class_probs" in arrays else None,
            class_names=names["class_names"],
            image_vector=arrays["image_vectors"][row] if "image_vectors" in arrays else None,
            maps=_maps(arrays, row),
            temporal=_temporal(arrays, row),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, image_id: object) -> bool:
        return image_id in self._places

    def __reduce__(self) -> tuple[type[FeatureStore], tuple[Path]]:
        return FeatureStore, (self.path,)

    def verify(self) -> Iterator[tuple[str, bool]]:
        """Yield the file name of every shard and whether its content matches its hash."""
        for shard in self._shards:
            found = _SHARD.fullmatch(shard.name)
            assert found is not None
            with open_regular(shard) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            yield shard.name, digest.startswith(found[2])


class StoreWriter:
    """Writer that creates a store or adds images to an existing one.

    It is a context manager; at its end, also after an exception, all added images are on disk. ``part`` (i, n) is that
    of a run with part i of n of the images.
    """

    def __init__(
        self,
        path: str | Path,
        contents: Contents,
        images_per_shard: int = IMAGES_PER_SHARD,
        part: tuple[int, int] = (1, 1),
    ) -> None:
        self.path, self.contents, self.images_per_shard = Path(path), contents, images_per_shard
        self._part = "" if part[1] == 1 else f"-{part[0]}-of-{part[1]}"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.path, self._part)
        except OSError as error:
            raise DeixisError(f"{self.path} cannot be written ({error.strerror}). Choose another folder.") from None
        try:
            self._begin()
        except BaseException:
            self._unlock()
            raise

    def _unlock(self) -> None:
        for file in self._lock:
            file.close()

    def _begin(self) -> None:
        if not self._part:
            remove_partial(self.path)
        if (self.path / "store.json").exists():
            _refuse_other(self.path, read_contents(self.path), self.contents)
        elif any(not entry.name.startswith(("lock", TMP_PREFIX)) for entry in self.path.iterdir()):
            raise DeixisError(f"{self.path} has other files and is not a feature store. Choose a new or empty folder.")
        else:
            write_atomic(self.path / "store.json", json.dumps(self.contents.to_json(), indent=1))
        shards = _shards(self.path)
        self.image_ids = {image_id for shard in shards for image_id in _image_ids(shard)}
        self.skipped = read_skipped(self._skipped_file)
        self._next = 1 + max((int(shard.name[6:12]) for shard in shards), default=-1)
        self._waiting: dict[str, Regions] = {}
        self._skipped_changed = False

    def add(self, image_id: str, regions: Regions) -> None:
        """Add one image; it is written when its shard is full, or at the end."""
        if image_id in self.image_ids:
            raise ValueError(f"{image_id} is already in the store")
        if regions.extractor != self.contents.extractor:
            raise ValueError(
                f"the regions are of extractor {regions.extractor}, but the store is of {self.contents.extractor}"
            )
        first = next(iter(self._waiting.values()), regions)
        if _kind(regions) != _kind(first):
            raise ValueError(f"{image_id} has {_kind(regions)}, the images before it have {_kind(first)}")
        if regions.labels is not None and first.labels is not None and regions.labels.names != first.labels.names:
            raise ValueError(f"{image_id} has other classes than the images before it")
        if regions.class_names != first.class_names:
            raise ValueError(f"{image_id} has other class names than the images before it")
        parts = (regions.features, regions.grid, regions.class_probs, regions.image_vector, regions.temporal)
        with np.errstate(over="ignore"):
            whole = [part.astype(np.float16) for part in parts if part is not None]
        if not all(np.isfinite(part).all() for part in whole):
            raise DeixisError(
                f"{image_id} has features beyond the range of half precision. Check the image and the backbone."
            )
        self.image_ids.add(image_id)
        self._waiting[image_id] = regions
        if self.skipped.pop(image_id, None) is not None:
            self._skipped_changed = True
        if len(self._waiting) >= self.images_per_shard:
            self.flush()

    def skip(self, image_id: str, reason: str, stamp: Json | None = None) -> None:
        """Record an image that cannot be used; ``stamp`` allows to detect later changes of its file."""
        self.skipped[image_id] = {"reason": reason, **(stamp or {})}
        self._skipped_changed = True

    def flush(self) -> None:
        """Write all added images to disk."""
        if self._skipped_changed:
            write_atomic(self._skipped_file, json.dumps(self.skipped, indent=1, sort_keys=True))
            self._skipped_changed = False
        if self._waiting:
            data = _encode(self._waiting)
            digest = hashlib.sha256(data).hexdigest()[:16]
            write_atomic(self.path / f"shard-{self._next:06d}-{digest}.safetensors", data)
            self._next += 1
            self._waiting = {}

    def close(self) -> None:
        """Flush and release the lock."""
        if not self._lock[0].closed:
            try:
                self.flush()
            finally:
                self._unlock()

    @property
    def _skipped_file(self) -> Path:
        return self.path / f"skipped{self._part}.json"

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_contents(path: Path) -> Contents:
    """Read ``store.json`` of a store."""
    file = path / "store.json"
    try:
        value = read_settings(file)
        if value["format"] != FORMAT:
            raise DeixisError(
                f"{path} has the store format {value['format']}, expected {FORMAT}. Run deixis features again."
            )
        return Contents(value["extractor"], value["description"], value["settings"])
    except (FileNotFoundError, NotADirectoryError):
        raise DeixisError(f"{path} is not a feature store. Create one with 'deixis features DIR -o {path}'.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DeixisError(f"{file} cannot be read ({error!r}). Run deixis features again.") from None


def read_skipped(file: Path) -> dict[str, Json]:
    """Read a ``skipped.json`` of a store."""
    if not file.exists():
        return {}
    try:
        value: dict[str, Json] = json.loads(read_text(file, MAX_FILE))
    except (OSError, ValueError) as error:
        raise DeixisError(f"{file} cannot be read ({error}). Delete it to try the skipped images again.") from None
    return value


# Shards -----------------------------------------------------------------------------------------------------------


def _shards(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if _SHARD.fullmatch(entry.name))


def _kind(regions: Regions) -> dict[str, int | None]:
    """Sizes of the last axes, and which optional parts exist; equal for all images of a shard."""
    return {
        "features": regions.features.shape[1],
        "scores": None if regions.scores is None else 1,
        "labels": None if regions.labels is None else regions.labels.ids.shape[1],
        "frames": None if regions.frames is None else 1,
        "grid": None if regions.grid is None else regions.grid.shape[-1],
        "class_probs": None if regions.class_probs is None else regions.class_probs.shape[1],
        "image_vector": None if regions.image_vector is None else len(regions.image_vector),
        "maps": len(regions.maps) or None,
        **{f"map {number}": grid.values.shape[-1] for number, grid in enumerate(regions.maps)},
        "temporal": None if regions.temporal is None else regions.temporal.shape[1],
    }


def _encode(images: Mapping[str, Regions]) -> bytes:
    """Serialise images of one kind to the content of a shard."""
    parts = list(images.values())
    arrays: dict[str, npt.NDArray[Any]] = {
        "features": np.concatenate([part.features for part in parts]).astype(np.float16),
        "boxes": np.concatenate([part.boxes for part in parts]).astype(np.float32),
        "sizes": np.array([part.size for part in parts], dtype=np.int32),
        "offsets": np.cumsum([0, *map(len, parts)], dtype=np.int64),
    }
    if scores := [part.scores for part in parts if part.scores is not None]:
        arrays["scores"] = np.concatenate(scores).astype(np.float32)
    if labels := [part.labels for part in parts if part.labels is not None]:
        arrays["label_ids"] = np.concatenate([part.ids for part in labels]).astype(np.uint16)
        arrays["label_probs"] = np.concatenate([part.probs for part in labels]).astype(np.float16)
    if frames := [part.frames for part in parts if part.frames is not None]:
        arrays["frames"] = np.concatenate(frames).astype(np.int32)
    if grids := [part.grid for part in parts if part.grid is not None]:
        shapes = [(0, *grid.shape[:2]) if grid.ndim == 3 else grid.shape[:3] for grid in grids]
        arrays["grids"] = np.concatenate([grid.reshape(-1, grid.shape[-1]) for grid in grids]).astype(np.float16)
        arrays["grid_shapes"] = np.array(shapes, dtype=np.int32)  # frames (0: a photograph), rows, columns
        arrays["grid_offsets"] = np.cumsum([0, *(grid[..., 0].size for grid in grids)], dtype=np.int64)
    if probs := [part.class_probs for part in parts if part.class_probs is not None]:
        arrays["class_probs"] = np.concatenate(probs).astype(np.float16)
    if vectors := [part.image_vector for part in parts if part.image_vector is not None]:
        arrays["image_vectors"] = np.stack(vectors).astype(np.float16)
    for number, maps in enumerate(zip(*(part.maps for part in parts), strict=True)):
        arrays[f"map{number}"] = np.concatenate([each.values.reshape(-1, each.values.shape[2]) for each in maps])
        arrays[f"map{number}_shapes"] = np.array([each.values.shape[:2] for each in maps], dtype=np.int32)
        arrays[f"map{number}_levels"] = np.array([(each.scale, each.zero) for each in maps], dtype=np.float64)
    if temporal := [part.temporal for part in parts if part.temporal is not None]:
        arrays["temporal"] = np.concatenate(temporal).astype(np.float16)
        arrays["temporal_offsets"] = np.cumsum([0, *map(len, temporal)], dtype=np.int64)
    classes = labels[0].names if labels else ()
    names = {"classes": json.dumps(classes)} | ({"class_names": json.dumps(parts[0].class_names)} if probs else {})
    return save(arrays, {"image_ids": json.dumps(list(images)), **names})


def _image_ids(shard: Path) -> list[str]:
    try:
        with safe_open(require_regular(shard), framework="numpy") as file:  # checks the header against the file's size
            image_ids: list[str] = json.loads(file.metadata()["image_ids"])
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DeixisError(f"{shard} is damaged ({error}). Delete it and run 'deixis features' again.") from None
    return image_ids


def _map_shard(shard: Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, tuple[str, ...]]]:
    """Memory-map the arrays of a shard; return them and the names of classes."""
    # Copy-on-write: torch needs writable arrays, and the file must not change.
    data = np.memmap(shard, dtype=np.uint8, mode="c").view(np.ndarray)
    start = 8 + int(data[:8].view("<u8")[0])
    header: dict[str, Any] = json.loads(data[8:start].tobytes())
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            low, high = (start + offset for offset in entry["data_offsets"])
            arrays[name] = data[low:high].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    metadata = header["__metadata__"]  # shards of version 0.1 have no "class_names"
    return arrays, {name: tuple(json.loads(metadata.get(name, "[]"))) for name in ("classes", "class_names")}


def _grid(arrays: Mapping[str, npt.NDArray[Any]], row: int) -> npt.NDArray[np.floating] | None:
    if "grids" not in arrays:
        return None
    start, end = arrays["grid_offsets"][row : row + 2]
    frames, rows, columns = arrays["grid_shapes"][row]
    cells = arrays["grids"][int(start) : int(end)]
    return cells.reshape(*((frames,) if frames else ()), rows, columns, cells.shape[1])


def _maps(arrays: Mapping[str, npt.NDArray[Any]], row: int) -> tuple[ByteGrid, ...]:
    """Return the grids of one image."""
    found: list[ByteGrid] = []
    while f"map{len(found)}" in arrays:
        name = f"map{len(found)}"
        shapes = arrays[f"{name}_shapes"]
        start = int(shapes[:row].prod(1, dtype=np.int64).sum())
        height, width = (int(length) for length in shapes[row])
        cells = arrays[name][start : start + height * width]
        scale, zero = arrays[f"{name}_levels"][row]
        found.append(ByteGrid(cells.reshape(height, width, -1), float(scale), int(zero)))
    return tuple(found)


def _temporal(arrays: Mapping[str, npt.NDArray[Any]], row: int) -> npt.NDArray[np.floating] | None:
    if "temporal" not in arrays:
        return None
    start, end = arrays["temporal_offsets"][row : row + 2]
    return arrays["temporal"][int(start) : int(end)]


# Refusals ---------------------------------------------------------------------------------------------------------


def _lock(path: Path, part: str) -> list[IO[bytes]]:
    """Open and lock the lock files of a store; a writer of a part shares that of the whole store."""
    files = [lock(path / "lock", shared=bool(part)), lock(path / f"lock{part}") if part else None]
    held = [file for file in files if file is not None]
    if len(held) < 1 + bool(part):
        for file in held:
            file.close()
        raise DeixisError(f"another process is writing to {path}. Wait for it, or choose another store.")
    return held


def _refuse_other(path: Path, found: Contents, wanted: Contents) -> None:
    if (found.extractor, found.description) != (wanted.extractor, wanted.description):
        differing = differences(found.description, wanted.description)
        raise DeixisError(
            f"{path} has regions of extractor {found.extractor}, not of {wanted.extractor} "
            f"(different: {', '.join(differing)}). Choose another store."
        )
    if found.settings != wanted.settings:
        differing = differences(found.settings, wanted.settings)
        raise DeixisError(
            f"{path} was written with other settings ({', '.join(differing)}). Use the same settings, or another store."
        )
