"""Common parts of the readers of published region features: records, arrays, archives, image sizes."""

from __future__ import annotations

import importlib
import io
import math
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from deixis import boxes as geometry
from deixis.data.hdf5 import MAX_ARRAY
from deixis.data.reading import BadFile, BadRecord
from deixis.errors import DeixisError
from deixis.files import BoundedTarInfo, open_regular, read_bytes
from deixis.images import image_size
from deixis.photographs import Photographs
from deixis.types import Json, Regions
from deixis.vision.head import ClassHead

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ImportOptions:
    """Options of an import; each layout uses those that apply to it."""

    images: Path | None = None  # folder of the photographs: image sizes that the files do not have, and --grid
    index: Path | None = None  # file with the image id of each row, if it is not beside the features
    classes: Path | None = None  # names of the detector's classes, one per line, without the background
    glove: Path | None = None  # GloVe vectors (glove.6B.300d.txt): gives the class head the classes of the data set
    training_grid: int = 0  # gvd: cells per side of the maps of training images, cut at random in training: 18 for 16
    threshold: float = 0.2  # gvd: rows need a score above this; others are dropped (photographs) or zeroed (videos)
    background: bool = True  # gvd: keep rows whose class is the background
    columns: str = ""  # bottom-up: names of the columns of a TSV in another order, joined by commas
    data: Path | None = None  # perfect-detector, biased-detector: the data set with the boxes
    epochs: int = 5  # biased-detector: of its classifier
    hidden: int = 0  # biased-detector: width of its hidden layer without a class head; 0: that of the features
    detector: str = ""  # name of the detector that made the features, where the files do not say it


@dataclass(frozen=True, eq=False)
class Record:
    """The regions of one image, or the reason why there are none."""

    image_id: str
    regions: Regions | None = None
    reason: str = ""
    training: bool = False  # whether the source has the image in its training split


@dataclass(frozen=True, eq=False)
class Source:
    """Region features of many images in the files of another program.

    ``records(done)`` yields the images that are not in ``done``, in the order of the files, one at a time.
    """

    description: Json  # of the extractor: what the features are, never where the files are
    records: Callable[[Collection[str]], Iterator[Record]]
    total: int | None = None  # number of images, if it is known before reading
    head: ClassHead | None = None
    extractor: str = ""  # name of the extractor; made from the description if it is empty
    settings: Json = field(default_factory=dict)  # other choices of the reader, such as the source of image sizes
    notes: tuple[str, ...] = ()  # messages for the user


def require_package(name: str, file: Path) -> Any:
    """Import an optional package that reads a file."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise DeixisError(f"{file} needs the package {name}. Install it: pip install 'deixis[formats]'.") from None


# Arrays -------------------------------------------------------------------------------------------------------------


def numbers(value: Any, shape: tuple[int | None, ...], what: str) -> npt.NDArray[np.float32]:
    """Return an array of finite floats with the expected shape (None: any length); raise BadRecord otherwise."""
    array = np.asarray(value)
    wanted = ", ".join("n" if n is None else str(n) for n in shape)
    if array.dtype.kind != "f":
        raise BadRecord(f"{what} has type {array.dtype}, expected floating-point numbers")
    if array.ndim != len(shape) or any(n not in (None, size) for n, size in zip(shape, array.shape, strict=True)):
        raise BadRecord(f"{what} has shape {list(array.shape)}, expected [{wanted}]")
    if not np.isfinite(array).all():
        raise BadRecord(f"{what} has values that are not finite")
    return array.astype(np.float32, copy=False)


def load_array(data: bytes, what: str, keys: tuple[str, ...] = ()) -> Array:
    """Read the bytes of a ``.npy`` file, or of an ``.npz`` file whose array has one of the names ``keys``."""
    try:
        if not data.startswith(b"PK"):
            return _npy(data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            held = {name.removesuffix(".npy"): name for name in archive.namelist()}
            found = next((held[key] for key in keys if key in held), None)
            if found is None:
                raise BadRecord(f"{what} has the keys {', '.join(held) or 'none'}, expected {' or '.join(keys)}")
            if archive.getinfo(found).file_size > MAX_ARRAY:
                raise BadRecord(f"{what} is larger than {MAX_ARRAY:,} bytes")
            return _npy(archive.read(found))
    except BadRecord:
        raise
    except Exception as error:  # damaged headers and archives raise many kinds of error
        raise BadRecord(f"{what} cannot be read ({type(error).__name__}: {str(error)[:100]})") from None


def _npy(data: bytes) -> Array:
    """Read a ``.npy`` file; the header is compared with the number of bytes before memory is allocated."""
    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or size != len(data) - stream.tell():
        raise ValueError(f"{len(data) - stream.tell():,} bytes do not make an array {list(shape)} of {dtype}")
    flat = np.frombuffer(data, dtype=dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def count(value: Any, most: int, what: str) -> int:
    """Return a number of rows between 0 and ``most``."""
    number = float(value)
    if not number.is_integer() or not 0 <= number <= most:
        raise BadRecord(f"{what} is {number:g}, expected a whole number from 0 to {most}")
    return int(number)


# Boxes and sizes ----------------------------------------------------------------------------------------------------


def to_boxes(corners: npt.NDArray[np.float32], size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Convert inclusive corners ``[N, 4]`` of a detector to boxes inside the image."""
    return geometry.clip(geometry.from_zero_based_inclusive(corners), *size).astype(np.float32)


def extent(corners: npt.NDArray[np.float32]) -> tuple[int, int]:
    """Return the size of the smallest image with all of these inclusive corners (the first four columns)."""
    if not len(corners):
        return 1, 1
    right, bottom = np.ceil(corners[:, 2:4].max(0)).astype(int) + 1
    return max(1, int(right)), max(1, int(bottom))


class Sizes:
    """Image sizes from annotations or photographs; without both, the extent of an image's boxes is its size."""

    def __init__(self, known: Mapping[str, tuple[int, int]], images: Path | None) -> None:
        self.known = known
        self.images = None if images is None else Photographs(images)

    @property
    def source(self) -> str:
        """Where sizes come from, for ``store.json``."""
        return "annotation" if self.known else "photographs" if self.images is not None else "extent of the boxes"

    @property
    def notes(self) -> tuple[str, ...]:
        """A message if sizes are estimates."""
        if self.known or self.images is not None:
            return ()
        return ("the files have no image sizes: the extent of an image's boxes is used. Give --images for true sizes.",)

    def of(self, image_id: str, name: str, corners: npt.NDArray[np.float32]) -> tuple[int, int]:
        """Return the width and height of an image; ``name`` is its file name."""
        if image_id in self.known:
            return self.known[image_id]
        if self.images is None:
            if self.known:
                raise BadRecord("the annotation has no size of this image")
            return extent(corners)
        path = self.images.find(name)
        if path is None:
            raise BadRecord(f"{self.images.folder} has no photograph {name}")
        try:
            return image_size(path)
        except DeixisError as error:
            raise BadRecord(str(error)) from None


# Files in a folder or in an archive ---------------------------------------------------------------------------------


class Files:
    """Files of one kind in a folder ``NAME`` or in an archive ``NAME.tar.gz``, by file name without suffix."""

    def __init__(self, path: Path, suffixes: tuple[str, ...] = (".npy",)) -> None:
        self.path, self.suffixes = path, suffixes

    @property
    def archive(self) -> bool:
        """Whether the files are in an archive, which can only be read from its start to its end."""
        return self.path.is_file()

    def find(self, name: str) -> bytes | None:
        """Read one file of a folder; None if it does not exist."""
        for suffix in self.suffixes:
            file = self.path / f"{name}{suffix}"
            if file.is_file():
                return bounded(file)
        return None

    def stream(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """Yield the name of every file, in the order of the archive or of the names, and a function that reads it."""
        if not self.archive:
            if not self.path.is_dir():
                raise DeixisError(f"{self.path} is not a folder or an archive. Name one of them.")
            for file in sorted(self.path.iterdir()):
                if file.suffix in self.suffixes and file.is_file():
                    yield file.stem, lambda file=file: bounded(file)  # type: ignore[misc]
            return
        with open_archive(self.path) as archive:
            for member in members(self.path, archive):
                name = PurePosixPath(member.name)
                if member.isfile() and name.suffix in self.suffixes and not name.name.startswith("."):
                    yield name.stem, lambda member=member: extract(archive, member)  # type: ignore[misc]

    def unpacked(self, folder: Path) -> Files:
        """Return files that can be read in any order; an archive is unpacked into ``folder`` once."""
        if not self.archive:
            return self
        done = folder / "complete"
        if not done.exists():
            folder.mkdir(parents=True, exist_ok=True)
            for name, read in self.stream():
                (folder / f"{name}{self.suffixes[0]}").write_bytes(read())  # a plain name: no path of the archive
            done.touch()
        return Files(folder, self.suffixes)


def find_files(folder: Path, name: str, suffixes: tuple[str, ...] = (".npy",)) -> Files | None:
    """Find the folder ``name`` or its archive ``name.tar.gz`` in a folder."""
    for path in (folder / name, folder / f"{name}.tar.gz", folder / f"{name}.tar"):
        if path.exists():
            return Files(path, suffixes)
    return None


def bounded(path: Path, limit: int = MAX_ARRAY) -> bytes:
    """Read a file of at most ``limit`` bytes."""
    try:
        return read_bytes(path, limit)
    except DeixisError as error:
        raise BadRecord(str(error)) from None


def open_archive(path: Path) -> tarfile.TarFile:
    """Open a ``.tar`` or ``.tar.gz`` archive as a stream."""
    try:
        return tarfile.open(fileobj=open_regular(path), mode="r|*", tarinfo=BoundedTarInfo)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BadFile(path, f"not a tar archive ({error})") from None


def members(path: Path, archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an archive without keeping them; a damaged archive is named."""
    try:
        for member in archive:
            yield member
            archive.members = []  # type: ignore[attr-defined]  # a stream would keep the headers of all members
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BadFile(path, f"the archive is damaged ({error})") from None


def extract(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Read one member of an archive."""
    if member.size > MAX_ARRAY:
        raise BadRecord(f"{member.name} is larger than {MAX_ARRAY:,} bytes")
    file: IO[bytes] | None = archive.extractfile(member)
    return b"" if file is None else file.read()
