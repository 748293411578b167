"""Work without a model, for tests of the engines; actors of Ray import this module."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deixis.corpus.options import CorpusOptions
from deixis.corpus.run import run_corpus
from deixis.corpus.sources import Item
from deixis.corpus.work import Answer
from deixis.pipelines.photo import Photo
from deixis.types import Json


@dataclass(frozen=True)
class SizeWork:
    """The width of each image. The process dies before image ``die``."""

    die: str = ""

    def about(self) -> Json:
        return {"verb": "size"}

    def load(self) -> Answer:
        def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            if any(item.image == self.die for item in items):
                os.kill(os.getpid(), signal.SIGKILL)
            return [
                {"image": photo.name, "width": photo.image.width, "caption": item.caption}
                for photo, item in zip(photos, items, strict=True)
            ]

        return answer


@dataclass(frozen=True)
class DieOnce(SizeWork):
    """The first process that comes to image ``die`` dies. ``loads`` gets a file for each process that loads."""

    loads: Path = Path()

    def load(self) -> Answer:
        (self.loads / str(os.getpid())).touch(exist_ok=False)  # fails where a process loads twice
        size, died = SizeWork().load(), self.loads / "died"

        def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            if any(item.image == self.die for item in items) and not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return size(photos, items)

        return answer


@dataclass(frozen=True)
class KillDriver(SizeWork):
    """At image ``die``, kill the driver; that image never has an answer, so no driver can finish before."""

    driver: int = 0

    def load(self) -> Answer:
        size = SizeWork().load()

        def answer(photos: Sequence[Photo], items: Sequence[Item]) -> list[Json]:
            if any(item.image == self.die for item in items):
                os.kill(self.driver, signal.SIGKILL)
                time.sleep(3600)  # Ray ends the actors of a dead driver
            return size(photos, items)

        return answer


def drive(die: str, source: str, options: CorpusOptions) -> None:
    """Run a driver that is killed at image ``die``."""
    for _ in run_corpus(KillDriver(die, os.getpid()), [source], options):
        pass
