"""Extract regions of many images in several worker processes; a worker that dies is replaced."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from deixis.clips import frame_files
from deixis.data import Sample, Segment, scenes
from deixis.errors import DeixisError
from deixis.images import load_image
from deixis.threads import COUNTS, OF_NUMPY, available_cores
from deixis.types import Regions
from deixis.vision.store import Contents

if TYPE_CHECKING:
    from deixis.vision.extractor import RegionExtractor
    from deixis.vision.grid_extractor import GridExtractor

    Extractor = RegionExtractor | GridExtractor

AHEAD = 2
"""Batches of a worker at a time: one in progress and one queued."""
ATTEMPTS = 2
"""Attempts of a job whose worker died, for example because the system had no memory."""


def processes_for(asked: int | None, images: int) -> int:
    """Return the number of worker processes: the given number, or one per core if there are enough images."""
    if asked is not None:
        return max(1, min(asked, images))
    return available_cores() if images >= MIN_IMAGES_FOR_WORKERS else 1


MIN_IMAGES_FOR_WORKERS = 24
"""Minimum number of images; a process takes up to seconds to import its libraries and to load its networks."""


@dataclass(frozen=True)
class Job:
    """One image, or one video segment.

    A job is sent to a worker, so it is small: it names what the worker opens.
    """

    image_id: str
    paths: tuple[Path, ...]  # the image file, or the files of the sample; none: a made scene with this id
    sample: Sample | None = None  # of a video segment


def clip_job(path: Path, image_id: str) -> Job:
    """Job of a whole clip: a video file or a folder of frames."""
    segment = Segment(0.0, math.inf, math.inf, path)
    return Job(image_id, (path,), Sample(image_id, (), frames=frame_files(path), segment=segment))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The regions of a job, or the reason why there are none."""

    job: Job
    regions: Regions | None = None
    reason: str = ""


Attempt = tuple[Job, int]
"""A job and the number of its attempt, from 1."""


class Workers:
    """Worker processes with one extractor each; ``make`` is picklable and runs in the workers.

    ``contents`` describes the extractor; ``deaths`` lists the causes of death of replaced workers. Only the workers
    import the extractor, and torch only if it needs torch. ``batch`` images pass its networks together.
    """

    def __init__(self, make: Callable[[], Extractor], processes: int, batch: int = 1) -> None:
        self._make, self._batch = make, batch
        self._members: list[_Member] = []
        self.deaths: list[str] = []
        try:
            for _ in range(processes):  # start all workers before waiting for the first
                self._members.append(_Member(make))
            self.contents, *_ = (member.read_contents() for member in self._members)
        except BaseException:
            self.close()
            raise

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Yield the outcome of every job, in order of completion."""
        waiting = deque((job, 1) for job in jobs)  # with the number of the attempt
        while True:
            for member in self._members:
                while waiting and len(member.batches) < AHEAD:
                    member.give(self._next_batch(waiting))
            busy = [member for member in self._members if member.batches]
            if not busy:
                return
            ready = wait([member.connection for member in busy])
            for member in busy:
                if member.connection not in ready:
                    continue
                try:
                    outcomes = member.take()
                except (EOFError, OSError):
                    yield from self._replace(member, waiting)
                else:
                    yield from outcomes

    def _next_batch(self, waiting: deque[Attempt]) -> list[Attempt]:
        """Take a batch; a job whose worker died is alone in its batch."""
        batch = [waiting.popleft()]
        while waiting and len(batch) < self._batch and batch[0][1] == waiting[0][1] == 1:
            batch.append(waiting.popleft())
        return batch

    def _replace(self, member: _Member, waiting: deque[Attempt]) -> Iterator[Outcome]:
        """Replace a dead worker; jobs that it had not begun return to the front of the queue."""
        cause = member.cause_of_death()
        self.deaths.append(cause)
        begun, *rest = member.batches
        waiting.extendleft(reversed([each for batch in rest for each in batch]))
        for job, attempt in reversed(begun):
            if attempt < ATTEMPTS:
                waiting.appendleft((job, attempt + 1))
            else:
                yield Outcome(job, reason=f"its worker process died {ATTEMPTS} times ({cause})")
        self._members.remove(member)
        self._members.append(_Member(self._make))
        self._members[-1].read_contents()

    def close(self) -> None:
        """Stop the processes."""
        for member in self._members:
            member.end()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Member:
    """Handle of one worker process."""

    def __init__(self, make: Callable[[], Extractor]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(other, make), daemon=True)
        with _one_thread():
            self.process.start()
        other.close()
        self.batches: deque[list[Attempt]] = deque()

    def read_contents(self) -> Contents:
        """Return the description of the extractor; raise the worker's error if it has none."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise DeixisError(
                f"a worker process could not start ({self.cause_of_death()}). Use fewer --processes."
            ) from None
        if isinstance(answer, DeixisError):
            raise answer
        assert isinstance(answer, Contents)
        return answer

    def give(self, batch: list[Attempt]) -> None:
        self.batches.append(batch)
        with suppress(OSError):  # the worker died: take() detects it, and the jobs are repeated
            self.connection.send([job for job, _ in batch])

    def take(self) -> list[Outcome]:
        outcomes: list[Outcome] = self.connection.recv()
        self.batches.popleft()
        return outcomes

    def cause_of_death(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        if code is None:
            return "closed pipe"
        if code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name
        return f"{name}, possibly out of memory" if -code == signal.SIGKILL else name

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that are started here use one thread each, because together they use all cores."""
    before = {name: os.environ.get(name) for name in (*COUNTS, OF_NUMPY)}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(connection: Connection, make: Callable[[], Extractor]) -> None:
    """Run a worker: send the description of the extractor, then outcomes of jobs until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent stops the workers
    import cv2

    cv2.setNumThreads(1)  # one thread per process, because the processes use all cores
    try:
        extractor = make()
    except DeixisError as error:
        connection.send(error)
        return
    if "torch" in sys.modules:  # only some extractors need it
        sys.modules["torch"].set_num_threads(1)
    connection.send(contents_of(extractor))
    while True:
        try:
            jobs: list[Job] = connection.recv()
            connection.send(outcomes_of(extractor, jobs))
        except (EOFError, OSError):
            return


def contents_of(extractor: Extractor) -> Contents:
    """Return what a store says about its extractor."""
    settings = {"grid": extractor.grid} | ({"maps": True} if getattr(extractor, "maps", False) else {})
    return Contents(extractor.name, extractor.description, settings)


def outcomes_of(extractor: Extractor, jobs: Sequence[Job]) -> list[Outcome]:
    """Extract the regions of several jobs, those of image files together; if one fails, one after the other."""
    if len(jobs) > 1 and all(job.paths and job.sample is None for job in jobs):
        with suppress(Exception):  # an image that cannot be read: outcome_of names it
            images = [load_image(job.paths[0]) for job in jobs]
            found = extractor.extract_batch(images, [job.image_id for job in jobs])
            return [Outcome(job, regions) for job, regions in zip(jobs, found, strict=True)]
    return [outcome_of(extractor, job) for job in jobs]


def outcome_of(extractor: Extractor, job: Job) -> Outcome:
    """Extract the regions of one job; errors of an image are returned as a reason, not raised."""
    try:
        sample = scenes.remake(job.image_id) if not job.paths else job.sample
        if sample is None:
            regions = extractor.extract(load_image(job.paths[0]), image_id=job.image_id)
        elif sample.is_video:
            regions = extractor.extract_video(sample.clip().images, job.image_id)
        else:
            regions = extractor.extract(sample.open(), image_id=job.image_id)
        return Outcome(job, regions)
    except (DeixisError, FileNotFoundError) as error:
        return Outcome(job, reason=str(error))
    except Exception as error:  # an error of one image must not stop the others
        name = job.paths[0] if job.paths else job.image_id
        return Outcome(job, reason=f"{name} could not be processed ({type(error).__name__}: {error})")
