"""Many images through one extractor, in several processes that may die without taking the work with them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from deixis.errors import DeixisError
from deixis.images import load_image
from deixis.types import Regions
from deixis.vision.store import Contents

if TYPE_CHECKING:
    from deixis.vision.extractor import RegionExtractor

AHEAD = 2
"""Jobs that a worker has at a time: the next one waits at its door while it works on the first."""
ATTEMPTS = 2
"""A job whose worker died is tried again in a new one, so that it does not pay for the system's lack of memory."""


def processes_for(asked: int | None, images: int) -> int:
    """Return the number of worker processes: as asked, or one per core where there are enough images."""
    if asked is not None:
        return max(1, min(asked, images))
    return available_cores() if images >= MIN_IMAGES_FOR_WORKERS else 1


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


MIN_IMAGES_FOR_WORKERS = 24
"""A process takes seconds to import torch: with fewer images it does not pay."""


@dataclass(frozen=True)
class Job:
    """One image, or the frames of one video segment."""

    image_id: str
    paths: tuple[Path, ...]
    video: bool = False


@dataclass(frozen=True, eq=False)
class Outcome:
    """The regions of a job, or the reason why there are none."""

    job: Job
    regions: Regions | None = None
    reason: str = ""


class Workers:
    """Processes with an extractor each. ``make`` is sent to them and must be picklable; it runs there, not here.

    ``contents`` is what the extractor says of itself; ``deaths`` says of what workers died that had to be replaced.
    This process needs no torch: workers import it for themselves.
    """

    def __init__(self, make: Callable[[], RegionExtractor], processes: int) -> None:
        self._make = make
        self._members: list[_Member] = []
        self.deaths: list[str] = []
        try:
            for _ in range(processes):  # all are started before the first is waited for
                self._members.append(_Member(make))
            self.contents, *_ = (member.greeting() for member in self._members)
        except BaseException:
            self.close()
            raise

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The outcome of every job, in the order in which they are done."""
        waiting = deque((job, 1) for job in jobs)  # with the number of the attempt
        while True:
            for member in self._members:
                while waiting and len(member.jobs) < AHEAD:
                    member.give(*waiting.popleft())
            busy = [member for member in self._members if member.jobs]
            if not busy:
                return
            ready = wait([member.connection for member in busy])
            for member in busy:
                if member.connection not in ready:
                    continue
                try:
                    outcome = member.take()
                except (EOFError, OSError):
                    yield from self._bury(member, waiting)
                else:
                    yield outcome

    def _bury(self, member: _Member, waiting: deque[tuple[Job, int]]) -> Iterator[Outcome]:
        """Put a new worker in the place of a dead one; what it had not begun goes back to the front of the queue."""
        cause = member.cause_of_death()
        self.deaths.append(cause)
        (job, attempt), *rest = member.jobs
        waiting.extendleft(reversed(rest))
        if attempt < ATTEMPTS:
            waiting.appendleft((job, attempt + 1))
        else:
            yield Outcome(job, reason=f"its worker process died {ATTEMPTS} times ({cause})")
        self._members.remove(member)
        self._members.append(_Member(self._make))
        self._members[-1].greeting()

    def close(self) -> None:
        """End the processes."""
        for member in self._members:
            member.end()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Member:
    """One worker process, seen from here."""

    def __init__(self, make: Callable[[], RegionExtractor]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(other, make), daemon=True)
        self.process.start()
        other.close()
        self.jobs: deque[tuple[Job, int]] = deque()

    def greeting(self) -> Contents:
        """What the extractor says of itself; the worker's own error where there is no extractor."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise DeixisError(f"a worker process could not start ({self.cause_of_death()}); is memory short?") from None
        if isinstance(answer, DeixisError):
            raise answer
        assert isinstance(answer, Contents)
        return answer

    def give(self, job: Job, attempt: int) -> None:
        self.jobs.append((job, attempt))
        with suppress(OSError):  # it has died: take() will find out, and the job is tried again
            self.connection.send(job)

    def take(self) -> Outcome:
        outcome = self.connection.recv()
        assert isinstance(outcome, Outcome)
        self.jobs.popleft()
        return outcome

    def cause_of_death(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        if code is None:
            return "it closed its pipe"
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name
        return f"{name}, perhaps for want of memory" if -code == signal.SIGKILL else name

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


def _work(connection: Connection, make: Callable[[], RegionExtractor]) -> None:
    """The life of a worker: say what the extractor is, then answer jobs until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what ends
    import cv2
    import torch

    # One thread each: processes share the cores, threads inside them would only fight over these.
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        extractor = make()
    except DeixisError as error:
        connection.send(error)
        return
    connection.send(Contents(extractor.name, extractor.description, {"grid": extractor.grid}))
    while True:
        try:
            job: Job = connection.recv()
            connection.send(outcome_of(extractor, job))
        except (EOFError, OSError):
            return


def outcome_of(extractor: RegionExtractor, job: Job) -> Outcome:
    """The regions of one job, or why there are none: whatever is wrong with an image, it is told, never raised."""
    try:
        images = [load_image(path) for path in job.paths]
        if job.video:
            regions = extractor.extract_video(images, job.image_id)
        else:
            regions = extractor.extract(images[0], image_id=job.image_id)
        return Outcome(job, regions)
    except DeixisError as error:
        return Outcome(job, reason=str(error))
    except Exception as error:  # whatever one image does, the others go on
        return Outcome(job, reason=f"{job.paths[0]} could not be processed ({type(error).__name__}: {error})")
