"""Run the work of a corpus, in this process or in actors of Ray; several runs share a corpus by ``--shard``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from deixis.corpus.names import Names
from deixis.corpus.options import CorpusOptions, EngineOptions
from deixis.corpus.parts import Output, Parts
from deixis.corpus.sources import Item, list_items, parse_shard
from deixis.corpus.work import Answer, Work, answer_all, open_item
from deixis.files import exclusive
from deixis.types import Json

T = TypeVar("T")

DECODERS = 4
"""Threads that decode the images of the next batch."""


@dataclass(frozen=True)
class Summary:
    """What a run added."""

    rows: int
    errors: int
    before: int  # images that had a row already


def run_corpus(work: Work, sources: Sequence[str | Item], options: CorpusOptions) -> Iterator[Summary]:
    """Write the rows of all images that have none yet; yield the progress after each part."""
    assert options.parts is not None
    number, count = parse_shard(options.shard)
    parts = Parts(options.parts, work.about(), options.format)
    with exclusive(options.parts / f"shard-{number}-of-{count}", "--parts"):
        if count == 1:
            parts.clean()
        yield from write_rows(work, sources, parts, options.part_rows, options)


def write_rows(
    work: Work, sources: Sequence[str | Item], output: Output, size: int, options: EngineOptions
) -> Iterator[Summary]:
    """Write the rows that an output lacks, ``size`` at a time; at an interrupt, also those of an incomplete part."""
    names = output.done()
    before = len(names)
    rows = _rows(work, sources, names, options)
    waiting: list[Json] = []
    written = errors = 0
    try:
        for row in rows:
            if not names.add(str(row["image"])):
                continue  # a row that a restarted actor of Ray gave before
            waiting.append(row)
            if len(waiting) >= size:
                output.write(waiting)
                written, errors, waiting = written + len(waiting), errors + _errors(waiting), []
                yield Summary(written, errors, before)
    finally:
        output.write(waiting)
    yield Summary(written + len(waiting), errors + _errors(waiting), before)


def _rows(work: Work, sources: Sequence[str | Item], done: Names, options: EngineOptions) -> Iterator[Json]:
    if options.engine == "ray":
        from deixis.corpus.ray_engine import ray_rows

        return ray_rows(work, sources, done, options)
    items = pending_items(sources, parse_shard(options.shard), done)
    return answer_items(work.load(), items, options.batch)


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


def _errors(rows: Sequence[Json]) -> int:
    return sum("error" in row for row in rows)
