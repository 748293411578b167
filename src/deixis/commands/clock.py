"""Where the time and the memory of a verb went."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.table import Column, Table

T = TypeVar("T")


class Clock:
    """Where the time went."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[float, float]] = {}  # seconds that passed, seconds that this process worked

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Count the time of this block to a part."""
        passed, worked = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            before = self.parts.get(part, (0.0, 0.0))
            self.parts[part] = before[0] + time.perf_counter() - passed, before[1] + time.process_time() - worked

    def each(self, part: str, items: Iterator[T]) -> Iterator[T]:
        """The same items; the time that is waited for them counts to a part."""
        while True:
            with self.measure(part):
                item = next(items, None)
            if item is None:
                return
            yield item

    def table(self) -> Table:
        """Seconds of each part, and the most memory that was used."""
        import resource

        table = Table("part", Column("seconds", justify="right"), Column("of work", justify="right"))
        for part, (passed, worked) in self.parts.items():
            table.add_row(part, f"{passed:.2f}", f"{worked:.2f}")
        after = [times for part, times in self.parts.items() if part != "import"]
        table.add_row("all but import", f"{sum(p for p, _ in after):.2f}", f"{sum(w for _, w in after):.2f}")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        megabytes = peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6  # macOS counts bytes, Linux kibibytes
        table.add_section()
        table.add_row("most memory", f"{megabytes:.0f} MB", "")
        return table
