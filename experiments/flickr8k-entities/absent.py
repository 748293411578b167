"""Score ReIR grounders on the test split, with the AUC of present against absent phrases.

    python experiments/flickr8k-entities/absent.py DATA STORE RUN [RUN ...] > experiments/flickr8k-entities/absent.txt

A phrase of the next photograph is absent if its last word is in no caption of this photograph. One line for each run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
import tyro

from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.train import Validation
from deixis.training.data import TrainingData
from deixis.vision.store import FeatureStore


def main(
    data: tyro.conf.Positional[Path],
    store: tyro.conf.Positional[Path],
    runs: tyro.conf.Positional[tuple[Path, ...]],
    limit: int | None = None,
) -> None:
    """Print one line of scores for each run.

    Args:
        data: the data set.
        store: features of its test split.
        runs: folders of trained ReIR grounders.
        limit: use only this many photographs.
    """
    torch.set_num_threads(1)
    split = TrainingData.from_folder(data, FeatureStore(store), "test", "test")
    validation = Validation(replace(split, training=[], validation=split.validation[:limit]))
    for run in runs:
        scores = validation.scores(ReirGrounder.from_pretrained(run))
        print(f"{run.parent.name}/{run.name}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))


if __name__ == "__main__":
    tyro.cli(main)
