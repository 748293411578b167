"""Sources of images: folders, globs, list files, parquet files, WebDataset tar shards and fsspec URLs.

:func:`list_items` lists images without opening them, one after the other, so that a list of any length fits in memory.
:func:`load_item` opens one image.
"""

from __future__ import annotations

import glob
import hashlib
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Any

from PIL import Image

from deixis.errors import DeixisError, UsageError, display_name
from deixis.images import MAX_BYTES, load_image
from deixis.photographs import SUFFIXES, images_in

GLOB = "*?["
LISTS = (".txt", ".lst", ".tsv", ".jsonl")
CAPTIONS = (".txt", ".caption")
MAX_TEXT = 2**16  # bytes of a caption in a tar shard
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
    return count == 1 or int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) % count == number - 1


def as_source(path: Path) -> str:
    """Return a path as a source; ``Path`` removes one of the two slashes of a URL."""
    return re.sub(r"^([a-z][a-z0-9+.]+):/(?=[^/])", r"\1://", str(path))


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


def load_item(item: Item) -> Image.Image:
    """Open an image; errors name it."""
    if item.group >= 0:
        value = _column(item.place, item.group, item.column)[item.row]
        value = value.get("bytes") or value.get("path") if isinstance(value, dict) else value
        if isinstance(value, str):  # a path, from the folder of the parquet file
            return _load(_beside(item.place, value))
        if not isinstance(value, bytes) or not value:
            raise DeixisError(f"{item.image}: row {item.row} of column {item.column} has no image.")
        return _named(item, value)
    if item.size >= 0:
        if item.size > MAX_BYTES:
            raise DeixisError(f"{item.image} has {item.size:,} bytes; the limit is {MAX_BYTES:,}.")
        with _open(item.place) as file:
            file.seek(item.offset)
            return _named(item, file.read(item.size))
    return _load(item.place)


def _load(place: str) -> Image.Image:
    if "://" not in place:
        return load_image(place)
    with _open(place) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise DeixisError(f"{place} has more than {MAX_BYTES:,} bytes. Leave it out.")
    return _named(Item(place, place), data)


def _named(item: Item, data: bytes) -> Image.Image:
    """Decode bytes; an error gets the name of the image."""
    try:
        return load_image(data)
    except DeixisError as error:
        raise DeixisError(str(error).replace("the uploaded image", item.image, 1)) from None


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
        with _open(source) as file, tarfile.open(fileobj=file, mode="r:") as tar:
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
        table = file.read_row_group(group, columns=read) if read else None
        ids, captions = (table[name].to_pylist() if table and name else None for name in kept)
        values = table[image].to_pylist() if table is not None and paths else None
        for row in range(file.metadata.row_group(group).num_rows):
            name = str(ids[row]) if ids else values[row] if values and values[row] else f"{source}#{group}.{row}"
            caption = str(captions[row] or "") if captions else ""
            yield Item(name, source, caption, group=group, row=row, column=image)


def _list_file(source: str) -> Iterator[Item]:
    """Lines of a list: a path, a path and a caption with a tab between, or JSON with "image" and "caption"."""
    with _open(source) as file:
        for number, raw in enumerate(file, 1):
            line = raw.decode(errors="replace").strip("\r\n")
            if not line.strip():
                continue
            if line.startswith("{"):
                try:
                    record = json.loads(line)
                    name, caption = str(record["image"]), str(record.get("caption", ""))
                except (ValueError, KeyError, TypeError, RecursionError):
                    reason = 'expected JSON with "image", and "caption" for captions'
                    raise DeixisError(f"{display_name(source)}, line {number}: {reason}.") from None
            else:
                name, _, caption = line.partition("\t")
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
            opened: IO[bytes] = fs.open(path, "rb")
            return opened
        return Path(place).open("rb")
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
        return pyarrow.parquet.ParquetFile(_open(source))
    except (pyarrow.lib.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(f"{display_name(source)} is not a sound parquet file ({reason}).") from None


@lru_cache(maxsize=2)
def _column(source: str, group: int, column: str) -> list[Any]:
    """Values of a column in one row group; images of a group follow one another, so it is read once."""
    values: list[Any] = _parquet_file(source).read_row_group(group, columns=[column])[column].to_pylist()
    return values
