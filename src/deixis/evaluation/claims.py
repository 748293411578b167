"""Verdicts on claims of papers from the kept runs of a comparison: ``claims.toml`` next to ``table.toml``.

A claim is that a row has a higher score than another one. Verdicts by the 95 % interval of the difference: "held" if it
is above 0 ("held, smaller effect" if it is also below the effect of the paper); "refuted" only if it is not, and
excludes the effect of the paper; else "undecided", also with fewer than three seeds, because the interval does not have
the variation between seeds. If a claim has a precondition that its rows do not meet in every seed, the verdict is
"precondition not met".
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from deixis.errors import DeixisError
from deixis.evaluation.tables.describe import Experiment
from deixis.evaluation.tables.kept import KeptRun, read_kept
from deixis.files import read_text
from deixis.metrics.bootstrap import Comparison, Scores, paired_bootstrap
from deixis.show.markdown import between_marks, markdown
from deixis.toml import from_toml, require, value_of
from deixis.types import Json

FILE = "claims.toml"

Verdict = Literal["held", "held, smaller effect", "refuted", "undecided", "precondition not met"]


@dataclass(frozen=True)
class Precondition:
    """A row has a higher score than another row, in every seed that both have."""

    row: str
    than: str
    score: str
    other_score: str = ""  # of the other row; empty: the same
    split: Literal["choose", "report"] = "choose"
    interval: bool = False  # the interval of the difference must be above 0, too


@dataclass(frozen=True)
class Claim:
    """A row has a higher score than another row."""

    text: str
    row: str
    than: str
    score: str
    effect: float  # difference in the paper, per cent
    precondition: Precondition | None = None
    least_seeds: int = 3  # with fewer seeds the claim is undecided


@dataclass(frozen=True)
class Result:
    """A claim with what the kept runs say about it."""

    claim: Claim
    verdict: Verdict
    difference: Comparison | None  # None: the precondition is not met, and the rows of the claim were not trained
    seeds: tuple[int, ...]  # of both rows
    precondition: tuple[tuple[float, float], ...]  # scores of both rows of the precondition, for each seed

    def to_json(self) -> Json:
        """Return all values."""
        return asdict(self)

    def cells(self) -> list[str]:
        """Return the line of a table."""
        shown = "not measured"
        if self.difference is not None:
            low, high = self.difference.difference_interval
            shown = f"{100 * self.difference.difference:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        both = [f"{100 * a:.1f} {'>' if a > b else '≤'} {100 * b:.1f}" for a, b in self.precondition]
        return [
            self.claim.text,
            ", ".join(map(str, self.seeds)) or "none",
            ", ".join(both) or "none",
            shown,
            f"{self.claim.effect:+g}",
            self.verdict,
        ]


def decide(interval: tuple[float, float], effect: float, met: bool = True) -> Verdict:
    """Return the verdict on a difference with this interval; ``effect`` is that of the paper, above 0."""
    low, high = interval
    if not met:
        return "precondition not met"
    if low > 0:
        return "held, smaller effect" if high < effect else "held"
    return "refuted" if high < effect else "undecided"


def read_claims(experiment: Experiment) -> list[Claim]:
    """Read ``claims.toml`` of an experiment; without the file there are no claims."""
    path = experiment.folder / FILE
    if not path.exists():
        return []
    try:
        table = tomllib.loads(read_text(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DeixisError(f"{path} cannot be read ({error}). Correct it.") from None
    found = []
    for number, values in enumerate(value_of(table.get("claims"), list, f"{path}: field 'claims'"), start=1):
        where = f"{path}: claim {number}"
        claim = from_toml(Claim, values, where)
        named = [claim.row, claim.than]
        named += [] if claim.precondition is None else [claim.precondition.row, claim.precondition.than]
        for name in named:
            require(name in experiment.rows, where, f"no row '{name}' is described. Correct the name.")
        require(claim.effect > 0, where, "'effect' must be above 0. Exchange 'row' and 'than'.")
        found.append(claim)
    return found


def judge(experiment: Experiment, claim: Claim, kept: Mapping[str, KeptRun]) -> Result | None:
    """Compare the rows of a claim over the seeds that both have; None while runs are missing.

    A precondition that is not met is a result without the rows of the claim.
    """
    met, values = True, []
    if claim.precondition is not None:
        values = _precondition(experiment, claim.precondition, kept)
        if not values:
            return None
        met = all(a > b for a, b in values) and _above(experiment, claim.precondition, kept)
    seeds = _common(experiment, kept, claim.row, claim.than)
    if not seeds:
        return None if met else Result(claim, "precondition not met", None, (), tuple(values))
    than, row = (
        _scores(experiment, kept, name, seeds, experiment.report, claim.score) for name in (claim.than, claim.row)
    )
    (difference,) = paired_bootstrap(than, row)
    verdict = decide(difference.difference_interval, claim.effect / 100, met)
    if met and len(seeds) < claim.least_seeds:
        verdict = "undecided"
    return Result(claim, verdict, difference, seeds, tuple(values))


def _precondition(
    experiment: Experiment, condition: Precondition, kept: Mapping[str, KeptRun]
) -> list[tuple[float, float]]:
    """Return the scores of both rows for each seed that both have."""
    split = experiment.choose if condition.split == "choose" else experiment.report
    values = []
    for seed in _common(experiment, kept, condition.row, condition.than):
        first = _run(experiment, kept, condition.row, seed).value(split, condition.score)
        second = _run(experiment, kept, condition.than, seed).value(split, condition.other_score or condition.score)
        if first is None or second is None:
            raise DeixisError(f"{experiment.folder}: seed {seed} of '{condition.row}' has no {condition.score}.")
        values.append((first[0], second[0]))
    return values


def _above(experiment: Experiment, condition: Precondition, kept: Mapping[str, KeptRun]) -> bool:
    """Return whether the interval of the difference is above 0, where the precondition asks for it."""
    if not condition.interval:
        return True
    split = experiment.choose if condition.split == "choose" else experiment.report
    seeds = _common(experiment, kept, condition.row, condition.than)
    than = _scores(experiment, kept, condition.than, seeds, split, condition.other_score or condition.score)
    row = _scores(experiment, kept, condition.row, seeds, split, condition.score)
    return paired_bootstrap(than, row)[0].difference_interval[0] > 0


def _scores(
    experiment: Experiment, kept: Mapping[str, KeptRun], row: str, seeds: Sequence[int], split: str, score: str
) -> list[Scores]:
    runs = [_run(experiment, kept, row, seed) for seed in seeds]
    return [{"score": replace(run.scores(split)[score], name="score")} for run in runs]


def write_verdicts(experiment: Experiment) -> list[Result]:
    """Write the verdicts on all claims with finished runs into the README of the experiment."""
    kept, claims = read_kept(experiment), read_claims(experiment)
    results = [result for claim in claims if (result := judge(experiment, claim, kept)) is not None]
    if not claims:
        return []
    head = ["claim", "seeds", "precondition", "difference (95 % interval)", "in the paper", "verdict"]
    shown = markdown(head, [result.cells() for result in results]) if results else "No claim has finished runs."
    between_marks(experiment.folder / "README.md", shown, "claims")
    return results


def _common(experiment: Experiment, kept: Mapping[str, KeptRun], *rows: str) -> tuple[int, ...]:
    """Return the seeds that all rows have; a control has every seed of the others."""
    found = [
        {seed for seed in experiment.rows[row].seeds if f"{row}-{seed}" in kept}
        for row in rows
        if not experiment.rows[row].control
    ]
    missing = any(experiment.rows[row].control and row not in kept for row in rows)
    return () if missing or not found else tuple(sorted(set.intersection(*found)))


def _run(experiment: Experiment, kept: Mapping[str, KeptRun], row: str, seed: int) -> KeptRun:
    return kept[row if experiment.rows[row].control else f"{row}-{seed}"]
