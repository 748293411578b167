"""How well grounders tell phrases of a photograph from phrases of another one: AUC on the test split.

    python experiments/flickr8k-entities/absent.py DATA STORE RUN [RUN ...]

A phrase of the next photograph is absent if nobody says its last word of this one.
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
    """One line for each run."""
    torch.set_num_threads(1)
    material = TrainingData.from_folder(data, FeatureStore(store), "test", "test")
    asked = Validation(replace(material, training=[]))
    for run in runs:
        scores = asked.scores(ReirGrounder.from_pretrained(run))
        print(f"{run.parent.name}/{run.name}: " + ", ".join(f"{name} {value:.3f}" for name, value in scores.items()))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(run) for run in sys.argv[3:]])
