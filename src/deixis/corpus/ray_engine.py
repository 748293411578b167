"""Run the work of a corpus in actors of Ray Data: one task lists the images, actors decode and compute them.

A block of Ray is one pickled list, of items or of rows. The driver takes rows block by block as they are made, so
that it and the actors hold few at a time. Ray restarts an actor that dies and repeats its block.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from deixis.corpus.answers import answer_items, batched, pending_items
from deixis.corpus.names import Names
from deixis.corpus.options import EngineOptions
from deixis.corpus.sources import Item, parse_shard
from deixis.corpus.work import Answer, Work
from deixis.errors import DeixisError, requires_extra
from deixis.threads import available_cores
from deixis.types import Json

Block = dict[str, list[bytes]]

BATCHES = 4
"""Batches of one block of images; a restarted actor repeats at most one block."""
DEATHS = 3
"""Deaths of actors at one block after which the run ends."""

STORE_BYTES = 512 * 2**20
"""Shared memory of a Ray that is started here; blocks are small."""


class Actor:
    """Process with models, which are loaded at its first block; with ``gpus`` 0 it sees no GPU."""

    def __init__(self, work: Work, batch: int, gpus: float) -> None:
        if not gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # versions of Ray differ in this
        self.work, self.batch = work, batch
        self.answer: Answer | None = None

    def __call__(self, block: Mapping[str, Sequence[bytes]]) -> Iterator[Block]:
        """Yield the rows of a block of items."""
        self.answer = self.answer or self.work.load()
        for packed in block["packed"]:
            rows = answer_items(self.answer, pickle.loads(packed), self.batch)
            yield from (_block(some) for some in batched(rows, self.batch))


def ray_rows(work: Work, sources: Sequence[str | Item], done: Names, options: EngineOptions) -> Iterator[Json]:
    """Yield the rows of all images that are not done, in no fixed order."""
    with _cluster(options) as data:
        # Without a pool of its own, Ray would run the listing within the actors.
        items = data.from_items([{"source": 0}]).map_batches(
            _list_blocks,
            fn_args=(tuple(sources), parse_shard(options.shard), done, BATCHES * options.batch),
            compute=data.TaskPoolStrategy(size=1),
            num_cpus=0,
        )
        rows = items.map_batches(
            Actor,
            fn_constructor_args=(work, options.batch, options.actor_gpus),
            compute=data.ActorPoolStrategy(size=options.actors),
            batch_size=1,
            num_cpus=options.actor_cpus,
            num_gpus=options.actor_gpus,
            max_restarts=-1,
            max_task_retries=DEATHS,
        )
        for block in rows.iter_batches(batch_size=None, prefetch_batches=1):
            for packed in block["packed"]:
                yield from pickle.loads(packed)


def _list_blocks(
    _: Mapping[str, Any], sources: Sequence[str | Item], shard: tuple[int, int], done: Names, size: int
) -> Iterator[Block]:
    for items in batched(pending_items(sources, shard, done), size):
        yield _block(items)


def _block(values: Sequence[object]) -> Block:
    return {"packed": [pickle.dumps(list(values))]}


@contextmanager
def _cluster(options: EngineOptions) -> Iterator[Any]:
    """Yield ``ray.data``, connected to the cluster of the options; disconnect at the end."""
    own = start(options)
    import ray
    import ray.data

    try:
        resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
        _check_gpus(resources.get("GPU", 0), options)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.target_max_block_size = 1  # bytes: each pickled list is a block of its own
        with warnings.catch_warnings(action="ignore"):  # of names that later versions change
            yield ray.data
    except ray.exceptions.RayError as error:
        raise _known(error) from error
    finally:
        if own:
            ray.shutdown()


def start(options: EngineOptions) -> bool:
    """Start Ray on this machine, or connect to a cluster; return whether this call did it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to the makers of Ray
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    with requires_extra("ray"):
        import ray
        import ray.data
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are raised; they need no log
    if ray.is_initialized():
        return False
    address = options.address or os.environ.get("RAY_ADDRESS")
    own: dict[str, Any] = {}
    if address is None:
        cores = max(available_cores(), math.ceil(options.actors * options.actor_cpus))
        own = {"num_cpus": cores, "include_dashboard": False, "object_store_memory": STORE_BYTES}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **own)
    except Exception as error:  # Ray raises several types, also plain exceptions
        what = f"no Ray cluster answers at {address}" if address else "Ray cannot start on this machine"
        raise DeixisError(
            f"{what} ({str(error).splitlines()[0]}). Check --address, or run fewer processes beside it."
        ) from None
    return True


def _check_gpus(present: float, options: EngineOptions) -> None:
    """Raise if no actor could start; Ray would wait for a GPU without end."""
    if options.actor_gpus > present or (options.address is None and options.actors * options.actor_gpus > present):
        raise DeixisError(
            f"--actors {options.actors} with --actor-gpus {options.actor_gpus:g} need more GPUs than Ray has "
            f"({present:g}). Use fewer, or --actor-gpus 0 for the CPU."
        )


def _known(error: BaseException) -> DeixisError:
    """Return the error of the work, or one that says what happened to the actors."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, DeixisError):
            return cause
        cause = getattr(cause, "cause", None) or cause.__cause__
    return DeixisError(
        f"Ray stopped ({type(error).__name__}: {str(error).splitlines()[0]}). Complete rows are kept; the same command "
        "resumes."
    )
