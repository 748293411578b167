"""Sources of images: folders, globs, list files, parquet files, WebDataset tar shards and fsspec URLs.

:func:`list_items` lists images without opening them, one after the other, so that a list of any length fits in memory.
:func:`load_item` opens one image.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import tarfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Any

from PIL import Image

from deixis.errors import DeixisError, UsageError, display_name
from deixis.files import BoundedTarInfo, open_regular
from deixis.images import MAX_PIXELS, load_image
from deixis.photographs import SUFFIXES, images_in

GLOB = "*?["
LISTS = (".txt", ".lst", ".tsv", ".jsonl")
CAPTIONS = (".txt", ".caption")
MAX_TEXT = 2**16  # bytes of a name or a caption
MAX_LINE = 2**20  # bytes of a line of a list file
MAX_IMAGE = 2**28  # bytes of an image that is read as a whole: of a tar file, a parquet file or a URL
MAX_GROUP = 2**30  # bytes of an image column in one row group of a parquet file
IMAGE_COLUMNS = ("image", "bytes", "path", "file", "file_name", "url", "jpg", "png")
ID_COLUMNS = ("id", "image_id", "key", "__key__")
CAPTION_COLUMNS = ("caption", "text", "txt")


@dataclass(frozen=True)
class Item:
    """One image of a source: a file, ``size`` bytes of a tar file from ``offset``, or a row of a parquet file."""

    image: str  # name in the output
    place: str  # path or URL of the file
    caption: str = ""
    offset: int = 0
    size: int = -1  # -1: the whole file
    group: int = -1  # row group of a parquet file; -1: not a parquet file
    row: int = 0  # within the row group
    column: str = ""


def list_items(sources: Sequence[str | Item], shard: tuple[int, int] = (1, 1)) -> Iterator[Item]:
    """Yield the images of all sources; with ``shard`` (i, n), those whose name belongs to part i of n."""
    for source in sources:
        for item in [source] if isinstance(source, Item) else _items(source):
            if in_shard(item.image, shard):
                yield item


def in_shard(name: str, shard: tuple[int, int]) -> bool:
    """Return whether an image belongs to part i of n, by a hash of its name."""
    number, count = shard
    return (
        count == 1
        or int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:8]) % count == number - 1
    )


def as_source(path: Path) -> str:
    """Return a path as a source; ``Path`` removes one of the two slashes of a URL."""
    return re.sub(
        r"^([a-z][a-z0-9+.]+):/(?=[^/])", lambda found: f"{found[1]}://{'/' * (found[1] == 'file')}", str(path)
    )


def is_source(text: str) -> bool:
    """Return whether this is a file, a glob or a URL, and not a folder or the name of a data set."""
    if Path(text).is_dir():  # its name may have the letters of a glob
        return False
    return "://" in text or any(letter in text for letter in GLOB) or Path(text).is_file()


def parse_shard(text: str) -> tuple[int, int]:
    """Read ``i/n``: part i of n, from 1."""
    try:
        number, count = (int(part) for part in text.split("/"))
        if not 1 <= number <= count:
            raise ValueError
    except ValueError:
        raise UsageError(f"--shard {text} is not valid. Use i/n with 1 <= i <= n, for example 3/16.") from None
    return number, count


def load_item(item: Item, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Open an image of at most ``max_pixels``; errors name it."""
    if item.group >= 0:
        value = _value(item)
        value = value.get("bytes") or value.get("path") if isinstance(value, dict) else value
        if isinstance(value, str):  # a path, from the folder of the parquet file
            return _load(_beside(item.place, value), max_pixels)
        if not isinstance(value, bytes) or not value:
            raise DeixisError(f"{item.image}: row {item.row} of column {item.column} has no image.")
        return _decode(item, value, max_pixels)
    if item.size >= 0:
        if item.size > MAX_IMAGE:
            raise DeixisError(f"{item.image} has {item.size:,} bytes; the limit is {MAX_IMAGE:,}.")
        with _open(item.place) as file:
            file.seek(item.offset)
            return _decode(item, file.read(item.size), max_pixels)
    return _load(item.place, max_pixels)


def _load(place: str, max_pixels: int) -> Image.Image:
    if "://" not in place:
        return load_image(place, max_pixels)
    with _open(place) as file:
        data = file.read(MAX_IMAGE + 1)
    return _decode(Item(place, place), data, max_pixels)


def _decode(item: Item, data: bytes, max_pixels: int) -> Image.Image:
    """Decode bytes; an error gets the name of the image."""
    if len(data) > MAX_IMAGE:
        raise DeixisError(f"{item.image} has more than {MAX_IMAGE:,} bytes. Leave it out.")
    try:
        return load_image(data, max_pixels)
    except DeixisError as error:
        raise type(error)(str(error).replace("the uploaded image", item.image, 1)) from None


def _items(source: str) -> Iterator[Item]:
    suffix = PurePosixPath(source).suffix.lower()
    if any(letter in source for letter in GLOB):
        places: Iterable[str] = _glob(source)
        yield from (item for place in places for item in _items(place))
    elif source.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
        raise DeixisError(f"{display_name(source)} is compressed; its members cannot be read one by one. Unpack it.")
    elif suffix == ".tar":
        yield from _tar(source)
    elif suffix == ".parquet":
        yield from _parquet(source)
    elif suffix in LISTS:
        yield from _list_file(source)
    elif "://" not in source and Path(source).is_dir():
        found = False
        for path in images_in(Path(source)):
            found = True
            yield Item(str(path), str(path))
        if not found:
            raise DeixisError(f"{display_name(source)} has no photographs in it, nor in its subfolders.")
    elif "://" in source and suffix not in SUFFIXES:
        yield from (Item(place, place) for place in _glob(source.rstrip("/") + "/**") if _is_image(place))
    else:
        yield Item(source, source)


def _glob(pattern: str) -> list[str]:
    if "://" in pattern:
        fs, path = _filesystem(pattern)
        found = [fs.unstrip_protocol(place) for place in sorted(fs.glob(path))]
    else:
        found = sorted(path for path in glob.glob(pattern, recursive=True) if not Path(path).is_dir())  # noqa: PTH207
    if not found:
        raise DeixisError(f"{pattern} matches no file. Check the pattern.")
    return found


def _tar(source: str) -> Iterator[Item]:
    """Images of a tar file, with the text of the member of the same name (WebDataset)."""
    try:
        with _open(source) as file, tarfile.open(fileobj=file, mode="r:", tarinfo=BoundedTarInfo) as tar:
            members = (member for member in tar if member.isfile())
            for key, group in groupby(members, key=lambda member: _key(member.name)):
                image, caption = None, ""
                for member in group:
                    ending = member.name.removeprefix(key).lower()
                    if ending in SUFFIXES:
                        image = member
                    elif ending in CAPTIONS and member.size <= MAX_TEXT:
                        text = tar.extractfile(member)
                        caption = "" if text is None else text.read().decode(errors="replace").strip()
                if image is not None:
                    name = f"{source}/{image.name}"
                    yield Item(name, source, caption, image.offset_data, image.size)
                tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps all members otherwise
    except tarfile.TarError as error:
        raise DeixisError(f"{display_name(source)} is not a sound tar file ({error}). Make it again.") from None


def _key(name: str) -> str:
    """Name of a member up to the first dot of its last part."""
    folder, _, last = name.rpartition("/")
    stem = last.split(".", 1)[0]
    return f"{folder}/{stem}" if folder else stem


def _parquet(source: str) -> Iterator[Item]:
    file = _parquet_file(source)
    names = file.schema_arrow.names
    image = next((name for name in IMAGE_COLUMNS if name in names), None)
    if image is None:
        raise DeixisError(
            f"{display_name(source)} has no column of images. Expected one of {', '.join(IMAGE_COLUMNS)}."
        )
    kept = [next((name for name in wanted if name in names), "") for wanted in (ID_COLUMNS, CAPTION_COLUMNS)]
    paths = str(file.schema_arrow.field(image).type) in ("string", "large_string")
    read = [name for name in (*kept, image if paths else "") if name]
    for group in range(file.num_row_groups):
        table = {name: _column(source, group, name) for name in read}
        ids, captions = (table.get(name) for name in kept)
        values = table.get(image) if paths else None
        for row in range(file.metadata.row_group(group).num_rows):
            given = _text(source, ids, row) or _text(source, values, row)
            yield Item(
                given or f"{source}#{group}.{row}",
                source,
                _text(source, captions, row),
                group=group,
                row=row,
                column=image,
            )


def _text(source: str, column: Any, row: int) -> str:
    """Text of a row; empty if there is no such column, or no value."""
    value = None if column is None else column[row].as_py()
    text = "" if value is None else str(value)
    if len(text) > MAX_TEXT:
        raise DeixisError(f"{display_name(source)}: a name or caption has over {MAX_TEXT:,} characters.")
    return text


def _list_file(source: str) -> Iterator[Item]:
    """Lines of a list: a path, a path and a caption with a tab between, or JSON with "image" and "caption"."""
    with _open(source) as file:
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
            if len(raw) > MAX_LINE:
                raise DeixisError(
                    f"{display_name(source)}, line {number} has over {MAX_LINE:,} bytes. Expected a path."
                )
            line = raw.strip(b"\r\n")
            if not line.strip():
                continue
            if line.startswith(b"{"):
                try:
                    record = json.loads(line)
                    name, caption = record["image"], record.get("caption", "")
                except (ValueError, KeyError, TypeError, RecursionError):
                    name = caption = None
                if not isinstance(name, str) or not isinstance(caption, str):
                    reason = 'expected JSON with "image", and "caption" for captions'
                    raise DeixisError(f"{display_name(source)}, line {number}: {reason}.")
            else:
                path, _, text = line.partition(b"\t")
                name, caption = os.fsdecode(path), text.decode(errors="replace")  # a path is any bytes
            yield Item(name, _beside(source, name), caption)


def _beside(source: str, name: str) -> str:
    """Place of a name in a list or table: absolute, a URL, or relative to the folder of the file."""
    if "://" in name or name.startswith("/"):
        return name
    return f"{source.rpartition('/')[0]}/{name}" if "/" in source else name


def _is_image(place: str) -> bool:
    return PurePosixPath(place).suffix.lower() in SUFFIXES


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise DeixisError(
            f"{url} needs the package fsspec: pip install fsspec, and its package for this URL."
        ) from None
    try:
        fs, path = fsspec.core.url_to_fs(url)
        return fs, path
    except (ImportError, ValueError) as error:
        raise DeixisError(f"{url} cannot be opened ({error}). Install the package that fsspec names.") from None


def _open(place: str) -> IO[bytes]:
    try:
        if "://" in place:
            fs, path = _filesystem(place)
            if type(fs).__name__ == "LocalFileSystem":
                return open_regular(path)
            opened: IO[bytes] = fs.open(path, "rb")
            return opened
        return open_regular(place)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DeixisError(f"{display_name(place)} cannot be read ({reason}). Check the path.") from None


@lru_cache(maxsize=4)
def _parquet_file(source: str) -> Any:
    try:
        import pyarrow.lib
        import pyarrow.parquet
    except ImportError:
        raise DeixisError(f"{display_name(source)} needs pyarrow: pip install 'deixis[formats]'.") from None
    try:
        file = pyarrow.parquet.ParquetFile(_open(source))
        # a value that all rows share is kept once: a small file may repeat it a million times
        leaves = (file.schema.column(index) for index in range(len(file.schema)))
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        return pyarrow.parquet.ParquetFile(_open(source), metadata=file.metadata, read_dictionary=texts)
    except (pyarrow.lib.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(f"{display_name(source)} is not a sound parquet file ({reason}).") from None


_reading = threading.Lock()  # threads that open images of one group wait for one reading of it


def _value(item: Item) -> Any:
    with _reading:
        column = _column(item.place, item.group, item.column)
    return column[item.row].as_py()


@lru_cache(maxsize=2)
def _column(source: str, group: int, column: str) -> Any:
    """Values of a column in one row group; images of a group follow one another, so it is read once."""
    import pyarrow.lib

    file = _parquet_file(source)
    described = file.metadata.row_group(group)
    leaves = (described.column(index) for index in range(described.num_columns))
    size = sum(leaf.total_uncompressed_size for leaf in leaves if leaf.path_in_schema.split(".")[0] == column)
    if size > MAX_GROUP:
        raise DeixisError(
            f"{display_name(source)}: row group {group} has {size:,} bytes of the column {display_name(column)}. "
            f"Write row groups of at most {MAX_GROUP:,} bytes."
        )
    try:
        return file.read_row_group(group, columns=[column])[column]
    except (pyarrow.lib.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(f"{display_name(source)} is not a sound parquet file ({reason}).") from None
