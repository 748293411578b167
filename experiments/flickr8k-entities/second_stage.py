"""Measure the effect of ReIR's second stage on boxes that are selected by votes.

    python experiments/flickr8k-entities/second_stage.py DATA STORE RUN [RUN ...]

Validation split, trained grounders. The output is kept in second_stage.txt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import tyro

from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.network import Matched
from deixis.methods.reir.train import Validation
from deixis.training.data import TrainingData
from deixis.vision.store import FeatureStore


def as_proposed(matched: Matched) -> Matched:
    """Return the output with the proposal that has the most votes, without regression."""
    return replace(matched, fine=None, offsets=None)


def as_trained(matched: Matched) -> Matched:
    """Return the output unchanged: the box with the most votes, moved by the regression of both stages."""
    return matched


def selected_by_second_stage(matched: Matched) -> Matched:
    """Return the output where the second stage selects among the boxes with the most votes (Eq. 11)."""
    if matched.fine is None:
        raise ValueError("the grounder has no second stage")
    return replace(matched, by_votes=False)


VARIANTS: dict[str, Callable[[Matched], Matched]] = {
    "votes, box as proposed": as_proposed,
    "votes, box moved by both stages": as_trained,
    "second stage selects": selected_by_second_stage,
}


def main(
    data: tyro.conf.Positional[Path],
    store: tyro.conf.Positional[Path],
    runs: tyro.conf.Positional[tuple[Path, ...]],
    limit: int | None = None,
) -> None:
    """Print three lines for each run.

    Args:
        data: the data set.
        store: features of its validation split.
        runs: folders of ReIR grounders with two stages.
        limit: use only this many photographs.
    """
    torch.set_num_threads(1)
    split = TrainingData.from_folder(data, FeatureStore(store), "val", "val")
    validation = Validation(replace(split, training=[], validation=split.validation[:limit]))
    for run in runs:
        grounder = ReirGrounder.from_pretrained(run, backend="torch")
        for name, change in VARIANTS.items():
            hook = grounder.network.register_forward_hook(lambda network, args, matched, change=change: change(matched))
            scores = validation.scores(grounder)
            hook.remove()
            print(f"{run.parent.name}/{run.name}, {name}: accuracy {scores['accuracy']:.3f}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
