"""Share of the gap to a supervised system that a method closes: (method - baseline) / (supervised - baseline)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deixis.metrics.bootstrap import Interval, Scores, groups
from deixis.metrics.score import RULES, Score

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


Gaps = Mapping[str, Gap]  # by name of the metric


def gap_of_means(
    name: str,
    baseline: Sequence[Score],
    method: Sequence[Score],
    supervised: Sequence[Score],
    *,
    n: int = 10_000,
    seed: int = 0,
) -> Gap:
    """Compute the share for one metric between the means over the seeds of three systems, scored on the same items."""
    systems = [baseline, method, supervised]
    one = baseline[0]
    if len({score.ids for scores in systems for score in scores}) != 1:
        raise ValueError(f"{name} was computed on different items")
    first, own, best = (float(np.mean([score.value for score in scores])) for scores in systems)
    closed = None if best == first else (own - first) / (best - first)
    rng = np.random.default_rng(seed)
    items, rule = len(one.ids), RULES[one.rule]
    drawn = []
    for start in range(0, n, RESAMPLES_AT_ONCE):
        size = min(RESAMPLES_AT_ONCE, n - start)
        weights = rng.multinomial(items, np.full(items, 1 / items), size).astype(np.float64)
        low, middle, high = (np.mean([rule(weights @ s.stats) for s in scores], axis=0) for scores in systems)
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn.append((middle - low) / (high - low))
    values = np.concatenate(drawn)
    usable = values[np.isfinite(values)]
    bounds = np.percentile(usable, [2.5, 97.5]) if closed is not None and len(usable) else None
    return Gap(name, first, own, best, closed, None if bounds is None else (float(bounds[0]), float(bounds[1])))


def gaps_between(
    rows: Mapping[str, Sequence[Scores]], row: str, baseline: str, supervised: str, names: Sequence[str], n: int
) -> Gaps:
    """Compute the share for each metric, over the seeds of three rows, where all have the same signature."""
    several = [rows[baseline], rows[row], rows.get(supervised, [])]
    if row in (baseline, supervised) or not all(several):
        return {}
    found = {}
    for name in names:
        every = [scores for each in several for scores in each]
        if all(name in scores for scores in every) and len({scores[name].signature for scores in every}) == 1:
            low, own, high = ([scores[name] for scores in each] for each in several)
            found[name] = gap_of_means(name, low, own, high, n=n)
    return found


def gap_closed(baseline: Scores, method: Scores, supervised: Scores, n: int = 10_000, seed: int = 0) -> list[Gap]:
    """Compute the share for each metric that all three systems have, by paired bootstrap over the same items."""
    found = []
    for name in [name for names in groups(baseline, method, supervised) for name in names]:
        systems = [system[name] for system in (baseline, method, supervised)]
        if len({score.ids for score in systems}) != 1:
            continue
        found.append(gap_of_means(name, *([score] for score in systems), n=n, seed=seed))
    return found
