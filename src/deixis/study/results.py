"""Results of a study, computed as in Cyclical (Sec. 4.5), and agreement of the raters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

import numpy as np

from deixis.types import Json

VERDICTS = ("a", "b", "equal")
RESAMPLES = 10_000


@dataclass(frozen=True)
class Rating:
    """Choice of one rater for one item."""

    rater: str
    item: int
    image: str
    verdict: str  # "a", "b" or "equal"
    a_left: bool  # whether the box of A was shown on the left


@dataclass(frozen=True)
class Agreement:
    """Shares among all pairs of ratings of the same item."""

    pairs: int
    same: float
    opposite: float  # one rater chose A, the other B
    ambiguous: float  # one rater chose A or B, the other "equal"
    kappa: float | None  # Fleiss' kappa; None if all ratings are the same

    def lines(self) -> list[str]:
        """Agreement as text."""
        shares = f"{self.same:.1%} the same, {self.opposite:.1%} opposite, {self.ambiguous:.1%} ambiguous"
        kappa = "undefined (all ratings are the same)" if self.kappa is None else f"{self.kappa:.2f}"
        return [f"agreement of {self.pairs:,} pairs of ratings: {shares}", f"Fleiss' kappa: {kappa}"]


@dataclass(frozen=True)
class Results:
    """Results of a study; shares are of all ratings."""

    ratings: int
    words: int  # words with a rating
    images: int
    raters: Mapping[str, int]  # name -> ratings
    a: float
    b: float
    equal: float
    difference: float  # b - a
    interval: tuple[float, float]  # 95 %, images resampled
    left: float | None  # share of the left side among ratings that prefer a side; 0.5: no bias
    agreement: Agreement | None  # None if no word has two ratings

    def to_json(self) -> Json:
        """All fields."""
        return asdict(self)

    def lines(self, a: str, b: str, assigned: Mapping[str, int]) -> list[str]:
        """Difference, agreement, bias and raters as text; ``assigned`` is the number of words of each rater."""
        low, high = self.interval
        interval = f"95 % interval {100 * low:+.1f} to {100 * high:+.1f}"
        lines = ["", f"{b} over {a}: {100 * self.difference:+.1f} points, {interval}"]
        if self.agreement is None:
            lines.append("agreement: no word has two raters yet")
        else:
            lines += self.agreement.lines()
        if self.left is not None:
            lines.append(f"left side, where a side was preferred: {self.left:.1%}")
        raters = ", ".join(f"{name} ({done:,} of {assigned[name]:,})" for name, done in self.raters.items())
        lines.append(f"{self.ratings:,} ratings of {self.words:,} words in {self.images:,} photographs by {raters}")
        return lines


def summarise(ratings: Sequence[Rating]) -> Results | None:
    """Compute the results of a study; None if there are no ratings."""
    if not ratings:
        return None
    counts = Counter(rating.verdict for rating in ratings)
    total = len(ratings)
    sided = [rating.a_left == (rating.verdict == "a") for rating in ratings if rating.verdict != "equal"]
    return Results(
        ratings=total,
        words=len({rating.item for rating in ratings}),
        images=len({rating.image for rating in ratings}),
        raters=dict(Counter(rating.rater for rating in ratings)),
        a=counts["a"] / total,
        b=counts["b"] / total,
        equal=counts["equal"] / total,
        difference=(counts["b"] - counts["a"]) / total,
        interval=_interval(ratings),
        left=sum(sided) / len(sided) if sided else None,
        agreement=agreement(ratings),
    )


def agreement(ratings: Sequence[Rating]) -> Agreement | None:
    """Agreement of the raters on the words with several ratings."""
    items: defaultdict[int, list[str]] = defaultdict(list)
    for rating in ratings:
        items[rating.item].append(rating.verdict)
    shared = [verdicts for verdicts in items.values() if len(verdicts) > 1]
    pairs = [pair for verdicts in shared for pair in combinations(verdicts, 2)]
    if not pairs:
        return None
    same = sum(one == other for one, other in pairs)
    opposite = sum({one, other} == {"a", "b"} for one, other in pairs)
    count = len(pairs)
    rest = count - same - opposite
    return Agreement(count, same / count, opposite / count, rest / count, fleiss_kappa(shared))


def fleiss_kappa(items: Sequence[Sequence[str]]) -> float | None:
    """Fleiss' kappa of items with at least two ratings each.

    With n ratings of an item, n_j of them for verdict j, its agreement is the share of equal pairs,
    ``sum_j n_j (n_j - 1) / (n (n - 1))``. The chance agreement is ``sum_j p_j^2`` with p_j the mean share of verdict j.
    """
    table = np.array([[item.count(verdict) for verdict in VERDICTS] for item in items], dtype=np.float64)  # [N, 3]
    n = table.sum(1)
    observed = ((table * (table - 1)).sum(1) / (n * (n - 1))).mean()
    chance = ((table / n[:, None]).mean(0) ** 2).sum()
    return None if np.isclose(chance, 1) else float((observed - chance) / (1 - chance))


def _interval(ratings: Sequence[Rating], seed: int = 0) -> tuple[float, float]:
    """95 % bootstrap interval of the difference; images are resampled, as words of an image are not independent."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for rating in ratings:
        sums[rating.image][0] += {"a": -1, "b": 1, "equal": 0}[rating.verdict]
        sums[rating.image][1] += 1
    table = np.array(list(sums.values()), dtype=np.float64)  # [images, 2]
    chance = np.random.default_rng(seed)
    drawn = chance.multinomial(len(table), np.full(len(table), 1 / len(table)), size=RESAMPLES) @ table
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return float(low), float(high)
