"""Where the answer of a verb goes: stdout, while its talk goes to stderr."""

from __future__ import annotations

import os
import sys

from rich.console import Console

WIDE = 2000  # columns


def answers(quiet: bool = False) -> Console:
    """A console on stdout; in a pipe it is so wide that nothing of a table is cut off or broken."""
    fitted = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(quiet=quiet, highlight=False, width=None if fitted else WIDE)
