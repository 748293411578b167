"""``deixis compare``: two scored systems side by side, and whether the difference is more than luck."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from deixis.errors import DeixisError
from deixis.metrics.bootstrap import Comparison, groups, paired_bootstrap
from deixis.metrics.score import load_scores

LEVEL = 0.05
"""A difference with a smaller p-value gets a star."""

Flag = tyro.conf.FlagCreatePairsOff[bool]


def compare(
    a: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="A")],
    b: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="B")],
    n: int = 10_000,
    seed: int = 0,
    as_json: Annotated[Flag, tyro.conf.arg(name="json")] = False,
    quiet: Flag = False,
) -> int:
    """Compare two scored systems: every metric with its paired bootstrap interval and p-value.

    For example: deixis compare baseline.json cyclical.json

    A and B are written by 'deixis score ... --out FILE', over the same items and in the same way.

    Args:
        a: scores of the first system.
        b: scores of the second system; differences are B - A.
        n: how many times the items are drawn again.
        seed: of the draws; the same seed gives the same intervals.
        as_json: write the comparison to stdout as JSON.
        quiet: no progress and no table.
    """
    if n < 100:
        raise DeixisError(f"--n is {n}; an interval needs at least 100 draws.")
    talk = Console(stderr=True, quiet=quiet, highlight=False)
    of_a, of_b = load_scores(a)[0], load_scores(b)[0]
    common = groups(of_a, of_b)
    if not common:
        raise DeixisError(f"{a} and {b} have no metric in common; score both with the same --metrics.")
    with Progress(console=talk, transient=True, disable=not talk.is_terminal) as progress:
        task = progress.add_task("drawing items again", total=n * len(common))
        found = paired_bootstrap(of_a, of_b, n, seed, done=lambda draws: progress.advance(task, draws))

    if as_json:
        document = {
            "a": str(a),
            "b": str(b),
            "n": n,
            "seed": seed,
            "scores": {each.name: {k: v for k, v in asdict(each).items() if k != "name"} for each in found},
        }
        print(json.dumps(document, indent=2))
    else:
        _tell(found, a, b, talk)
    for file, mine, other in ((a, of_a, of_b), (b, of_b, of_a)):
        alone = [name for name in mine if name not in other]
        if alone:
            talk.print(f"only in {file}: {', '.join(alone)}", markup=False, soft_wrap=True)
    if len(found) > 1:
        talk.print(
            f"{len(found)} metrics at once: between equal systems {LEVEL * len(found):.1f} stars are expected by luck.",
            soft_wrap=True,
        )
    return 0


def _tell(found: list[Comparison], a: Path, b: Path, talk: Console) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for column in ("A", "B", "B - A", "95 % interval", "p", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for each in found:
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
    talk.print(f"A {a}\nB {b}\n", markup=False, soft_wrap=True)
    talk.print(table)
    talk.print(f"\n* p < {LEVEL:g}, paired bootstrap over {' and '.join(_items(found))} items", soft_wrap=True)


def _items(found: list[Comparison]) -> list[str]:
    return [f"{items:,}" for items in dict.fromkeys(each.items for each in found)]
