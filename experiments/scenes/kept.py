"""What the experiments of this folder share: lines of runs that are kept, and tables made of them.

Every script has rows and seeds. A run is a line of JSON in a file beside the script; what has its line is not done
again. Tables stand between two marks in a page whose text is written by people.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deixis.show.markdown import between_marks, cell, markdown, signed
from deixis.training.log import read_log

__all__ = [
    "HERE",
    "SEEDS",
    "between_marks",
    "cell",
    "keep",
    "markdown",
    "options",
    "read",
    "read_log",
    "signed",
    "undone",
]

HERE = Path(__file__).parent
SEEDS = (0, 1, 2)

Line = dict[str, Any]  # "row", "seed", "scores" and whatever else belongs to the run


def options(description: str, rows: Sequence[str]) -> argparse.Namespace:
    """``work``, ``rows`` and ``seeds`` from the command line; all rows and seeds if none are named."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps features and models")
    parser.add_argument("--rows", nargs="+", choices=list(rows), default=list(rows))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    return parser.parse_args()


def read(path: Path) -> list[Line]:
    """The lines of the runs that are done."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def keep(path: Path, line: Line) -> None:
    """Add a run."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def undone(path: Path, rows: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Row and seed of the runs that have no line, one seed after the other; looked up when each one's turn comes."""
    for seed in seeds:
        for row in rows:
            if not any((line["row"], line["seed"]) == (row, seed) for line in read(path)):
                yield row, seed
