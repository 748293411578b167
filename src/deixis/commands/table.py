"""``deixis table``: train, evaluate and report a comparison of methods that a folder describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from deixis.commands.console import AsJson, Device, Quiet, Switch, Threads, print_json, stderr_console
from deixis.errors import DeixisError, UsageError

if TYPE_CHECKING:
    from deixis.training.callbacks import Callbacks


def table(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")],
    data: Path | None = None,
    work: Path | None = None,
    features: tuple[str, ...] = (),
    rows: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (),
    only_report: Switch = False,
    device: Device = "auto",
    as_json: AsJson = False,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> int:
    """Train and evaluate the missing runs of a comparison, and write its tables and charts.

    FOLDER has table.toml, which describes rows (recipes with options and seeds) and tables, and may have claims.toml,
    whose claims get a verdict. Finished runs are kept in FOLDER/runs.jsonl. An interrupted command resumes with the
    same command. Several processes may share a folder.

    For example: deixis table experiments/flickr8k-entities --data flickr30k --work runs --features flickr30k.store

    Args:
        folder: the folder of the comparison; charts are written there too.
        data: the data set.
        work: the folder for the trained models.
        features: feature stores, as NAME=STORE where rows name their features; STORE alone has the name default.
        rows: run only these rows and the rows that they need; the tables show all kept runs.
        seeds: run only these seeds.
        only_report: write tables and charts from the kept runs, without data and training.
        as_json: write the numbers of the tables to stdout as JSON.
    """
    from deixis.evaluation.claims import write_verdicts
    from deixis.evaluation.tables.describe import Run, read_experiment
    from deixis.evaluation.tables.kept import read_kept
    from deixis.evaluation.tables.report import write_report
    from deixis.evaluation.tables.runs import Runner

    console = stderr_console(quiet)

    def report(text: str) -> None:
        console.print(text, markup=False)

    experiment = read_experiment(folder)
    runs: list[Run] = []
    if not only_report:
        if data is None or work is None:
            raise UsageError("--data and --work are missing. Give both, or use --only-report.")
        import torch

        from deixis.device import train_on

        train_on(device)
        if threads:
            torch.set_num_threads(threads)
        kept, runs = read_kept(experiment), experiment.runs(rows, seeds)
        missing = [run for run in runs if run.name not in kept]
        minutes = sum(run.row.minutes for run in missing)
        report(f"{len(runs)} runs, {len(missing)} missing" + (f", about {minutes:.0f} core-minutes" if minutes else ""))
        runner = Runner(
            experiment, data, work, stores(features), lambda name: training_bar(console, name), report, device
        )
        runner.run_all(runs)
    with console.status("resampling images and writing tables"):
        found = write_report(experiment)
        judged = write_verdicts(experiment)
    for described, numbers in zip(experiment.tables, found, strict=True):
        report(f"{described.title}: {len(numbers['rows'])} rows, in {folder / described.text}")
    for result in judged:
        report(f"{result.claim.text}: {result.verdict}")
    if as_json:
        print_json({"tables": found, "claims": [result.to_json() for result in judged]})
    kept = read_kept(experiment)
    if unfinished := [run.name for run in runs if run.name not in kept]:
        raise DeixisError(f"no result for {', '.join(unfinished)} (reasons above). Run the same command again.")
    return 0


def stores(features: Sequence[str]) -> dict[str, Path]:
    """Split ``NAME=STORE``; a store without a name is called default."""
    found: dict[str, Path] = {}
    for text in features:
        name, store = text.split("=", 1) if "=" in text else ("default", text)
        if name in found:
            raise UsageError(f"--features has '{name}' twice. Give each store its own name (NAME=STORE).")
        found[name] = Path(store)
    return found


@contextmanager
def training_bar(console: Console, title: str) -> Iterator[Callbacks]:
    """Show a progress bar around the training of one run."""
    from deixis.commands.training_progress import TrainingProgress

    console.print(title, markup=False)
    with TrainingProgress(console, title) as progress:
        yield progress.callbacks()
