"""Share of the gap to a supervised system that a method closes: (method - baseline) / (supervised - baseline)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deixis.metrics.bootstrap import Interval, Scores, groups
from deixis.metrics.score import RULES

RESAMPLES_AT_ONCE = 250


@dataclass(frozen=True)
class Gap:
    """Gap of one metric, with the middle 95 % of its resampled values."""

    name: str
    baseline: float
    method: float
    supervised: float
    closed: float | None  # None: the supervised system equals the baseline
    interval: Interval | None


def gap_closed(baseline: Scores, method: Scores, supervised: Scores, n: int = 10_000, seed: int = 0) -> list[Gap]:
    """Compute the share for each metric that all three systems have, by paired bootstrap over the same items."""
    found = []
    for name in [name for names in groups(baseline, method, supervised) for name in names]:
        systems = [system[name] for system in (baseline, method, supervised)]
        if len({score.ids for score in systems}) != 1:
            continue
        first, own, best = (score.value for score in systems)
        closed = None if best == first else (own - first) / (best - first)
        rng = np.random.default_rng(seed)
        items, rule = len(systems[0].ids), RULES[systems[0].rule]
        drawn = []
        for start in range(0, n, RESAMPLES_AT_ONCE):
            size = min(RESAMPLES_AT_ONCE, n - start)
            weights = rng.multinomial(items, np.full(items, 1 / items), size).astype(np.float64)
            low, middle, high = (rule(weights @ score.stats) for score in systems)
            with np.errstate(divide="ignore", invalid="ignore"):
                drawn.append((middle - low) / (high - low))
        values = np.concatenate(drawn)
        usable = values[np.isfinite(values)]
        bounds = np.percentile(usable, [2.5, 97.5]) if closed is not None and len(usable) else None
        interval = None if bounds is None else (float(bounds[0]), float(bounds[1]))
        found.append(Gap(name, first, own, best, closed, interval))
    return found
