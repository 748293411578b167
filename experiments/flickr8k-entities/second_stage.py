"""What ReIR's second stage does to boxes that regions voted for: validation split, trained grounders, nothing trained.

python experiments/flickr8k-entities/second_stage.py DATA STORE RUN [RUN ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.network import Fine, Matched
from deixis.methods.reir.train import Validation
from deixis.training.data import TrainingData
from deixis.vision.store import FeatureStore


def still(matched: Matched) -> Matched:
    """The box with the most votes, where it was proposed."""
    return replace(matched, fine=None, offsets=None)


def chosen(matched: Matched) -> Matched:
    """The second stage chooses among the boxes with the most votes (Eq. 11), and moves its choice."""
    assert isinstance(matched.fine, Fine)
    return replace(matched, by_votes=False)


WAYS: dict[str, Callable[[Matched], Matched]] = {
    "votes, box as proposed": still,
    "votes, box moved by both stages": lambda matched: matched,
    "second stage chooses": chosen,
}


def main(data: Path, store: Path, runs: list[Path]) -> None:
    """Three lines for each run."""
    torch.set_num_threads(1)
    asked = Validation(replace(TrainingData.from_folder(data, FeatureStore(store)), training=[]))
    for run in runs:
        grounder = ReirGrounder.from_pretrained(run)
        match = grounder.refiner.forward
        for name, change in WAYS.items():
            grounder.refiner.forward = lambda *args, change=change, match=match: change(match(*args))
            scores = asked.scores(grounder)
            print(f"{run.parent.name}/{run.name}, {name}: accuracy {scores['accuracy']:.3f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(run) for run in sys.argv[3:]])
