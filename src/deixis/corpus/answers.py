"""Rows of the images of a corpus that have none yet, computed in batches in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from deixis.corpus.names import Names
from deixis.corpus.sources import Item, list_items
from deixis.corpus.work import Answer, answer_all, open_item
from deixis.types import Json

T = TypeVar("T")

DECODERS = 4
"""Threads that decode the images of the next batch."""


def pending_items(sources: Sequence[str | Item], shard: tuple[int, int], done: Names) -> Iterator[Item]:
    """Yield the images of a shard that have no row; one that several sources have, once."""
    listed = Names()
    return (item for item in list_items(sources, shard) if item.image not in done and listed.add(item.image))


def answer_items(answer: Answer, items: Iterable[Item], batch: int) -> Iterator[Json]:
    """Yield the rows of items, computed in batches; threads decode the next batch while this one is computed."""
    with ThreadPoolExecutor(DECODERS) as pool:
        left = ([pool.submit(open_item, item) for item in some] for some in batched(items, batch))
        ahead = next(left, None)
        while ahead is not None:
            opened = [future.result() for future in ahead]
            ahead = next(left, None)
            yield from answer_all(answer, opened)


def batched(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of ``size`` values, the last one with fewer."""
    left = iter(values)
    return iter(lambda: list(islice(left, size)), [])
