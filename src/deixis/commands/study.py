"""``deixis study``: human preference between two groundings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Column, Table

from deixis.commands.console import (
    AllowHost,
    AsJson,
    Browse,
    Host,
    Port,
    Quiet,
    print_json,
    print_ready,
    print_some,
    stderr_console,
    stdout_console,
)
from deixis.errors import UsageError, requires_extra
from deixis.study.database import Plan, StudyDatabase
from deixis.study.match import Matched, match_predictions
from deixis.study.results import Results, summarise

LISTED = 10  # skipped records that are printed


def study(
    predictions: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="A B")] = (),
    *,
    images: Path | None = None,
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("study.sqlite"),
    results: Path | None = None,
    images_each: int = 25,
    raters_each: int = 2,
    seed: int = 0,
    host: Host = "127.0.0.1",
    allow_host: AllowHost = (),
    port: Port = 8422,
    browse: Browse = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Let people rate which of two groundings of a word is better, and summarise their ratings.

    A and B are predictions for the same photographs. The page shows each word that both have a box for with both boxes
    side by side, in random order and without the names of the systems. Every rating is saved at once. The same command
    continues a study; raters continue under their names.

    For example: deixis study da/captions.jsonl updown/captions.jsonl --images photos --out study.sqlite

    Then: deixis study --results study.sqlite

    Args:
        predictions: two files of predictions, or exports of them.
        images: folder of the photographs.
        out: file of the study, a SQLite database; an existing study is continued.
        results: print the results of this study; no server is started.
        images_each: photographs per rater and round; 0: all.
        raters_each: raters per photograph, before another photograph is handed out.
        seed: seed of the order of photographs and of the sides.
        as_json: write the results, or the address of the server, to stdout as JSON.
    """
    console = stderr_console(quiet)
    if results is not None:
        if predictions:
            raise UsageError("--results takes no predictions. Leave them out.")
        return _print_results(StudyDatabase(results), console, as_json)
    if len(predictions) != 2 or images is None:
        raise UsageError("Give two files of predictions, A and B, and the folder of the photographs with --images.")
    if images_each < 0 or raters_each < 1:
        raise UsageError("--images-each must be at least 0 and --raters-each at least 1.")
    with requires_extra("serve"):
        from deixis.serve.guard import Hosts
        from deixis.serve.run import listen, run_app
        from deixis.study.app import create_app
    with console.status(f"matching {predictions[0]} and {predictions[1]}"):
        matched = match_predictions(*predictions, images=images)
    _print_skipped(matched, images, console)
    plan = Plan(matched.a, matched.b, images_each=images_each, raters_each=raters_each, seed=seed)
    database = StudyDatabase.create_or_open(out, plan, matched.pairs)
    size = f"{len(matched.pairs):,} words of {len(matched.photographs):,} photographs"
    console.print(f"{out}: {size}, {plan.a} against {plan.b}", markup=False)
    listener = listen(host, port)
    record = {"study": str(out)} if as_json else None
    print_ready(console, listener.url, listener.public, "(Ctrl-C stops the server; ratings are saved)", record)
    run_app(create_app(database, matched.photographs, Hosts.of(host, allow_host)), listener, browse=browse)
    console.print(f"Stopped. 'deixis study --results {out}' prints the results.", markup=False)
    return 0


def _print_skipped(matched: Matched, images: Path, console: Console) -> None:
    if matched.skipped:
        console.print(f"{len(matched.skipped):,} records skipped:")
        print_some(console, matched.skipped, LISTED)
    if matched.not_found:
        console.print(f"{matched.not_found:,} images of A are not in {images}.", markup=False)


def _print_results(database: StudyDatabase, console: Console, as_json: bool) -> int:
    found = summarise(database.ratings())
    if as_json:
        about = {
            "study": str(database.path),
            "a": database.plan.a,
            "b": database.plan.b,
            "words_in_study": database.words(),
        }
        print_json({**about, "results": None if found is None else found.to_json()})
    if found is None:
        console.print(f"{database.path} has no ratings yet.", markup=False)
    elif not as_json:
        stdout = stdout_console(console.quiet)
        stdout.print(_shares(found, database.plan))
        for line in found.lines(database.plan.a, database.plan.b, database.assigned()):
            stdout.print(line, markup=False)
    return 0


def _shares(found: Results, plan: Plan) -> Table:
    """Table of the shares of the verdicts."""
    table = Table("", Column("%", justify="right"), Column("ratings", justify="right"), box=None, pad_edge=False)
    verdicts = {"about equal": found.equal, f"{plan.a} is better": found.a, f"{plan.b} is better": found.b}
    for name, share in verdicts.items():
        table.add_row(name, f"{share:.1%}"[:-1], f"{round(share * found.ratings):,}")
    return table
