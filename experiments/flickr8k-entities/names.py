"""Score trained ReIR grounders with other class names of regions: none, the best class, or the best five.

    python experiments/flickr8k-entities/names.py DATA STORE RUN [RUN ...] > experiments/flickr8k-entities/names.txt

Validation split. The weights were trained with the best class. Only the class names at test time change.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
import tyro

from deixis.methods.reir.config import ReirConfig
from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.train import Validation
from deixis.training.data import TrainingData
from deixis.vision.store import FeatureStore


def variants(trained: ReirConfig) -> dict[str, ReirConfig]:
    """Return the configurations to compare, by the name in the output."""
    return {
        "no name": replace(trained, names="none"),
        "best class": replace(trained, top_names=1),
        "five": replace(trained, top_names=5),
    }


def main(
    data: tyro.conf.Positional[Path],
    store: tyro.conf.Positional[Path],
    runs: tyro.conf.Positional[tuple[Path, ...]],
    limit: int | None = None,
) -> None:
    """Print three lines of scores for each run.

    Args:
        data: the data set.
        store: features of its validation split, with classes of regions.
        runs: folders of ReIR grounders that were trained with class names.
        limit: use only this many photographs.
    """
    torch.set_num_threads(1)
    split = TrainingData.from_folder(data, FeatureStore(store), "val", "val")
    validation = Validation(replace(split, training=[], validation=split.validation[:limit]))
    for run in runs:
        grounder = ReirGrounder.from_pretrained(run, backend="torch")
        for name, config in variants(grounder.network.config).items():
            grounder.network.config = config
            scores = ", ".join(f"{score} {value:.3f}" for score, value in validation.scores(grounder).items())
            print(f"{run.parent.name}/{run.name}, {name}: {scores}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
