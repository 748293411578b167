"""From a score that orders answers to one that says how likely an answer is right, in [0, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Calibration:
    """A logistic curve (Platt scaling); as it is, one half everywhere."""

    slope: float = 0.0
    offset: float = 0.0

    def __call__(self, evidence: float) -> float:
        """The chance that what has this much evidence is there."""
        x = self.slope * evidence + self.offset
        return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def fit(present: npt.ArrayLike, absent: npt.ArrayLike, steps: int = 50) -> Calibration:
    """The curve that tells the evidence of what is there from that of what is not, both as likely as each other.

    Newton's method on the mean log-loss. A little pull towards 0 keeps the slope finite where the two do not overlap,
    and evidence that speaks against what it stands for counts as none.
    """
    there, gone = np.asarray(present, dtype=np.float64), np.asarray(absent, dtype=np.float64)
    if not len(there) or not len(gone):
        return Calibration()
    x = np.concatenate([there, gone])
    middle, spread = float(x.mean()), float(x.std()) or 1.0
    columns = np.stack([(x - middle) / spread, np.ones_like(x)], 1)
    truth = np.repeat([1.0, 0.0], [len(there), len(gone)])
    weight = np.repeat([0.5 / len(there), 0.5 / len(gone)], [len(there), len(gone)])
    pull = np.diag([1e-3, 0.0])
    curve = np.zeros(2)
    for _ in range(steps):
        p = 1 / (1 + np.exp(-columns @ curve))
        gradient = columns.T @ (weight * (p - truth)) + pull @ curve
        hessian = (columns.T * (weight * p * (1 - p))) @ columns + pull
        step = np.linalg.solve(hessian + 1e-9 * np.eye(2), gradient)
        curve -= step
        if np.abs(step).max() < 1e-10:
            break
    if curve[0] <= 0:
        return Calibration()
    return Calibration(float(curve[0] / spread), float(curve[1] - curve[0] * middle / spread))


def auc(present: npt.ArrayLike, absent: npt.ArrayLike) -> float:
    """How often what is there has more evidence than what is not (area under the ROC curve); ties count half."""
    there, gone = np.sort(np.asarray(present, dtype=np.float64)), np.sort(np.asarray(absent, dtype=np.float64))
    if not len(there) or not len(gone):
        raise ValueError("there is nothing to tell apart")
    below = np.searchsorted(gone, there, "left") + np.searchsorted(gone, there, "right")
    return float(below.mean() / 2 / len(gone))
