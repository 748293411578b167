"""Measure the recall of a proposal method on a data set, in several processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from deixis.data.sample import Dataset, Sample
from deixis.errors import DeixisError
from deixis.types import Json
from deixis.vision.proposals.base import Proposer
from deixis.vision.proposals.recall import Recall, Targets, best_overlaps, recall, targets

IOUS = (0.5, 0.7)
COUNTED = "every phrase whose entity has a box; several boxes of one entity are one, around them all"

Work = tuple[Sample, Targets]


@dataclass(frozen=True, eq=False)
class Measured:
    """Overlaps of the proposals with the targets of one image."""

    targets: Targets
    overlaps: npt.NDArray[np.float64]  # [T, C], see best_overlaps
    boxes: int  # number of proposals


def images_with_boxes(dataset: Dataset) -> list[Work]:
    """List the images of a split that have targets."""
    return [(sample, wanted) for sample in dataset if len(wanted := targets(sample))]


def measure_images(
    work: Sequence[Work], proposer: Proposer, counts: Sequence[int], processes: int
) -> Iterator[Measured | str]:
    """Yield the overlaps of each image, in order, or the reason why it cannot be used."""
    processes = min(processes, len(work))
    if processes == 1:
        yield from (_measure(proposer, counts, item) for item in work)
        return
    # spawn, not fork: threads of OpenCV and torch do not survive a fork
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _start_worker) as pool:
        try:
            yield from pool.map(partial(_measure, proposer, counts), work, chunksize=4)
        except BrokenProcessPool:
            raise DeixisError("A worker process died, possibly out of memory. Try --processes 1.") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    import cv2

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent stops the workers
    cv2.setNumThreads(1)


def _measure(proposer: Proposer, counts: Sequence[int], item: Work) -> Measured | str:
    sample, wanted = item
    try:
        boxes = proposer.propose(np.asarray(sample.open()), sample.image_id).boxes
    except (DeixisError, FileNotFoundError) as error:
        return str(error)
    return Measured(wanted, best_overlaps(wanted, boxes, counts), len(boxes))


@dataclass(frozen=True, eq=False)
class RecallReport:
    """Recall of a proposal method on a split: over all phrases, by phrase type and by entity."""

    data: str
    split: str
    proposals: Json  # description of the proposer
    counts: tuple[int, ...]
    measured: Sequence[Measured]
    skipped: Sequence[str] = ()  # a reason for each image that could not be used

    @property
    def images(self) -> int:
        """Number of images that were measured."""
        return len(self.measured)

    @property
    def boxes_per_image(self) -> float:
        """Mean number of proposals."""
        return float(np.mean([each.boxes for each in self.measured]))

    @cached_property
    def overlaps(self) -> npt.NDArray[np.float64]:
        """Overlaps ``[T, C]`` of all targets."""
        return np.concatenate([each.overlaps for each in self.measured])

    @cached_property
    def all(self) -> Recall:
        """Recall over all phrases."""
        return recall(self.overlaps, self.counts, IOUS)

    @cached_property
    def by_entity(self) -> Recall:
        """Recall over entities: several phrases of one entity count once."""
        first = np.concatenate([each.targets.first for each in self.measured])
        return recall(self.overlaps[first], self.counts, IOUS)

    @cached_property
    def by_type(self) -> dict[str, Recall]:
        """Recall by phrase type, most frequent type first; a phrase with two types counts for both."""
        types = [kinds for each in self.measured for kinds in each.targets.types]
        rows = {kind: [kind in each for each in types] for kind in {kind for each in types for kind in each}}
        kinds = sorted(rows, key=lambda kind: (-sum(rows[kind]), kind))
        return {kind: recall(self.overlaps[rows[kind]], self.counts, IOUS) for kind in kinds}

    def to_json(self) -> Json:
        """All figures."""
        return {
            "data": self.data,
            "split": self.split,
            "proposals": self.proposals,
            "images": self.images,
            "supervision": self.proposals["supervision"],
            "boxes_per_image": self.boxes_per_image,
            "counted": COUNTED,
            "phrases": self.all.total,
            "entities": self.by_entity.total,
            "recall": self.all.recall,
            "average_recall": self.all.average,
            "by_type": {
                kind: {"phrases": each.total, "recall": each.recall, "average_recall": each.average}
                for kind, each in self.by_type.items()
            },
            "by_entity": {"recall": self.by_entity.recall, "average_recall": self.by_entity.average},
            "left_out": list(self.skipped),
        }


def make_report(
    dataset: Dataset, proposer: Proposer, counts: tuple[int, ...], outcomes: Iterable[Measured | str]
) -> RecallReport:
    """Collect the outcomes of :func:`measure_images`; raises if no image could be used."""
    measured: list[Measured] = []
    skipped: list[str] = []
    for outcome in outcomes:
        if isinstance(outcome, str):
            skipped.append(outcome)
        else:
            measured.append(outcome)
    if not measured:
        raise DeixisError(f"None of the {len(skipped):,} images could be used. The first error: {skipped[0]}")
    return RecallReport(dataset.name, dataset.split, proposer.describe(), counts, measured, skipped)
