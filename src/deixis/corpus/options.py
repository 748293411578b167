"""Options of the verbs for many images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.errors import UsageError


@dataclass(frozen=True)
class CorpusOptions:
    """Options of the verbs for many images."""

    parts: Path | None = None  # folder of results in parts, one row per image; needed by the options below
    format: Literal["jsonl", "parquet"] = "jsonl"  # of the parts
    part_rows: int = 512  # rows of a part; a killed run repeats at most this many images per process
    batch: int = 16  # images per pass of the networks
    shard: str = "1/1"  # i/n: only part i of n of the images, for n runs on one or several machines

    def given(self) -> bool:
        """Whether results are written in parts; raise an error if only other options are given."""
        if self.parts is None and self != CorpusOptions():
            raise UsageError("--shard and the other options for many images need --parts FOLDER.")
        if min(self.part_rows, self.batch) < 1:
            raise UsageError("--part-rows and --batch must be at least 1.")
        return self.parts is not None
