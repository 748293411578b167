"""Log of a run: ``log.jsonl`` with one line per epoch, and the best epoch in ``metrics.json``.

Epochs are counted from 1. Files of version 0.1 count from 0 and have "rate" instead of "lr". They are converted when
they are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deixis.files import MAX_FILE, read_text, write_atomic

if TYPE_CHECKING:  # a log can be read without torch
    from deixis.training.types import Line

LOG = "log.jsonl"


def read_log(run: Path) -> list[Line]:
    """Read the log of a run; an empty list if there is none."""
    path = run / LOG
    if not path.exists():
        return []
    return [current_line(json.loads(line)) for line in read_text(path, MAX_FILE).splitlines()]


def current_line(line: Line) -> Line:
    """Convert a line of any version to the current format."""
    if "lr" in line:
        return line
    renamed = {"lr" if name == "rate" else name: value for name, value in line.items()}
    return renamed | {"epoch": line["epoch"] + 1}


def append_line(run: Path, line: Line) -> None:
    """Append the line of an epoch."""
    with (run / LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def cut_log(run: Path, step: int) -> None:
    """Remove the lines after a step, written by an interrupted run after its last checkpoint."""
    path = run / LOG
    if path.exists():
        text = read_text(path, MAX_FILE)
        lines = [line for each in text.splitlines() if (line := _parsed(each)) is not None and line["step"] <= step]
        kept = "".join(json.dumps(line) + "\n" for line in lines)
        if kept != text:
            write_atomic(path, kept)


def _parsed(text: str) -> Line | None:
    """Parse a line of the log; None if it is incomplete."""
    try:
        line = current_line(json.loads(text))
        return line if isinstance(line["step"], int) else None
    except (ValueError, KeyError, TypeError):
        return None


def best_epoch(metrics: Mapping[str, Any]) -> int | None:
    """Best epoch (from 1) in ``metrics.json`` of any version; None if missing."""
    if "best_epoch" in metrics:
        return int(metrics["best_epoch"])
    return int(metrics["epoch"]) + 1 if "epoch" in metrics else None
