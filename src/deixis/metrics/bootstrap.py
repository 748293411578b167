"""Paired bootstrap test of two systems on the same items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.metrics.score import RULES, Score, Values, protocol

BLOCK_CELLS = 2**19
"""Weights in one block of resamples (4 MiB, to fit the CPU cache)."""

Interval = tuple[float, float]
Scores = Mapping[str, Score]  # of one system, by name


@dataclass(frozen=True)
class Comparison:
    """One metric of two systems A and B, with intervals from resampling the items."""

    name: str
    signature: str
    items: int
    a: float
    b: float
    difference: float  # b - a
    a_interval: Interval
    b_interval: Interval
    difference_interval: Interval
    p: float


def paired_bootstrap(
    a: Scores | Sequence[Scores],
    b: Scores | Sequence[Scores],
    n: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    done: Callable[[int], object] = lambda resamples: None,
) -> list[Comparison]:
    """Compare each metric that both systems have, in the order of ``a``.

    A resample draws n items out of n with replacement, the same items for both systems. The metric's rule is applied
    to the sums over the drawn items. Phrases of one image (``image#phrase``) are drawn together, because they are not
    independent. Intervals are the middle 95 % of the resampled values. Corpus-level quantities, such as CIDEr's
    document frequencies, are not resampled.

    A system trained with several seeds is given as the sequence of their scores. Its value is the mean over the
    seeds, also in each resample. The variance between seeds is not part of the interval.

    The p-value is two-sided, for the null hypothesis that both systems are equal. With the observed difference d and
    the resampled differences d*: ``p = (1 + #{|d* - d| >= |d|}) / (1 + n)``.

    ``done`` is called with the number of resamples just finished, out of ``n`` for each group of metrics
    (:func:`groups`).
    """
    seeds = [[system] if isinstance(system, Mapping) else list(system) for system in (a, b)]
    first = seeds[0][0]
    common = groups(first, *seeds[0][1:], *seeds[1])
    comparisons: dict[str, Comparison] = {}
    tail = 100 * (1 - confidence) / 2
    for names in common:
        image = _images(first[names[0]].ids)
        # Precision, recall and F1 share one table; it is summed once.
        tables: dict[int, Values] = {}
        for scores in (*seeds[0], *seeds[1]):
            for name in names:
                rows = _matched(first[name], scores[name])
                tables.setdefault(id(scores[name].stats), scores[name].stats[rows])
        sum_functions = {key: _sum_function(_summed_by(image, stats)) for key, stats in tables.items()}
        values: dict[str, list[Values]] = {name: [] for name in names}  # [2, block] each
        for weights in _resamples(int(image.max()) + 1, n, seed):
            sums = {key: summed(weights) for key, summed in sum_functions.items()}
            for name in names:
                rule = RULES[first[name].rule]
                drawn = [np.mean([rule(sums[id(one[name].stats)]) for one in system], axis=0) for system in seeds]
                values[name].append(np.stack(drawn))
            done(weights.shape[1])
        for name in names:
            of_a, of_b = np.concatenate(values[name], axis=1)  # [n] each
            value_a, value_b = (float(np.mean([one[name].value for one in system])) for system in seeds)
            difference = value_b - value_a
            shifted = np.abs(of_b - of_a - difference)
            # The tolerance keeps ties: the order of summation changes the last digit.
            extreme = int((shifted >= abs(difference) - 1e-12).sum())
            low, high = np.percentile(np.stack([of_a, of_b, of_b - of_a]), [tail, 100 - tail], axis=1)
            comparisons[name] = Comparison(
                name=name,
                signature=first[name].signature,
                items=len(image),
                a=value_a,
                b=value_b,
                difference=difference,
                a_interval=(float(low[0]), float(high[0])),
                b_interval=(float(low[1]), float(high[1])),
                difference_interval=(float(low[2]), float(high[2])),
                p=(1 + extreme) / (1 + n),
            )
    return [comparisons[name] for name in first if name in comparisons]


def groups(a: Scores, *others: Scores) -> list[list[str]]:
    """Group the metrics that all systems have by their items; a group shares its resamples."""
    by_items: dict[tuple[str, ...], list[str]] = {}
    for name, score in a.items():
        if all(name in other for other in others):
            by_items.setdefault(score.ids, []).append(name)
    return list(by_items.values())


def by_image(score: Score) -> Score:
    """Sum the statistics of a score over the phrases of each image.

    The bootstrap is unchanged, because it draws the phrases of an image together.
    """
    image = _images(score.ids)
    if len(image) == image.max(initial=-1) + 1:
        return score
    stats = _summed_by(image, score.stats)
    ids = tuple(dict.fromkeys(item.partition("#")[0] for item in score.ids))
    return replace(score, ids=ids, stats=stats, items=RULES[score.rule](stats))


def _matched(a: Score, b: Score) -> Sequence[int]:
    """Rows of B in the order of A's items; raise an error if the two scores are not comparable."""
    if (protocol(a.signature), a.rule) != (protocol(b.signature), b.rule):
        raise DeixisError(
            f"{a.name}: the signatures differ: A has {a.signature}, B has {b.signature}. Score both again with the "
            "same options and version."
        )
    if not a.ids:
        raise DeixisError(f"{a.name}: the score file has no items. Score the predictions again.")
    row = {item: number for number, item in enumerate(b.ids)}
    for ids, others, which in ((a.ids, row, "A"), (b.ids, set(a.ids), "B")):
        only = [item for item in ids if item not in others]
        if only:
            listed = ", ".join(only[:3]) + (f" and {len(only) - 3} more" if len(only) > 3 else "")
            raise DeixisError(f"{a.name}: only {which} has scores for {listed}. Score both systems on the same items.")
    return [row[item] for item in a.ids]


def _images(ids: Sequence[str]) -> npt.NDArray[np.intp]:
    """Index of the image of each item ``[n]``; an item without ``#`` is an image."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(item.partition("#")[0], len(numbers)) for item in ids], dtype=np.intp)


def _summed_by(image: npt.NDArray[np.intp], stats: Values) -> Values:
    """Sum item statistics ``[n, S]`` over the items of each image: ``[images, S]``."""
    if len(image) == image.max() + 1:
        return stats
    sums = np.zeros((int(image.max()) + 1, stats.shape[1]))
    np.add.at(sums, image, stats)
    return sums


def _resamples(items: int, n: int, seed: int) -> Iterator[Values]:
    """Yield blocks ``[items, block]`` of draw counts, with ``n`` columns in total."""
    generator = np.random.default_rng(seed)
    block = max(1, BLOCK_CELLS // items)
    for start in range(0, n, block):
        size = min(block, n - start)
        drawn = generator.integers(items, size=(size, items))
        cell = drawn * size + np.arange(size)[:, None]
        yield np.bincount(cell.ravel(), minlength=items * size).reshape(items, size).astype(np.float64)


def _sum_function(stats: Values) -> Callable[[Values], Values]:
    """Return a function that maps weights ``[n, block]`` to sums ``weights.T @ stats`` ``[block, S]``.

    Statistics per class are mostly zeros. For these, each column uses only its nonzero rows.
    """
    if np.count_nonzero(stats) > 0.1 * stats.size:
        return lambda weights: weights.T @ stats
    rows_of = {int(column): np.flatnonzero(stats[:, column]) for column in np.flatnonzero(stats.any(0))}
    parts = [(column, rows, stats[rows, column]) for column, rows in rows_of.items()]

    def sparse(weights: Values) -> Values:
        sums = np.zeros((stats.shape[1], weights.shape[1]))
        for column, rows, values in parts:
            sums[column] = values @ weights[rows]
        return np.ascontiguousarray(sums.T)

    return sparse
