"""Options of the verbs for many images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deixis.errors import UsageError


@dataclass(frozen=True)
class EngineOptions:
    """Where the images of a corpus are processed."""

    engine: Literal["local", "ray"] = "local"  # this process, or actors of Ray (pip install 'deixis[ray]')
    address: str | None = None  # of a Ray cluster, such as auto or ray://HOST:10001; if not given, Ray starts here
    actors: int = 1  # processes of Ray; each loads the models once
    actor_cpus: float = 1  # cores of an actor
    actor_gpus: float = 0  # GPUs of an actor, .5 for two actors on one GPU; with 0 an actor uses the CPU
    batch: int = 16  # images per pass of the networks
    shard: str = "1/1"  # i/n: only part i of n of the images, for n runs on one or several machines

    def check(self) -> None:
        """Raise an error if the options are not valid together."""
        if min(self.batch, self.actors) < 1 or self.actor_cpus <= 0 or self.actor_gpus < 0:
            raise UsageError("--batch and --actors must be at least 1, --actor-cpus above 0, --actor-gpus 0 or more.")
        ray = (self.address, self.actors, self.actor_cpus, self.actor_gpus)
        if self.engine == "local" and ray != (None, 1, 1, 0):
            raise UsageError("--address, --actors, --actor-cpus and --actor-gpus need --engine ray.")


@dataclass(frozen=True)
class CorpusOptions(EngineOptions):
    """Options of the verbs that write results in parts."""

    parts: Path | None = None  # folder of results in parts, one row per image; the other options here need it
    format: Literal["jsonl", "parquet"] = "jsonl"  # of the parts
    part_rows: int = 512  # rows of a part; a killed run repeats at most this many images per process

    def check(self) -> None:
        """Raise an error if the options are not valid together."""
        if self.parts is None:
            raise UsageError("--engine, --shard and the other options for many images need --parts FOLDER.")
        if self.part_rows < 1:
            raise UsageError("--part-rows must be at least 1.")
        super().check()
