"""Cache: its folder, which only the user can read, and a table of texts on disk."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from deixis.errors import DeixisError

PICTURE = "captioned.png"
"""Picture of the last caption, where the terminal shows none."""
OWN_FILES = ("parses-*.sqlite*", "vectors-*.sqlite*", PICTURE, ".partial-*")

_LOOKUP = 500  # keys in one query; SQLite takes no more than 999 everywhere
_CREATE = "CREATE TABLE IF NOT EXISTS texts (key BLOB PRIMARY KEY, crc INTEGER, text BLOB) WITHOUT ROWID"
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_KEEPING: ContextVar[bool] = ContextVar("keeping", default=True)


@contextmanager
def cache_disabled() -> Iterator[None]:
    """Read and write no cache within this block, in this thread: texts of requests are not stored."""
    token = _KEEPING.set(False)
    try:
        yield
    finally:
        _KEEPING.reset(token)


def cache_folder() -> Path:
    """Return the cache folder: ``DEIXIS_CACHE`` if set, else the user's cache folder of the platform.

    It may not exist yet. Files in it can be deleted at any time.
    """
    chosen = os.environ.get("DEIXIS_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "deixis" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "deixis"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deixis"


def make_cache_folder() -> Path:
    """Create the cache folder for this user alone (mode 0700), and return it."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


@dataclass(frozen=True)
class Cleared:
    """What was deleted from the cache."""

    folder: str
    files: int
    bytes: int


def clear_cache() -> Cleared:
    """Delete the files that Deixis keeps in the cache folder; files of others in it stay."""
    folder = cache_folder()
    count = size = 0
    try:
        for file in sorted({file for pattern in OWN_FILES for file in folder.glob(pattern)}):
            if file.is_file() and not file.is_symlink():
                size += file.stat().st_size
                file.unlink()
                count += 1
    except OSError as error:
        raise DeixisError(f"{folder} cannot be cleared ({error.strerror}). Delete it by hand.") from None
    return Cleared(str(folder), count, size)


class TextCache:
    """Table from names to texts in one SQLite file; several processes may use it at once.

    A damaged entry counts as absent; a damaged file is replaced. A file that cannot be used (full disk, no permission)
    is reported once on stderr; the cache then stays empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._usable = True

    def read(self, names: Iterable[str]) -> dict[str, str]:
        """Return the texts of those names that are in the table."""
        keys = {_key(name): name for name in names}
        found: dict[str, str] = {}
        wanted = list(keys)

        def lookup(table: sqlite3.Connection) -> None:
            for start in range(0, len(wanted), _LOOKUP):
                some = wanted[start : start + _LOOKUP]
                query = f"SELECT key, crc, text FROM texts WHERE key IN ({','.join('?' * len(some))})"
                for key, crc, text in table.execute(query, some):
                    if isinstance(text, bytes) and zlib.crc32(text) == crc:
                        found[keys[key]] = text.decode()

        self._use(lookup)
        return found

    def write(self, texts: Mapping[str, str]) -> None:
        """Write the texts in one transaction."""
        rows = [(_key(name), zlib.crc32(data := text.encode()), data) for name, text in texts.items()]
        self._use(lambda table: table.executemany("INSERT OR REPLACE INTO texts VALUES (?, ?, ?)", rows))

    def _use(self, action: Callable[[sqlite3.Connection], object]) -> None:
        """Run an action on the open table; a damaged file is deleted and created again."""
        if not self._usable or not _KEEPING.get():
            return
        try:
            for attempt in (1, 2):
                try:
                    self._prepare()
                    with closing(sqlite3.connect(self.path, timeout=60)) as table, table:
                        table.execute(_CREATE)
                        action(table)
                    return
                except sqlite3.DatabaseError as error:
                    if error.sqlite_errorcode not in _DAMAGED or attempt == 2:
                        raise
                    for file in (self.path, self.path.with_name(f"{self.path.name}-journal")):
                        file.unlink(missing_ok=True)
        except (sqlite3.Error, OSError) as error:
            self._usable = False
            print(f"{self.path} cannot be used ({error}). Parses are not kept for the next run.", file=sys.stderr)

    def _prepare(self) -> None:
        """Create folder and file for this user alone; SQLite gives its journal the mode of the file."""
        folder = make_cache_folder() if self.path.parent == cache_folder() else self.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.path.exists():
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600))
        elif self.path.stat().st_mode & 0o077:
            self.path.chmod(0o600)


def _key(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
