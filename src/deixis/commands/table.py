"""``deixis table``: a folder that describes a comparison becomes its tables, one run after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from deixis.errors import DeixisError, UsageError

if TYPE_CHECKING:
    from deixis.training.callbacks import Callbacks

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def table(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")],
    data: Path | None = None,
    work: Path | None = None,
    features: tuple[str, ...] = (),
    rows: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (),
    only_report: Switch = False,
    device: str = "auto",
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    threads: int = 0,
    quiet: Switch = False,
) -> int:
    """Train and evaluate every row of a comparison that has no result yet, and write its tables and charts.

    FOLDER has table.toml, which describes rows (recipes with options, seeds, what they learn from) and tables. What a
    run gave is kept in FOLDER/runs and not done again; stop it whenever you like, the same command goes on. Several
    processes may work on one folder side by side.

    For example: deixis table experiments/flickr8k-entities --data flickr30k --work runs --features flickr30k.store

    Args:
        folder: the folder of the comparison; its pages and charts are written there too.
        data: the data set.
        work: where models are trained.
        features: feature stores, as NAME=STORE where rows name their features; STORE alone is the one called default.
        rows: do these rows only, and what they need; the tables show all that is kept.
        seeds: do these seeds only.
        only_report: write tables and charts from what is kept, without data and training.
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        as_json: write the numbers of the tables to stdout as JSON.
        threads: of torch; 0: one for each core.
        quiet: no progress and no notes.
    """
    from deixis.tables.describe import Run, read_experiment
    from deixis.tables.report import write_report
    from deixis.tables.runs import Bench, is_kept

    talk = Console(stderr=True, quiet=quiet, highlight=False)
    experiment = read_experiment(folder)
    runs: list[Run] = []
    if not only_report:
        if data is None or work is None:
            raise UsageError("--data and --work say where the data set is and where to train; or use --only-report.")
        import torch

        from deixis.device import train_on

        train_on(device)
        if threads:
            torch.set_num_threads(threads)
        runs = experiment.runs(rows, seeds)
        undone = [run for run in runs if not is_kept(experiment, run)]
        expected = f", about {experiment.minutes(undone):.0f} core-minutes" if experiment.minutes(undone) else ""
        talk.print(f"{len(runs)} runs, {len(undone)} without a result{expected}")

        def say(text: str) -> None:
            talk.print(text, markup=False, soft_wrap=True)

        bench = Bench(experiment, data, work, stores(features), lambda title: watched(talk, title), say, device)
        bench.do(runs)
    with talk.status("drawing images again and writing tables"):
        found = write_report(experiment)
    for each in found:
        page = next(one.text for one in experiment.tables if one.name == each["table"])
        talk.print(f"{each['title']}: {len(each['rows'])} rows, in {folder / page}", markup=False, soft_wrap=True)
    if as_json:
        print(json.dumps({"tables": found}, indent=2))
    if unfinished := [run.name for run in runs if not is_kept(experiment, run)]:
        raise DeixisError(f"no result of {', '.join(unfinished)} yet; the reasons stand above. Run the same again.")
    return 0


def stores(features: Sequence[str]) -> dict[str, Path]:
    """``NAME=STORE`` as a dictionary; a store without a name is called default."""
    found: dict[str, Path] = {}
    for text in features:
        name, store = text.split("=", 1) if "=" in text else ("default", text)
        if name in found:
            raise UsageError(f"--features names '{name}' twice; give each store another name (NAME=STORE).")
        found[name] = Path(store)
    return found


@contextmanager
def watched(talk: Console, title: str) -> Iterator[Callbacks]:
    """A progress bar around the training of one run."""
    from deixis.commands.training_progress import TrainingProgress

    talk.print(title, markup=False)
    with TrainingProgress(talk, title) as progress:
        yield progress.callbacks()
