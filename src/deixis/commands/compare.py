"""``deixis compare``: two scored systems side by side, and whether the difference is more than luck."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from deixis.commands.answers import answers
from deixis.commands.eval import ORDER
from deixis.commands.report import find_samples, mean_overlaps, read_captions
from deixis.errors import DeixisError, UsageError
from deixis.metrics.bootstrap import Comparison, groups, paired_bootstrap
from deixis.metrics.score import Score, load_scores

LEVEL = 0.05
"""A difference with a smaller p-value gets a star."""

Flag = tyro.conf.FlagCreatePairsOff[bool]


def compare(
    a: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="A")],
    b: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="B")],
    n: int = 10_000,
    seed: int = 0,
    draw: Path | None = None,
    shown: int = 3,
    images: Path | None = None,
    as_json: Annotated[Flag, tyro.conf.arg(name="json")] = False,
    quiet: Flag = False,
) -> int:
    """Compare two scored systems: every metric with its paired bootstrap interval and p-value.

    For example: deixis compare baseline.json cyclical.json

    A and B are written by 'deixis score ... --out FILE', over the same items and in the same way, or they are the
    scores.json of two evaluations ('deixis eval'). Of evaluations, --draw also shows what the two systems say of the
    photographs on which they differ most.

    Args:
        a: scores of the first system.
        b: scores of the second system; differences are B - A.
        n: how many times the items are drawn again.
        seed: of the draws; the same seed gives the same intervals.
        draw: write both systems' captions and boxes side by side (.png, .svg, .jpg, ...).
        shown: how many photographs are drawn.
        images: the data set or folder that has the photographs, if not where the evaluations found them.
        as_json: write the comparison to stdout as JSON.
        quiet: no progress and no table.
    """
    if n < 100:
        raise UsageError(f"--n is {n}; an interval needs at least 100 draws.")
    talk = Console(stderr=True, quiet=quiet, highlight=False)
    (of_a, about), (of_b, _) = load_scores(a), load_scores(b)
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
        _tell(found, a, b, answers(quiet))
    for file, mine, other in ((a, of_a, of_b), (b, of_b, of_a)):
        alone = [name for name in mine if name not in other]
        if alone:
            talk.print(f"only in {file}: {', '.join(alone)}", markup=False, soft_wrap=True)
    if len(found) > 1:
        talk.print(
            f"{len(found)} metrics at once: between equal systems {LEVEL * len(found):.1f} stars are expected by luck.",
            soft_wrap=True,
        )
    if draw is not None:
        draw_differences((a, b), differing(list(of_a.values()), list(of_b.values())), shown, images, about, draw)
        talk.print(f"drawn: {draw}", markup=False, soft_wrap=True)
    return 0


def differing(a: Sequence[Score], b: Sequence[Score]) -> list[tuple[str, str]]:
    """Images by how much two systems differ on them, most first, with a note: by grounding, else by words or boxes."""
    for name in (*ORDER, "mean IoU"):
        first, second = (
            mean_overlaps(scores)
            if name == "mean IoU"
            else {image: float(v) for s in scores if s.name == name for image, v in zip(s.ids, s.items, strict=True)}
            for scores in (a, b)
        )
        both = {image: (first[image], second[image]) for image in first if image in second}
        known = {image: pair for image, pair in both.items() if not any(map(math.isnan, pair))}
        if known:
            order = sorted(known, key=lambda image: -abs(known[image][1] - known[image][0]))
            return [(image, f"{name} {known[image][0]:.2f}, {known[image][1]:.2f}") for image in order]
    return []


def draw_differences(
    files: tuple[Path, Path],
    order: Sequence[tuple[str, str]],
    shown: int,
    images: Path | None,
    about: Mapping[str, str],
    out: Path,
) -> None:
    """The first photographs of the order that can be opened, with what both systems say, one below the other."""
    from deixis.show.draw import Span, draw_text
    from deixis.show.drawing import FAINT, Drawing, save_drawing, stack
    from deixis.show.panels import draw_comparison

    find = find_samples(images, about)
    said = [read_captions(file.parent, find) for file in files]
    rows: list[Drawing] = []
    for image, note in order:
        sample = find(image)
        captions = [each[image] for each in said if image in each]
        if sample is not None and len(captions) == len(said) and len(rows) < 2 * shown:
            drawn = draw_comparison(sample.open(), captions)
            rows += [drawn, draw_text([Span(f"{image}: {note}")], drawn.width, 16, padding=16, ink=FAINT)]
    if not rows:
        raise DeixisError(
            f"no photograph can be drawn: {files[0].parent} and {files[1].parent} need captions.jsonl or "
            "phrases.jsonl of 'deixis eval', and --images the photographs."
        )
    save_drawing(stack(rows), out)


def _tell(found: list[Comparison], a: Path, b: Path, said: Console) -> None:
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
    said.print(f"A {a}\nB {b}\n", markup=False, soft_wrap=True)
    said.print(table)
    said.print(f"\n* p < {LEVEL:g}, paired bootstrap over {' and '.join(_items(found))} items", soft_wrap=True)


def _items(found: list[Comparison]) -> list[str]:
    return [f"{items:,}" for items in dict.fromkeys(each.items for each in found)]
