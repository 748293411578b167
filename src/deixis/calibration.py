"""Calibration of match scores to probabilities (Platt scaling)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Calibration:
    """Logistic curve p = 1 / (1 + exp(-(slope * evidence + offset))); the default is 0.5 for any evidence."""

    slope: float = 0.0
    offset: float = 0.0

    def __call__(self, evidence: float) -> float:
        """Return the probability that a phrase with this evidence is present."""
        x = self.slope * evidence + self.offset
        return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


@dataclass(frozen=True)
class Presence:
    """Calibration of evidence: probability that a phrase, or a whole caption, belongs to the photograph."""

    phrase: Calibration
    caption: Calibration


UNKNOWN_SCORE = 0.1
"""Greatest score of a phrase whose head word is in no training caption; its evidence means nothing."""


def fit(present: npt.ArrayLike, absent: npt.ArrayLike, steps: int = 50) -> Calibration:
    """Fit the curve to evidence of present and of absent phrases; both groups have the same total weight.

    Newton's method on the mean log-loss. A small L2 penalty keeps the slope finite if the two groups do not overlap.
    If the slope is not positive, the curve is 0.5 everywhere.
    """
    positive, negative = np.asarray(present, dtype=np.float64), np.asarray(absent, dtype=np.float64)
    counts = len(positive), len(negative)
    if not all(counts):
        return Calibration()
    x = np.concatenate([positive, negative])
    mean, std = float(x.mean()), float(x.std()) or 1.0
    columns = np.stack([(x - mean) / std, np.ones_like(x)], 1)
    truth = np.repeat([1.0, 0.0], counts)
    weight = np.repeat([0.5 / counts[0], 0.5 / counts[1]], counts)
    penalty = np.diag([1e-3, 0.0])
    curve = np.zeros(2)
    for _ in range(steps):
        p = 1 / (1 + np.exp(-columns @ curve))
        gradient = columns.T @ (weight * (p - truth)) + penalty @ curve
        hessian = (columns.T * (weight * p * (1 - p))) @ columns + penalty
        step = np.linalg.solve(hessian + 1e-9 * np.eye(2), gradient)
        curve -= step
        if np.abs(step).max() < 1e-10:
            break
    if curve[0] <= 0:
        return Calibration()
    return Calibration(float(curve[0] / std), float(curve[1] - curve[0] * mean / std))


def auc(present: npt.ArrayLike, absent: npt.ArrayLike) -> float:
    """Area under the ROC curve: P(evidence of present > evidence of absent); ties count half."""
    positive, negative = np.asarray(present, dtype=np.float64), np.sort(np.asarray(absent, dtype=np.float64))
    if not len(positive) or not len(negative):
        raise ValueError("the AUC needs evidence of present and of absent items")
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    return float(below.mean() / 2 / len(negative))
