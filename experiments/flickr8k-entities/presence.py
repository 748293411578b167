"""Compare evidence that a phrase or a caption belongs to a photograph: match head, pair score, and their sum.

    python experiments/flickr8k-entities/presence.py DATA STORE RUN > experiments/flickr8k-entities/presence.txt

Validation photographs, no boxes. Texts of the next photograph are absent. The last line has the calibration of the pair
score; training fits the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import tyro

from deixis.calibration import Presence, auc
from deixis.data import load
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.presence import pair_evidence
from deixis.pipelines.models import load_grounder
from deixis.pipelines.results import MIN_PRESENCE
from deixis.training.presence import EvidenceSamples, collect_evidence
from deixis.types import Regions
from deixis.vision.store import FeatureStore


@torch.no_grad()
def match_evidence(grounder: AlbefGrounder, photo: Regions, texts: Sequence[str]) -> list[float]:
    """Return the log-odds of the match head for each text."""
    network = grounder.network
    (encoded,), pieces = grounder.encode([photo]), grounder.texts(texts)
    logits = network.match_logits(network.fuse(network.encode_text(pieces), pieces, encoded.image))
    return (logits[:, 1] - logits[:, 0]).tolist()


def summed(one: EvidenceSamples, other: EvidenceSamples) -> EvidenceSamples:
    """Return the sum of two kinds of evidence, each divided by its standard deviation."""
    a, b = (1 / np.std([*samples.present, *samples.absent]) for samples in (one, other))
    return EvidenceSamples(
        [a * x + b * y for x, y in zip(one.present, other.present, strict=True)],
        [a * x + b * y for x, y in zip(one.absent, other.absent, strict=True)],
    )


def print_scores(name: str, samples: EvidenceSamples) -> None:
    """Print the AUC, and the shares of correct decisions with a calibration that is fitted on the same texts."""
    calibration = samples.calibration()
    present = np.mean([calibration(x) >= MIN_PRESENCE for x in samples.present])
    absent = np.mean([calibration(x) < MIN_PRESENCE for x in samples.absent])
    print(f"{name:27} AUC {auc(samples.present, samples.absent):.3f}; calibrated: ", end="")
    print(f"{present:.1%} of {len(samples.present)} present and {absent:.1%} of {len(samples.absent)} absent correct")


def main(
    data: tyro.conf.Positional[Path],
    store: tyro.conf.Positional[Path],
    run: tyro.conf.Positional[str],
    limit: int | None = None,
) -> None:
    """Print the scores of phrases and of captions.

    Args:
        data: the data set.
        store: features of its validation split, with grids.
        run: a fusion model, by name or folder.
        limit: use only this many photographs.
    """
    torch.set_num_threads(1)
    grounder = load_grounder(run, "cpu")
    if not isinstance(grounder, AlbefGrounder):
        raise SystemExit(f"{run} has no match head. Give a fusion model (albef, amc).")
    samples, features = load(data, "val").samples[:limit], FeatureStore(store)
    pairs = collect_evidence(samples, features.__getitem__, partial(pair_evidence, grounder))
    matches = collect_evidence(samples, features.__getitem__, partial(match_evidence, grounder))
    for kind, pair, match in zip(("phrases", "captions"), pairs, matches, strict=True):
        print_scores(f"{kind}, match head", match)
        present, absent = np.mean(np.array(match.present) >= 0), np.mean(np.array(match.absent) < 0)
        print(f"{'':27} not calibrated: {present:.1%} and {absent:.1%}")
        print_scores(f"{kind}, pair score, names", pair)
        print_scores(f"{kind}, sum", summed(match, pair))
    print(Presence(*(samples.calibration() for samples in pairs)))


if __name__ == "__main__":
    tyro.cli(main)
