"""Run the work of a corpus in this process; several runs share a corpus by ``--shard``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from deixis.corpus.options import CorpusOptions
from deixis.corpus.parts import Parts
from deixis.corpus.sources import Item, list_items, parse_shard
from deixis.corpus.work import Work, answer_all, open_item
from deixis.files import exclusive
from deixis.types import Json

DECODERS = 4
"""Threads that decode the images of the next batch."""


@dataclass(frozen=True)
class Summary:
    """What a run added."""

    rows: int
    errors: int
    before: int  # images that had a row already


def run_corpus(work: Work, sources: Sequence[str], options: CorpusOptions) -> Iterator[Summary]:
    """Write the rows of all images that have none yet; yield the progress after each part."""
    assert options.parts is not None
    shard = parse_shard(options.shard)
    parts = Parts(options.parts, work.about(), options.format)
    name = options.parts / f"shard-{shard[0]}-of-{shard[1]}"
    with exclusive(name, "--parts"):
        if shard[1] == 1:
            parts.clean()
        done = parts.done()
        items = (item for item in list_items(sources, shard) if item.image not in done)
        rows = plain_rows(work, items, options.batch)
        yield from _write(rows, parts, options.part_rows, len(done))


def plain_rows(work: Work, items: Iterator[Item], batch: int) -> Iterator[Json]:
    """Rows of the items, in batches; threads decode the next batch while this one is computed."""
    answer = work.load()
    with ThreadPoolExecutor(DECODERS) as pool:
        ahead = [pool.submit(open_item, item) for item in islice(items, batch)]
        while ahead:
            opened = [future.result() for future in ahead]
            ahead = [pool.submit(open_item, item) for item in islice(items, batch)]
            yield from answer_all(answer, opened)


def _write(rows: Iterable[Json], parts: Parts, size: int, before: int) -> Iterator[Summary]:
    """Write rows in parts; at an interrupt, also those of an incomplete part."""
    waiting: list[Json] = []
    written = errors = 0
    seen: set[str] = set()  # names of this run: two sources may have the same image
    try:
        for row in rows:
            if row["image"] in seen:
                continue
            seen.add(str(row["image"]))
            waiting.append(row)
            if len(waiting) >= size:
                parts.write(waiting)
                written, errors, waiting = written + len(waiting), errors + _errors(waiting), []
                yield Summary(written, errors, before)
    finally:
        parts.write(waiting)
    yield Summary(written + len(waiting), errors + _errors(waiting), before)


def _errors(rows: Sequence[Json]) -> int:
    return sum("error" in row for row in rows)
