"""What the names of regions are worth to trained grounders: none, the best class, or the best five by probability.

    python experiments/flickr8k-entities/names.py DATA STORE RUN [RUN ...]

Validation split; the weights are those that were trained with the best class, only what they are told changes.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch

from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.train import Validation
from deixis.training.data import TrainingData
from deixis.vision.store import FeatureStore


def main(data: Path, store: Path, runs: list[Path]) -> None:
    """Three lines for each run."""
    torch.set_num_threads(1)
    asked = Validation(replace(TrainingData.from_folder(data, FeatureStore(store)), training=[]))
    for run in runs:
        grounder = ReirGrounder.from_pretrained(run)
        trained = grounder.refiner.config
        for told, changes in (
            ("no name", {"names": "none"}),
            ("best class", {"top_names": 1}),
            ("five", {"top_names": 5}),
        ):
            grounder.refiner.config = replace(trained, **changes)
            scores = ", ".join(f"{name} {value:.3f}" for name, value in asked.scores(grounder).items())
            print(f"{run.parent.name}/{run.name}, {told}: {scores}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(run) for run in sys.argv[3:]])
