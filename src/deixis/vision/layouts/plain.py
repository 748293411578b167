"""Plain layout of region features, for programs that compute their own: one ``.npz`` per image, or ``.parquet`` files.

Arrays of an image, in our box convention (end-exclusive corners in pixels of the original image):

``boxes [N, 4]``, ``features [N, D]``, ``size [2]`` (width, height); optionally ``image_id``, ``scores [N]``,
``class_probs [N, C]``, ``grid [H, W, D']`` (video: ``[F, H, W, D']``), ``image_vector [V]``, ``temporal [T, D'']``,
``frames [N]``

``npz``: a folder of files with these keys; without ``image_id`` the file name is the id. ``layout.json`` in the folder
has ``{"format", "extractor": {"name", "description"}, "class_names": [...]}``; all of it is optional.
``parquet``: one row per image; arrays are flat lists, ``grid_shape`` and ``temporal_shape`` have their shapes. The
value of ``layout.json`` is in the metadata of the file under the key ``deixis``.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deixis.data.hdf5 import MAX_ARRAY
from deixis.data.reading import BadFile, BadRecord, read_json
from deixis.errors import DeixisError
from deixis.files import atomic_folder, atomic_path, require_regular, write_atomic
from deixis.types import Json, Regions
from deixis.vision.layouts.records import (
    Array,
    Files,
    ImportOptions,
    Record,
    Source,
    bounded,
    load_array,
    numbers,
    require_package,
)
from deixis.vision.store import FeatureStore

FORMAT = "deixis-regions-1"
ROWS = 16
"""Images of a Parquet file that are in memory at a time."""
MAX_VALUES = 2**30
"""Maximum numbers of a column in one row group of a Parquet file."""
_PARTS = ("scores", "class_probs", "grid", "image_vector", "temporal", "frames")

Arrays = dict[str, Array]


def open_npz(path: Path, options: ImportOptions) -> Source:
    """Open a folder (or an archive) of ``.npz`` files, or one such file."""
    about = path / "layout.json" if path.is_dir() else path.with_name("layout.json")
    layout = _layout(read_json(about) if about.is_file() else {}, about)
    files = Files(path, (".npz",))

    def arrays() -> Iterator[tuple[str, Callable[[], Arrays]]]:
        if path.is_file() and path.suffix == ".npz":
            yield path.stem, lambda: _read_npz(bounded(path), path.name)
            return
        for name, read in files.stream():
            yield name, lambda name=name, read=read: _read_npz(read(), f"{name}.npz")  # type: ignore[misc]

    return _source(path, "npz", layout, arrays, options)


def open_parquet(path: Path, options: ImportOptions) -> Source:
    """Open one Parquet file, or a folder of them."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise DeixisError(f"{path} has no .parquet files.")
    parquet = require_package("pyarrow.parquet", files[0])

    def opened(file: Path) -> Any:
        try:
            return parquet.ParquetFile(require_regular(file))
        except Exception as error:  # pyarrow has error types of its own
            raise BadFile(file, f"not a Parquet file ({str(error)[:100]})") from None

    metadata = opened(files[0]).schema_arrow.metadata or {}
    try:
        layout = _layout(json.loads(metadata.get(b"deixis", b"{}")), files[0])
    except (ValueError, RecursionError):
        raise BadFile(files[0], 'its metadata "deixis" is not JSON') from None

    def arrays() -> Iterator[tuple[str, Callable[[], Arrays]]]:
        for file in files:
            for batch in _batches(file, opened(file)):
                for number, row in enumerate(batch.to_pylist()):
                    yield str(row.get("image_id") or f"{file.name}, row {number}"), lambda row=row: _read_row(row)  # type: ignore[misc]

    return _source(path, "parquet", layout, arrays, options)


def _batches(path: Path, file: Any) -> Iterator[Any]:
    """Yield bounded batches of rows; a small file can repeat one number a billion times."""
    for group in map(file.metadata.row_group, range(file.num_row_groups)):
        if max((group.column(index).num_values for index in range(group.num_columns)), default=0) > MAX_VALUES:
            raise BadFile(path, f"a row group has over {MAX_VALUES:,} numbers. Write smaller row groups")
    batches = file.iter_batches(batch_size=ROWS)
    while True:
        try:
            batch = next(batches, None)
        except Exception as error:  # pyarrow has error types of its own
            raise BadFile(path, f"cannot be read ({str(error)[:100]})") from None
        if batch is None:
            return
        if batch.nbytes > MAX_ARRAY:
            raise BadFile(path, f"{ROWS} rows have {batch.nbytes:,} bytes, over {MAX_ARRAY:,}")
        yield batch


def _source(
    path: Path,
    kind: str,
    layout: Json,
    arrays: Callable[[], Iterator[tuple[str, Callable[[], Arrays]]]],
    options: ImportOptions,
) -> Source:
    names = tuple(layout.get("class_names", ()))

    def records(done: Collection[str]) -> Iterator[Record]:
        seen = set(done)
        for name, read in arrays():
            image_id = name
            try:
                found = read()
                image_id = str(found["image_id"]) if "image_id" in found else name
                if image_id not in seen:
                    seen.add(image_id)
                    yield Record(image_id, _regions(found, names))
            except BadRecord as error:
                yield Record(image_id, reason=str(error))

    extractor = layout.get("extractor")
    if extractor is not None:
        return Source(extractor["description"], records, extractor=str(extractor["name"]))
    first = next((record.regions for record in records(()) if record.regions is not None), None)
    if first is None:
        reason = next((record.reason for record in records(())), "it has no files")
        raise BadFile(path, f"no usable record ({reason})")
    description = {
        "version": 1,
        "layout": "plain",
        "backbone": {"name": options.detector or "unknown", "dim": first.features.shape[1]},
        "proposals": {"name": "given", "limit": 1000, "supervision": "unknown"},
    }
    return Source(description, records)


def _layout(value: Any, path: Path) -> Json:
    extractor = value.get("extractor") if isinstance(value, dict) else None
    names = value.get("class_names", []) if isinstance(value, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadFile(path, '"class_names" must be a list of strings')
    if value.get("format", FORMAT) != FORMAT:
        raise BadFile(path, f'the field "format" is not "{FORMAT}"')
    if extractor is not None:
        parts = isinstance(extractor, dict) and isinstance(extractor.get("description"), dict)
        if not parts or not isinstance(extractor.get("name"), str) or not extractor["name"]:
            raise BadFile(path, '"extractor" must have a "name" and a "description"')
    return value


def _regions(arrays: Arrays, names: tuple[str, ...]) -> Regions:
    for name in ("boxes", "features", "size"):
        if name not in arrays:
            raise BadRecord(f"the array '{name}' is missing (found: {', '.join(arrays) or 'none'})")
    size = np.ravel(arrays["size"])
    if size.shape != (2,) or not np.isfinite(size).all() or (size != np.floor(size)).any() or (size < 1).any():
        raise BadRecord(f"'size' is {size.tolist()}, expected width and height")
    boxes = numbers(arrays["boxes"], (None, 4), "boxes")
    n = len(boxes)
    if (boxes[:, 2:] < boxes[:, :2]).any() or (boxes < -1).any() or (boxes[:, 2:] > size + 1).any():
        raise BadRecord(f"a box is not x1, y1, x2, y2 inside the image of {size[0]:g} x {size[1]:g} pixels")
    given = {name: arrays[name] for name in _PARTS if name in arrays}
    if "class_probs" in given and not names:
        raise BadRecord('class_probs need "class_names" in layout.json')
    grid = given.get("grid")
    frames = given.get("frames")
    if frames is not None and (frames.dtype.kind not in "iu" or frames.shape != (n,)):
        raise BadRecord(f"'frames' has shape {list(frames.shape)} of {frames.dtype}, expected [{n}] whole numbers")
    return Regions(
        boxes=boxes,
        features=numbers(arrays["features"], (n, None), "features"),
        size=(int(size[0]), int(size[1])),
        scores=numbers(given["scores"], (n,), "scores") if "scores" in given else None,
        grid=None if grid is None else numbers(grid, (None,) * (4 if grid.ndim == 4 else 3), "grid"),
        frames=frames,
        class_probs=numbers(given["class_probs"], (n, len(names)), "class_probs") if "class_probs" in given else None,
        class_names=names if "class_probs" in given else (),
        image_vector=numbers(given["image_vector"], (None,), "image_vector") if "image_vector" in given else None,
        temporal=numbers(given["temporal"], (None, None), "temporal") if "temporal" in given else None,
    )


def _read_npz(data: bytes, what: str) -> Arrays:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if sum(member.file_size for member in archive.infolist()) > MAX_ARRAY:
                raise BadRecord(f"{what} has over {MAX_ARRAY:,} bytes once unpacked")
    except zipfile.BadZipFile:
        raise BadRecord(f"{what} is not an .npz file") from None
    return {name: load_array(data, what, (name,)) for name in names}


def _read_row(row: Mapping[str, Any]) -> Arrays:
    """Arrays of a row of a Parquet table."""
    try:
        boxes = np.asarray(row["boxes"], np.float32).reshape(-1, 4)
        found: Arrays = {
            "boxes": boxes,
            "features": np.asarray(row["features"], np.float32).reshape(len(boxes), -1),
            "size": np.asarray([row["width"], row["height"]]),
        }
        for name in _PARTS:
            if row.get(name) is not None:
                kind = np.int64 if name == "frames" else np.float32
                found[name] = np.asarray(row[name], kind)
        if "class_probs" in found:
            found["class_probs"] = found["class_probs"].reshape(len(boxes), -1)
        for name in ("grid", "temporal"):
            if name in found:
                found[name] = found[name].reshape(row[f"{name}_shape"])
        return found
    except (KeyError, TypeError, ValueError) as error:
        reason = f"the column {error} is missing" if isinstance(error, KeyError) else str(error)
        raise BadRecord(reason) from None


# Writers ------------------------------------------------------------------------------------------------------------


def write_plain(store: FeatureStore, layout: str, out: Path) -> int:
    """Write a feature store in the plain layout; return the number of images."""
    (write_npz if layout == "npz" else write_parquet)(store.items(), _about(store), out)
    return len(store)


def write_npz(items: Iterable[tuple[str, Regions]], about: Json, out: Path) -> None:
    """Write one ``.npz`` per image and ``layout.json``."""
    with atomic_folder(out) as folder:
        write_atomic(folder / "layout.json", json.dumps(about, indent=1))
        for number, (image_id, regions) in enumerate(items):
            arrays: Json = {"image_id": np.array(image_id)} | _arrays(regions)
            np.savez(folder / f"{number:07d}.npz", **arrays)


def write_parquet(items: Iterable[tuple[str, Regions]], about: Json, out: Path) -> None:
    """Write one Parquet file, in groups of ``ROWS`` images."""
    require_package("pyarrow.parquet", out)
    import pyarrow as pa
    import pyarrow.parquet as pq

    floats = pa.list_(pa.float32())
    schema = pa.schema(
        {
            "image_id": pa.string(),
            **dict.fromkeys(("width", "height"), pa.int32()),
            **dict.fromkeys(("boxes", "features", "scores", "class_probs", "grid", "image_vector", "temporal"), floats),
            **dict.fromkeys(("grid_shape", "temporal_shape", "frames"), pa.list_(pa.int32())),
        },
        metadata={"deixis": json.dumps(about)},
    )
    with atomic_path(out) as path, pq.ParquetWriter(path, schema) as writer:
        rows: list[Json] = []
        for image_id, regions in items:
            rows.append(_row(image_id, regions))
            if len(rows) == ROWS:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows = []
        if rows:
            writer.write_table(pa.Table.from_pylist(rows, schema))


def _about(store: FeatureStore) -> Json:
    first = next(iter(store.values()), None)
    names = list(first.class_names) if first is not None else []
    extractor = {"name": store.extractor, "description": store.contents.description}
    return {"format": FORMAT, "extractor": extractor, "class_names": names}


def _arrays(regions: Regions) -> Arrays:
    found: Arrays = {"boxes": regions.boxes, "features": regions.features, "size": np.array(regions.size)}
    return found | {name: part for name in _PARTS if (part := getattr(regions, name)) is not None}


def _row(image_id: str, regions: Regions) -> Json:
    arrays = _arrays(regions)
    width, height = arrays.pop("size").tolist()
    row: Json = {"image_id": image_id, "width": width, "height": height}
    row |= {
        name: array.ravel() if name == "frames" else array.ravel().astype(np.float32) for name, array in arrays.items()
    }
    return row | {f"{name}_shape": list(arrays[name].shape) for name in ("grid", "temporal") if name in arrays}
