"""``deixis models``: list the models on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Column, Table

from deixis.commands.console import AsJson, print_json, stdout_console
from deixis.pipelines.listing import ListedModel, local_models

HEADLINE = ("CIDEr", "F1_all", "F1_loc", "accuracy", "pointing", "mean_iou", "i2t_R@1", "t2i_R@1")
"""Scores in order of importance; the table shows the first three that a model has."""


def models(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[DIR ...]")] = (),
    as_json: AsJson = False,
) -> int:
    """List the models of the package, of ./runs and of the given folders, with supervision and scores.

    For example: deixis models

    Args:
        folders: folders of models, or folders that contain such folders, at most two levels deep.
        as_json: write a line of JSON for each model to stdout.
    """
    found = list(local_models(folders))
    if as_json:
        for each in found:
            print_json(asdict(each), indent=None)
    else:
        stdout_console().print(_table(found))
    return 0


def _table(found: Sequence[ListedModel]) -> Table:
    model, megabytes = Column("model", overflow="fold"), Column("MB", justify="right")
    table = Table(model, "kind", "supervision", megabytes, "scores", box=None, pad_edge=False)
    for each in found:
        best = [name for name in HEADLINE if name in each.scores][:3]
        scores = ", ".join(f"{name} {each.scores[name]:.3f}" for name in best)
        size = f"{each.bytes / 1e6:.0f}" if each.bytes else "no weights yet"
        table.add_row(each.model, each.kind, each.supervision, size, f"{each.split}: {scores}" if scores else "")
    return table
