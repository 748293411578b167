"""Compare pairs of rows of the comparison; its tables compare rows with their baseline only.

    python experiments/flickr8k-entities/against.py > experiments/flickr8k-entities/against.txt

Each line: two rows, the seeds that both have, a score of the test split as the mean over these seeds (per cent), the
difference with its 95 % interval and p of the paired bootstrap. Read from the kept runs alone.
"""

from __future__ import annotations

from pathlib import Path

from deixis.evaluation.tables.describe import read_experiment
from deixis.evaluation.tables.kept import read_kept
from deixis.metrics.bootstrap import paired_bootstrap

CAPTIONS = ("CIDEr", "F1_loc", "F1_loc_per_sent", "attention_accuracy")
PHRASES = ("accuracy", "pointing")

PAIRS = (
    ("distributed-attention-all", "distributed-attention", CAPTIONS),
    ("distributed-attention", "distributed-attention+pos-scan", CAPTIONS),
    ("distributed-attention+pos-scan", "distributed-attention+pos-scan+cycle", CAPTIONS),
    ("updown", "updown+scst-cider", CAPTIONS),
    ("updown", "updown+scst-pos-scan", CAPTIONS),
    ("updown-vote", "updown+scst-cider-vote", CAPTIONS),
    ("updown-vote", "updown+scst-pos-scan-vote", CAPTIONS),
    ("updown+scst-cider-vote", "updown+scst-pos-scan-vote", CAPTIONS),
    ("updown-vote", "distributed-attention-vote", CAPTIONS),
    ("updown-vote", "cyclical-vote", CAPTIONS),
    ("updown-vote", "updown+pos-scan-vote", CAPTIONS),
    ("scan", "pos-scan", PHRASES),
    ("scan-vote", "pos-scan-vote", PHRASES),
    ("grounder-reconstruction", "reir", PHRASES),
    ("pos-scan-vote", "reir-whole", PHRASES),
    ("reir-whole", "reir-coco-ssd", PHRASES),
    ("albef", "amc", PHRASES),
    ("pos-scan", "albef", PHRASES[1:]),
)


def main() -> None:
    """Print the lines."""
    experiment = read_experiment(Path(__file__).parent)
    kept = read_kept(experiment)
    for first, second, names in PAIRS:
        rows = [experiment.rows[name] for name in (first, second)]
        seeds = [seed for seed in rows[0].seeds if all(f"{row.name}-{seed}" in kept for row in rows)]
        several = [[kept[f"{row.name}-{seed}"].scores(experiment.report) for seed in seeds] for row in rows]
        a, b = ([{name: scores[name] for name in names} for scores in each] for each in several)
        for one in paired_bootstrap(a, b):
            low, high = one.difference_interval
            values = f"{100 * one.a:5.1f} -> {100 * one.b:5.1f}  {100 * one.difference:+5.1f} "
            interval = f"({100 * low:+.1f} to {100 * high:+.1f}, p {one.p:.4f})"
            print(f"{first} -> {second}, seeds {seeds}, {one.name}: {values}{interval}")


if __name__ == "__main__":
    main()
