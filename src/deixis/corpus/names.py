"""Set of image names in 8 to 12 bytes each: sorted 64-bit hashes, so that millions of names fit in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

MERGE = 2**14
"""New names from which they are merged into the sorted array; with more names, a sixteenth of their number."""


class Names:
    """Set of names. Of a million names, two have the same hash with a probability of 3e-8."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._sorted: npt.NDArray[np.uint64] = np.empty(0, dtype=np.uint64)
        self._new: set[int] = set()
        for name in names:
            self.add(name)

    def add(self, name: str) -> bool:
        """Add a name; return whether it is new."""
        value = _hash(name)
        if self._has(value):
            return False
        self._new.add(value)
        if len(self._new) >= max(MERGE, len(self._sorted) // 16):
            new = np.fromiter(self._new, dtype=np.uint64, count=len(self._new))
            self._sorted = np.sort(np.concatenate([self._sorted, new]))
            self._new = set()
        return True

    def __contains__(self, name: str) -> bool:
        return self._has(_hash(name))

    def __len__(self) -> int:
        return len(self._sorted) + len(self._new)

    def _has(self, value: int) -> bool:
        if value in self._new:
            return True
        place = int(np.searchsorted(self._sorted, np.uint64(value)))
        return place < len(self._sorted) and int(self._sorted[place]) == value


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest())
