"""Scores and comparisons as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.table import Table

from deixis.metrics.bootstrap import Comparison
from deixis.metrics.evaluate import CURVES
from deixis.metrics.gap import Gap
from deixis.metrics.score import Score

LEVEL = 0.05
"""A difference with a smaller p-value gets a star."""


def score_tables(scores: Sequence[Score]) -> Iterator[tuple[Table, str]]:
    """Yield one table per signature, with the signature; points of curves are left out."""
    shown = [each for each in scores if not each.name.startswith(CURVES)]
    name_width = max((len(each.name) for each in shown), default=0)
    for signature, same in groupby(shown, key=lambda each: each.signature):
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(min_width=name_width, no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(justify="right", no_wrap=True, style="dim")
        for each in same:
            table.add_row(each.name, f"{each.value:.4f}", f"{len(each.ids):,} items")
        yield table, signature


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Both scores, their difference, its interval and p-value, one row per metric."""
    table = Table(box=None, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for column in ("A", "B", "B - A", "95 % interval", "p", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for each in comparisons:
        low, high = each.difference_interval
        table.add_row(
            each.name,
            f"{each.a:.4f}",
            f"{each.b:.4f}",
            f"{each.difference:+.4f}",
            f"{low:+.4f} to {high:+.4f}",
            f"{each.p:.4f}",
            "*" if each.p < LEVEL else "",
        )
    return table


def gap_table(gaps: Sequence[Gap]) -> Table:
    """The three scores and the share of the gap that is closed, with its interval."""
    table = Table(box=None, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for column in ("A", "B", "supervised", "gap closed", "95 % interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for gap in gaps:
        table.add_row(
            gap.name,
            *(f"{value:.4f}" for value in (gap.baseline, gap.method, gap.supervised)),
            "no gap" if gap.closed is None else f"{gap.closed:.1%}",
            "" if gap.interval is None else f"{gap.interval[0]:.1%} to {gap.interval[1]:.1%}",
        )
    return table
