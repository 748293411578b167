"""What tells best whether a phrase or a caption belongs to a photograph: the match head, the pair score, or their sum.

    python experiments/flickr8k-entities/presence.py DATA STORE RUN [keep]

Validation photographs, no boxes. With ``keep`` the curves that make chances of the pair score go into RUN.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from deixis.calibration import auc
from deixis.data import load
from deixis.methods.albef.model import AlbefGrounder, Presence
from deixis.methods.albef.presence import EvidenceFunction, EvidenceSamples, collect_evidence, pair_evidence
from deixis.pipelines.results import MIN_PRESENCE
from deixis.types import Regions
from deixis.vision.store import FeatureStore


def match_odds(pointer: AlbefGrounder) -> EvidenceFunction:
    """Log-odds of the match head, as evidence."""

    @torch.no_grad()
    def find(photo: Regions, texts: Sequence[str]) -> list[float]:
        network = pointer.network
        (encoded,), some = pointer.encode([photo]), pointer.texts(texts)
        logits = network.match_logits(network.fuse(network.encode_text(some), some, encoded.image))
        return (logits[:, 1] - logits[:, 0]).tolist()

    return find


def both(one: EvidenceSamples, other: EvidenceSamples) -> EvidenceSamples:
    """The sum of two kinds of evidence, each in units of its own deviation."""
    a, b = (1 / np.std([*told.present, *told.absent]) for told in (one, other))
    return EvidenceSamples(
        [a * x + b * y for x, y in zip(one.present, other.present, strict=True)],
        [a * x + b * y for x, y in zip(one.absent, other.absent, strict=True)],
    )


def tell(name: str, told: EvidenceSamples) -> None:
    """AUC, and what a chance of one half would be right about, for the curve of these very texts."""
    curve = told.calibration()
    there = np.mean([curve(x) >= MIN_PRESENCE for x in told.present])
    gone = np.mean([curve(x) < MIN_PRESENCE for x in told.absent])
    print(
        f"{name:22} AUC {auc(told.present, told.absent):.3f}; with its curve {there:.1%} of {len(told.present)} texts "
        f"of the photograph found, {gone:.1%} of {len(told.absent)} others not",
        flush=True,
    )


def main(data: Path, store: FeatureStore, run: Path, keep: bool) -> None:
    """Three lines for phrases, three for captions."""
    torch.set_num_threads(1)
    pointer = AlbefGrounder.from_pretrained(run)
    samples = load(data, "val").samples
    pairs = collect_evidence(samples, store.__getitem__, partial(pair_evidence, pointer))
    matches = collect_evidence(samples, store.__getitem__, match_odds(pointer))
    for kind, pair, match in zip(("phrases", "captions"), pairs, matches, strict=True):
        tell(f"{kind}, match", match)
        half = [np.mean([x >= 0 for x in match.present]), np.mean([x < 0 for x in match.absent])]
        print(f"{'':22} as it is: {half[0]:.1%} found, {half[1]:.1%} not")
        tell(f"{kind}, pair score, names", pair)
        tell(f"{kind}, sum", both(match, pair))
    presence = Presence(*(told.calibration() for told in pairs))
    print(presence)
    if keep:
        pointer.presence = presence
        pointer.save_pretrained(run)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5) or sys.argv[4:] not in ([], ["keep"]):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), FeatureStore(Path(sys.argv[2])), Path(sys.argv[3]), len(sys.argv) == 5)
