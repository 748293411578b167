"""``deixis compare``: paired bootstrap test of two scored systems."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.progress import Progress

from deixis.commands.console import AsJson, Quiet, print_json, stderr_console, stdout_console
from deixis.errors import DeixisError, UsageError
from deixis.metrics.bootstrap import groups, paired_bootstrap
from deixis.metrics.gap import gap_closed
from deixis.metrics.ranking import rank_differences
from deixis.metrics.score import load_scores
from deixis.show.score_table import LEVEL, comparison_table, gap_table


def compare(
    a: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="A")],
    b: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="B")],
    n: int = 10_000,
    seed: int = 0,
    draw: Path | None = None,
    shown: int = 3,
    supervised: Path | None = None,
    images: Path | None = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Compare two scored systems with a paired bootstrap test of every metric.

    For example: deixis compare baseline.json cyclical.json

    A and B are files of 'deixis score --out' or the scores.json of 'deixis eval', with the same items and protocol.
    For evaluations, --draw shows the captions of both systems on the photographs where their scores differ most.

    Args:
        a: scores of the first system.
        b: scores of the second system; differences are B - A.
        n: number of bootstrap samples.
        seed: seed of the bootstrap; the same seed gives the same intervals.
        draw: write both systems' captions and boxes side by side (.png, .svg, .jpg, ...).
        supervised: scores of a supervised system; adds the share of the gap from A to it that B closes.
        shown: number of photographs to draw.
        images: data set or folder of the photographs, if it differs from that of the evaluations.
        as_json: write the comparison to stdout as JSON.
    """
    if n < 100:
        raise UsageError(f"--n is {n}; an interval needs at least 100 samples.")
    console = stderr_console(quiet)
    (of_a, about), (of_b, _) = load_scores(a), load_scores(b)
    common = groups(of_a, of_b)
    if not common:
        raise DeixisError(f"{a} and {b} have no metric in common. Score both with the same --metrics.")
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("resampling", total=n * len(common))
        found = paired_bootstrap(of_a, of_b, n, seed, done=lambda draws: progress.advance(task, draws))
    gaps = [] if supervised is None else gap_closed(of_a, of_b, load_scores(supervised)[0], n, seed)
    if as_json:
        scores = {each.name: {k: v for k, v in asdict(each).items() if k != "name"} for each in found}
        about_gaps = {} if supervised is None else {"gap_closed": {gap.name: asdict(gap) for gap in gaps}}
        print_json({"a": str(a), "b": str(b), "n": n, "seed": seed, "scores": scores, **about_gaps})
    else:
        stdout = stdout_console(quiet)
        stdout.print(f"A {a}\nB {b}\n", markup=False, soft_wrap=True)
        stdout.print(comparison_table(found))
        items = " and ".join(f"{items:,}" for items in dict.fromkeys(each.items for each in found))
        stdout.print(f"\n* p < {LEVEL:g}, paired bootstrap over {items} items", soft_wrap=True)
        if gaps:
            stdout.print(f"\nShare of the gap from A to {supervised} that B closes", markup=False, soft_wrap=True)
            stdout.print(gap_table(gaps))
    for file, mine, other in ((a, of_a, of_b), (b, of_b, of_a)):
        alone = [name for name in mine if name not in other]
        if alone:
            console.print(f"only in {file}: {', '.join(alone)}", markup=False)
    if len(found) > 1:
        expected = f"about {LEVEL * len(found):.1f} false positives are expected at p < {LEVEL:g}"
        console.print(f"{len(found)} tests: {expected}.")
    if draw is not None:
        from deixis.show.differences import draw_differences
        from deixis.show.drawing import save_drawing

        order = rank_differences(list(of_a.values()), list(of_b.values()))
        save_drawing(draw_differences((a.parent, b.parent), order, shown, images, about), draw)
        console.print(f"drawn: {draw}", markup=False)
    return 0
