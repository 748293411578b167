"""Bottom-up attention features (P. Anderson and others) in the formats in which they were published.

``*.tsv``                   no header, CRLF: image_id, image_w, image_h, num_boxes, boxes, features; arrays are base64
                            of float32. Later tools add objects_id (int64) and objects_conf (float32)
``X_att``, ``X_fc``, ``X_box``  self-critical training: ``<id>.npz`` with the key ``feat`` or ``z``, ``<id>.npy``; also
                            one ``.h5`` or ``.lmdb`` of the same name
``<split>_ims.npy``         SCAN: ``[N, 36, 2048]``, ids in ``<split>_ids.txt``; no boxes
``<split>_ims.h5``          POS-SCAN: ``feats``; ``boxes`` in ``<split>_ims_box.h5``, names in ``<split>_files.json``
``flickr_det_feat.hdf5``    POS-SCAN: ``image_features``, ``image_bb``; rows as in ``dic_flickr30k.json``

There are 36 regions in each image, or 10 to 100 (adaptive). Regions of files without boxes cover the whole image.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from deixis.data.dictionary import Entry, read_dictionary
from deixis.data.hdf5 import find_array, open_hdf5, read_array
from deixis.data.reading import BadFile, BadRecord, read_json, read_lines
from deixis.errors import DeixisError
from deixis.files import open_regular, open_text, require_regular
from deixis.types import Json, Labels, Regions
from deixis.vision.layouts.records import (
    Files,
    ImportOptions,
    Record,
    Sizes,
    Source,
    count,
    load_array,
    members,
    numbers,
    open_archive,
    require_package,
    to_boxes,
)

MAX_LINE = 64 * 2**20
MAX_BOXES = 1000
PROBED = 16
"""Records that decide whether every image has 36 regions."""
_COLUMNS = ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features")
_LATER = ("image_id", "image_w", "image_h", "objects_id", "objects_conf", "num_boxes", "boxes", "features")
_APPENDED = (*_COLUMNS, "objects_id", "objects_conf")
_LXMERT = (
    *("image_id", "image_h", "image_w", "objects_id", "objects_conf"),
    *("attrs_id", "attrs_conf", "num_boxes", "boxes", "features"),
)

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Image:
    """Arrays of one image as the files have them; ``corners`` are inclusive."""

    features: Floats  # [n, D]
    corners: Floats | None  # [n, 4]
    size: tuple[int, int] | None = None
    name: str = ""  # file name of the photograph
    scores: Floats | None = None
    labels: Labels | None = None
    vector: Floats | None = None


Images = Iterator[tuple[str, Callable[[], _Image]]]
"""Image id, and a function that reads the image."""


def open_bottom_up(path: Path, options: ImportOptions) -> Source:
    """Open bottom-up attention features in any of the published formats."""
    find = _formats(path, options)
    known = _index_sizes(path, options)
    sizes = Sizes(known, options.images)
    return Source(
        _describe(find, options, path),
        lambda done: _records(find(), sizes, done),
        settings={"sizes": "file" if _has_tsv(path) else sizes.source},
        notes=() if _has_tsv(path) else sizes.notes,
    )


def _formats(path: Path, options: ImportOptions) -> Callable[[], Images]:
    """Return the function that lists the images, by the files that are there."""
    folder = path if path.is_dir() else path.parent
    if _has_tsv(path):
        return lambda: _tsv(path, options)
    if _tables(path):
        return lambda: _scan(_tables(path), options)
    detections = path if path.is_file() else path / "flickr_det_feat.hdf5"
    if detections.name.endswith((".hdf5", "det_feat.h5")) and detections.is_file():
        return lambda: _detections(detections, options.index or folder / "dic_flickr30k.json")
    attended = _attended(path)
    if attended is not None:
        return lambda: _parts(attended)
    raise DeixisError(
        f"{path} has no bottom-up features. Expected *.tsv, a folder *_att with *_box, *_ims.npy, *_ims.h5 or "
        "flickr_det_feat.hdf5."
    )


def _describe(find: Callable[[], Images], options: ImportOptions, path: Path) -> Json:
    """Describe the features by their content: size of the features, number of regions."""
    counts, dim = [], 0
    for _, read in itertools.islice(find(), PROBED):
        try:
            image = read()
        except BadRecord:
            continue
        counts.append(len(image.features))
        dim = image.features.shape[1]
    if not counts:
        first = next((read for _, read in find()), None)
        reason = "no records"
        try:
            _ = None if first is None else first()
        except BadRecord as error:
            reason = f"the first record: {error}"
        raise BadFile(path, f"no usable features in its first {PROBED} records ({reason})")
    regions = "36" if set(counts) == {36} else "adaptive"
    return {
        "version": 1,
        "layout": "bottom-up",
        "backbone": {"name": options.detector or "resnet101-vg", "dim": dim, "supervision": "boxes"},
        "proposals": {"name": f"bottom-up-{regions}", "limit": 100, "supervision": "boxes of Visual Genome"},
    }


def _records(images: Images, sizes: Sizes, done: Collection[str]) -> Iterator[Record]:
    seen = set(done)
    for image_id, read in images:
        if image_id in seen:  # the published files have a few images twice
            continue
        seen.add(image_id)
        try:
            yield Record(image_id, _regions(image_id, read(), sizes))
        except BadRecord as error:
            yield Record(image_id, reason=str(error))


def _regions(image_id: str, image: _Image, sizes: Sizes) -> Regions:
    n = len(image.features)
    corners = image.corners if image.corners is not None else np.zeros((n, 4), np.float32)
    if not n or len(corners) != n:
        raise BadRecord(f"{n} features for {len(corners)} boxes")
    size = image.size or sizes.of(image_id, image.name or image_id, corners)
    if (corners[:, 2] > size[0] + 1).any() or (corners[:, 3] > size[1] + 1).any():
        raise BadRecord(f"a box is outside the image of {size[0]} x {size[1]} pixels; check the order of the columns")
    whole = np.tile(np.array([0, 0, *size], np.float32), (n, 1))
    return Regions(
        boxes=whole if image.corners is None else to_boxes(corners, size),
        features=image.features,
        size=size,
        scores=image.scores,
        labels=image.labels,
        image_vector=image.vector,
    )


# TSV ----------------------------------------------------------------------------------------------------------------


def _has_tsv(path: Path) -> bool:
    if path.is_dir():
        return any(_is_tsv(file.name) for file in path.iterdir())
    return _is_tsv(path.name) or path.name.endswith((".tar", ".tar.gz"))


def _is_tsv(name: str) -> bool:
    return re.search(r"\.tsv(\.\d+)?$", name) is not None


def _tsv(path: Path, options: ImportOptions) -> Images:
    names = () if options.classes is None else tuple(line for _, line in read_lines(options.classes))
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.name.endswith((".tar", ".tar.gz")):
            with open_archive(file) as archive:
                for member in members(file, archive):
                    stream = archive.extractfile(member) if member.isfile() and _is_tsv(member.name) else None
                    if stream is not None:
                        yield from _lines(stream, member.name, options, names)
        elif _is_tsv(file.name):
            with open_regular(file) as stream:
                yield from _lines(stream, file.name, options, names)


def _lines(stream: IO[bytes], name: str, options: ImportOptions, names: tuple[str, ...]) -> Images:
    columns: Sequence[str] = tuple(options.columns.split(",")) if options.columns else ()
    number = 0
    while line := stream.readline(MAX_LINE):
        number += 1
        fields = line.rstrip(b"\r\n").split(b"\t")
        if number == 1 and b"features" in fields:
            columns = tuple(field.decode().replace("img_", "image_") for field in fields)
            continue
        if len(fields) < 2 and not fields[0].strip():
            continue
        try:
            order = columns or _order(fields)
            record = dict(zip(order, fields, strict=True))
            image_id = _plain_id(record["image_id"].decode("ascii"))
        except (BadRecord, ValueError, KeyError) as error:
            reason = str(error) if isinstance(error, BadRecord) else f"expected the columns {', '.join(columns)}"
            yield f"{name}, line {number}", _raiser(f"{len(fields)} columns: {reason}")
            continue
        yield image_id, lambda record=record, number=number: _line(record, f"{name}, line {number}", names)  # type: ignore[misc]


def _order(fields: Sequence[bytes]) -> Sequence[str]:
    """Names of the columns of a file without header."""
    if len(fields) == 8:
        return _APPENDED if fields[3].isdigit() else _LATER
    known = {6: _COLUMNS, 10: _LXMERT}
    if len(fields) not in known:
        raise BadRecord("expected 6, 8 or 10 columns, or names with --columns")
    return known[len(fields)]


def _raiser(reason: str) -> Callable[[], _Image]:
    def fail() -> _Image:
        raise BadRecord(reason)

    return fail


def _plain_id(text: str) -> str:
    """Image id; ``COCO_val2014_000000000139`` is ``139``."""
    found = re.fullmatch(r"COCO_\w+_0*(\d+)", text)
    return found[1] if found else text.strip()


def _line(record: Mapping[str, bytes], place: str, names: tuple[str, ...]) -> _Image:
    try:
        size = int(record["image_w"]), int(record["image_h"])
        n = count(int(record["num_boxes"]), MAX_BOXES, f"{place}: num_boxes")
    except (ValueError, KeyError):
        raise BadRecord(f"{place}: image_w, image_h and num_boxes must be whole numbers") from None
    if min(size) < 1 or not n:
        raise BadRecord(f"{place}: an image of {size[0]} x {size[1]} pixels with {n} boxes")
    boxes = _decoded(record, "boxes", np.float32, n, place)
    features = _decoded(record, "features", np.float32, n, place)
    scores = labels = None
    if "objects_conf" in record:
        scores = numbers(_decoded(record, "objects_conf", np.float32, n, place)[:, 0], (n,), "objects_conf")
    if "objects_id" in record and scores is not None:
        labels = _labels(_decoded(record, "objects_id", np.int64, n, place)[:, 0], scores, names)
    return _Image(
        numbers(features, (n, None), f"{place}: features"),
        numbers(boxes, (n, 4), f"{place}: boxes"),
        size,
        scores=scores,
        labels=labels,
    )


def _decoded(record: Mapping[str, bytes], name: str, dtype: type, n: int, place: str) -> npt.NDArray[Any]:
    """Decode a base64 column to an array ``[n, ...]``."""
    try:
        data = base64.b64decode(record[name], validate=True)
    except (binascii.Error, KeyError, ValueError):
        raise BadRecord(f"{place}: the column {name} is not base64") from None
    if not data or len(data) % (n * np.dtype(dtype).itemsize):
        raise BadRecord(f"{place}: the column {name} has {len(data)} bytes, which are not {n} rows of {dtype.__name__}")
    return np.frombuffer(data, dtype=dtype).reshape(n, -1)


def _labels(ids: npt.NDArray[np.int64], scores: Floats, names: tuple[str, ...]) -> Labels:
    names = names or tuple(f"class {i}" for i in range(1600))
    if ((ids < 0) | (ids >= len(names))).any():
        raise BadRecord(f"objects_id has numbers outside the {len(names)} classes")
    return Labels(ids[:, None], scores[:, None], names)


# Folders of self-critical training ----------------------------------------------------------------------------------


def _attended(path: Path) -> Path | None:
    """Find the features ``X_att`` (folder, archive, ``.h5`` or ``.lmdb``)."""
    if re.search(r"_att(_\w+)?(\.h5|\.lmdb|\.tar\.gz)?$", path.name):
        return path
    found = [] if not path.is_dir() else [p for p in sorted(path.iterdir()) if re.search(r"_att(\.\w+)*$", p.name)]
    if len(found) > 1:
        raise DeixisError(f"{path} has {', '.join(p.name for p in found)}. Name one of them with --from.")
    return found[0] if found else None


def _parts(attended: Path) -> Images:
    """Yield images from ``X_att`` with their boxes from ``X_box`` and image vectors from ``X_fc``."""
    features = _Table(attended, (".npz", ".npy"))
    boxes, vectors = (_beside(attended, kind) for kind in ("_box", "_fc"))

    def read(name: str, load: Callable[[], Any]) -> _Image:
        found = numbers(load(), (None, None), f"{name} of {attended.name}")
        corners = vector = None
        if boxes is not None:
            table = boxes.find(name)
            if table is None:
                raise BadRecord(f"{boxes.path.name} has no boxes of it")
            if table.ndim != 2 or table.shape[1] < 4 or table.dtype.kind not in "fiu":
                raise BadRecord(f"its boxes have shape {list(table.shape)} of {table.dtype}, expected [n, 4] numbers")
            corners = numbers(table[:, :4].astype(np.float32), (None, 4), "boxes")
        if vectors is not None:
            whole = vectors.find(name)
            if whole is None:
                raise BadRecord(f"{vectors.path.name} has no image vector of it")
            vector = numbers(whole, (None,), "the image vector")
        return _Image(found, corners, vector=vector)

    for name, load in features.stream():
        yield name, lambda name=name, load=load: read(name, load)  # type: ignore[misc]


def _beside(attended: Path, kind: str) -> _Table | None:
    """Find ``X_box`` or ``X_fc`` beside ``X_att``, as a folder, ``.h5`` or ``.lmdb``."""
    stem, _, rest = attended.name.rpartition("_att")
    suffix = re.sub(r"(\.h5|\.lmdb|\.tar\.gz)$", "", rest)
    for end in ("", ".h5", ".lmdb"):
        path = attended.with_name(f"{stem}{kind}{suffix}{end}")
        if path.exists():
            return _Table(path, (".npy",))
    return None


class _Table:
    """Arrays by name in a folder, an archive, an HDF5 file or an LMDB database."""

    def __init__(self, path: Path, suffixes: tuple[str, ...]) -> None:
        self.path, self.files = path, Files(path, suffixes)
        self.h5: Any = None
        self.lmdb: Any = None
        try:
            if path.suffix == ".h5":
                self.h5 = open_hdf5(path)
            elif path.suffix == ".lmdb":
                lmdb = require_package("lmdb", path)
                require_regular(path / "data.mdb" if path.is_dir() else path)
                self.lmdb = lmdb.open(str(path), subdir=path.is_dir(), readonly=True, lock=False, readahead=False)
        except DeixisError:
            raise
        except Exception as error:  # lmdb has error types of its own
            raise BadFile(path, f"cannot be opened ({error})") from None

    def find(self, name: str) -> npt.NDArray[Any] | None:
        """Return the array with this name, or None."""
        if self.h5 is not None:
            array = find_array(self.h5, self.path, name)
            return None if array is None else read_array(array)
        if self.lmdb is not None:
            with self.lmdb.begin() as transaction:
                data = transaction.get(name.encode())
        else:
            data = self.files.find(name)
        return None if data is None else load_array(bytes(data), name, ("feat", "z"))

    def stream(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield names and functions that read the arrays."""
        if self.h5 is not None:
            for name in self.h5:
                yield name, lambda name=name: self.find(name)  # type: ignore[misc]
        elif self.lmdb is not None:
            with self.lmdb.begin() as transaction:
                for key in transaction.cursor().iternext(values=False):
                    if not key.startswith(b"__"):  # lists that lmdbdict keeps
                        yield bytes(key).decode(), lambda key=key: self.find(bytes(key).decode())  # type: ignore[misc]
        else:
            for name, read in self.files.stream():
                yield name, lambda name=name, read=read: load_array(read(), name, ("feat", "z"))  # type: ignore[misc]


# SCAN and POS-SCAN --------------------------------------------------------------------------------------------------


def _tables(path: Path) -> list[Path]:
    """List ``<split>_ims.npy`` and ``<split>_ims.h5``."""
    found = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in found if re.search(r"_ims\.(npy|h5)$", file.name)]


def _scan(tables: Sequence[Path], options: ImportOptions) -> Images:
    for path in tables:
        split = path.name.partition("_ims")[0]
        rows, boxes = _rows(path, "feats"), None
        box_file = path.with_name(f"{split}_ims_box.h5")
        if box_file.is_file():
            boxes = _rows(box_file, "boxes")
            if len(boxes) != len(rows):
                raise BadFile(box_file, f"{len(boxes)} images, but {path.name} has {len(rows)}")
        for row, name in enumerate(_scan_ids(path, split, len(rows), options)):
            yield (
                _plain_id(Path(name).stem),
                lambda row=row, name=name, rows=rows, boxes=boxes: _row(  # type: ignore[misc]
                    rows, boxes, row, name
                ),
            )


def _row(rows: Any, boxes: Any, row: int, name: str) -> _Image:
    corners = (
        None if boxes is None else numbers(np.asarray(read_array(boxes, row)[:, :4], np.float32), (None, 4), "boxes")
    )
    return _Image(numbers(read_array(rows, row), (None, None), f"row {row}"), corners, name=name)


def _rows(path: Path, key: str) -> Any:
    """Open an array of many images without reading it."""
    if path.suffix == ".npy":
        try:
            found: Any = np.load(require_regular(path), mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise BadFile(path, f"not a NumPy array ({error})") from None
    else:
        file = open_hdf5(path)
        found = find_array(file, path, key)
        if found is None:
            raise BadFile(path, f"the array '{key}' is missing (found: {', '.join(file.keys()) or 'none'})")
    if len(found.shape) != 3 or found.dtype.kind != "f":
        raise BadFile(path, f"has shape {list(found.shape)} of {found.dtype}, expected [N, 36, D] floating point")
    return found


def _scan_ids(path: Path, split: str, rows: int, options: ImportOptions) -> list[str]:
    """Image names of the rows: ``<split>_files.json`` or ``<split>_ids.txt``, one per image or per caption."""
    files, listed = path.with_name(f"{split}_files.json"), path.with_name(f"{split}_ids.txt")
    if files.is_file():
        value = read_json(files)
        if not isinstance(value, list) or not all(isinstance(name, str | int) for name in value):
            raise BadFile(files, "expected a list of file names")
        names = [str(name) for name in value]
    elif listed.is_file():
        names = [line for _, line in read_lines(listed)]
        if options.index is not None:
            names = [_karpathy(options.index).get(name, name) for name in names]
    else:
        raise DeixisError(f"{path} needs {listed.name} or {files.name} beside it, with the image of each row.")
    if len(names) == 5 * rows:  # one line for each of five captions
        names = names[::5]
    if len(names) != rows:
        raise DeixisError(f"{path} has {rows} images, but its list has {len(names)} names. Expected as many.")
    return names


def _karpathy(path: Path) -> dict[str, str]:
    """Number of an image in Karpathy's file -> its file name."""
    value = read_json(path, drop=("sentences",))
    images = value.get("images", []) if isinstance(value, dict) else []
    return {str(image["imgid"]): str(image["filename"]) for image in images if {"imgid", "filename"} <= set(image)}


def _detections(path: Path, index: Path) -> Images:
    """POS-SCAN's features of Flickr30k; row i is entry i of the dictionary."""
    entries: tuple[Entry, ...] = read_dictionary(index).entries
    features, boxes = _rows(path, "image_features"), _rows(path, "image_bb")
    if not len(features) == len(boxes) == len(entries):
        raise BadFile(path, f"{len(features)} images and {len(boxes)} boxes for {len(entries)} entries of {index.name}")
    for row, entry in enumerate(entries):
        yield entry.image_id, lambda row=row, entry=entry: _row(features, boxes, row, entry.file)  # type: ignore[misc]


def _index_sizes(path: Path, options: ImportOptions) -> dict[str, tuple[int, int]]:
    """Image sizes from ``cocotalk.json``, ``flickrtalk.json`` or another list of images; --images goes first."""
    folder = path if path.is_dir() else path.parent
    listed = [options.index] if options.index else [*sorted(folder.glob("*talk.json")), folder / "dic_flickr30k.json"]
    if options.images is not None or _has_tsv(path):
        return {}
    known: dict[str, tuple[int, int]] = {}
    for file in listed:
        if file.is_file() and file.suffix == ".json" and "imgid" not in _head(file):
            known |= {e.image_id: e.size for e in read_dictionary(file).entries if e.size is not None}
    return known


def _head(path: Path) -> str:
    with open_text(path, errors="replace") as file:
        return file.read(4096)
