"""Run the work of a corpus, in this process or in actors of Ray; several runs share a corpus by ``--shard``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deixis.corpus.answers import answer_items, pending_items
from deixis.corpus.names import Names
from deixis.corpus.options import CorpusOptions, EngineOptions
from deixis.corpus.parts import Output, Parts
from deixis.corpus.sources import Item, parse_shard
from deixis.corpus.work import Work
from deixis.files import exclusive
from deixis.types import Json


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


def _errors(rows: Sequence[Json]) -> int:
    return sum("error" in row for row in rows)
