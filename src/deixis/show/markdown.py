"""Markdown tables, and pages with generated sections."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path

from deixis.files import read_text, write_atomic


def cell(values: Sequence[float], digits: int = 1) -> str:
    """Write mean ± standard deviation (of a sample); a single value has no deviation."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def signed(marks: Sequence[str]) -> str:
    """Write each signature once, one per line."""
    return "\n".join(f"`{mark}`  " for mark in sorted(set(marks)))


def between_marks(path: Path, tables: str, name: str = "") -> None:
    """Replace the text between two marks of a page, or append marks and text; the rest of the page stays.

    ``name`` distinguishes the places of one page.
    """
    named = f" {name}" if name else ""
    begin, end = f"<!-- table{named} -->", f"<!-- end of table{named} -->"
    whole = f"{begin}\n{tables}\n{end}"
    text = read_text(path) if path.exists() else ""
    if begin not in text:
        text += f"\n{whole}\n" if text else f"{whole}\n"
    else:
        text = re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _: whole, text, flags=re.DOTALL)
    write_atomic(path, text)
