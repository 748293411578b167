"""A score: a number that carries its protocol, and enough of each item to be resampled.

Every metric here is a function of the *sum over items of per-item statistics*: a mean is a total and a count, BLEU
is clipped matches and lengths, a class-averaged F1 is hits and counts per class. Keeping the statistics instead of
the bare number makes a paired bootstrap one matrix product, for every metric and exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis import __version__

Values = npt.NDArray[np.float64]
Rule = Callable[[Values], Values]  # sums of statistics [B, S] -> metric values [B]


@dataclass(frozen=True, eq=False)
class Score:
    """One metric of one system: ``value == rule(stats.sum(0))``."""

    name: str
    value: float
    signature: str  # protocol and version: scores are comparable only where signatures agree
    ids: tuple[str, ...]  # [n] what was scored: image ids, or image id and phrase
    items: Values  # [n] the metric of each item alone, for people and histograms; NaN where an item has none
    stats: Values  # [n, S] what the metric sums over
    rule: str  # name of the function of the sums, a key of RULES

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.4f} | {self.signature}"


def signature(**fields: object) -> str:
    """``"split:test|iou:>.5|v0.1.0"``: the fields in the order given, then the version."""
    return "|".join([*(f"{name}:{value}" for name, value in fields.items()), f"v{__version__}"])


def ratio(sums: Values) -> Values:
    """Total over count, from sums ``[B, 2]``; nothing counted gives 0."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.zeros(len(sums)), where=sums[:, 1] > 0)


RULES: dict[str, Rule] = {"mean": ratio}
"""The functions that turn summed statistics into a metric; each metric's file adds its own beside this one."""


def make_score(
    name: str, ids: Sequence[str], items: npt.ArrayLike, stats: npt.ArrayLike, rule: str, signature: str
) -> Score:
    """A score whose value is its rule applied to the summed statistics."""
    table = np.asarray(stats, dtype=np.float64)
    value = float(RULES[rule](table.sum(0, keepdims=True))[0])
    return Score(name, value, signature, tuple(ids), np.asarray(items, dtype=np.float64), table, rule)


def mean_score(name: str, ids: Sequence[str], items: npt.ArrayLike, signature: str) -> Score:
    """The plain mean over items ``[n]``; NaN items are left out of it."""
    values = np.asarray(items, dtype=np.float64)
    counted = ~np.isnan(values)
    stats = np.stack([np.where(counted, values, 0.0), counted.astype(np.float64)], axis=1)
    return make_score(name, ids, values, stats, "mean", signature)
