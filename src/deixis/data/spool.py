"""A sequence on disk: its items are in an anonymous temporary file, so that memory does not grow with their content."""

from __future__ import annotations

import os
import pickle
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Spool(Sequence[T], Generic[T]):
    """Items that are read from disk when they are asked for; an item is a new object each time.

    Memory holds 16 bytes for each item. The file has no name and ends with the process, so that only data of this
    process is unpickled. Several threads may read.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the last reader)
        self._starts, self._lengths = array("q"), array("q")
        at = 0
        for item in items:
            data = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
            self._file.write(data)
            self._starts.append(at)
            self._lengths.append(len(data))
            at += len(data)
        self._file.flush()

    def select(self, wanted: Callable[[T], bool]) -> Spool[T]:
        """Return the items for which ``wanted`` is true; they stay in the same file."""
        kept: Spool[T] = object.__new__(Spool)
        kept._file, kept._starts, kept._lengths = self._file, array("q"), array("q")
        for row, item in enumerate(self):
            if wanted(item):
                kept._starts.append(self._starts[row])
                kept._lengths.append(self._lengths[row])
        return kept

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        data = os.pread(self._file.fileno(), self._lengths[index], self._starts[index])
        item: T = pickle.loads(data)
        return item

    def __iter__(self) -> Iterator[T]:
        return (self[row] for row in range(len(self)))


def kept(items: Sequence[T], wanted: Callable[[T], bool]) -> Sequence[T]:
    """Return the items for which ``wanted`` is true, on disk where the items are."""
    return items.select(wanted) if isinstance(items, Spool) else [item for item in items if wanted(item)]
