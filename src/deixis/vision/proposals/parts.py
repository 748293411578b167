"""Boxes of body parts and clothes from the keypoints of a person.

The keypoints are the 17 of COCO, in its order. Sizes are shares of the body unit: the length of the torso, from the
middle of the shoulders to the middle of the hips. The rules were checked on the validation split.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]

PARTS = ("head", "hat", "face", "torso", "top", "arm", "hand", "legs", "lower body", "foot", "feet", "outfit")
"""Names of the parts; a person has up to two arms, hands and feet."""

FACE = (0, 1, 2, 3, 4)  # nose, eyes, ears
SHOULDERS, ELBOWS, WRISTS = (5, 6), (7, 8), (9, 10)
HIPS, KNEES, ANKLES = (11, 12), (13, 14), (15, 16)
MIN_SCORE = 0.2  # of a keypoint that is used
MIN_UNIT = 0.12  # smallest body unit, as a share of the person's longer side


def part_boxes(keypoints: Floats, person: Floats) -> list[tuple[str, Floats]]:
    """Return names and boxes of the visible parts of a person, from keypoints ``[17, 3]`` (x, y, score).

    ``person`` is the person's box. The boxes are not clipped to the image.
    """
    seen = keypoints[:, 2] >= MIN_SCORE
    points, unit = keypoints[:, :2].astype(np.float64), body_unit(keypoints, person)
    found = _head_boxes(points, seen, unit)
    upper = [i for i in (*SHOULDERS, *HIPS) if seen[i]]
    if seen[list(SHOULDERS)].any() and seen[list(HIPS)].any():
        found.append(("torso", _around(points[upper], 0.2 * unit, 0.15 * unit)))
        arms = [i for i in (*ELBOWS, *WRISTS) if seen[i]]
        found.append(("top", _around(points[upper + arms], 0.15 * unit, 0.15 * unit)))
    for shoulder, elbow, wrist in zip(SHOULDERS, ELBOWS, WRISTS, strict=True):
        if seen[elbow] and seen[wrist]:
            chain = [i for i in (shoulder, elbow, wrist) if seen[i]]
            found.append(("arm", _around(points[chain], 0.15 * unit, 0.15 * unit)))
            # the hand continues the forearm
            centre = points[wrist] + 0.3 * (points[wrist] - points[elbow])
            found.append(("hand", _around(centre[None], 0.22 * unit, 0.22 * unit)))
    return found + _leg_boxes(points, seen, unit)


def body_unit(keypoints: Floats, person: Floats) -> float:
    """Length of the torso in pixels: from shoulders to hips, else from the width of the shoulders or the person."""
    seen, points = keypoints[:, 2] >= MIN_SCORE, keypoints[:, :2]
    longer = float(max(person[2] - person[0], person[3] - person[1]))
    lengths = [MIN_UNIT * longer]
    if seen[list(SHOULDERS)].all():
        lengths.append(1.3 * float(np.linalg.norm(points[SHOULDERS[0]] - points[SHOULDERS[1]])))
    if seen[list(SHOULDERS)].any() and seen[list(HIPS)].any():
        upper, lower = (points[[i for i in pair if seen[i]]].mean(0) for pair in (SHOULDERS, HIPS))
        lengths.append(float(np.linalg.norm(upper - lower)))
    return max(lengths) if len(lengths) > 1 else 0.3 * longer


def _head_boxes(points: Floats, seen: npt.NDArray[np.bool_], unit: float) -> list[tuple[str, Floats]]:
    face = [i for i in FACE if seen[i]]
    if len(face) < 2:
        return []
    x, y = points[face].mean(0)
    half = 0.3 * unit
    return [
        ("head", np.array([x - half, y - 1.4 * half, x + half, y + 1.1 * half])),
        ("hat", np.array([x - half, y - 1.5 * half, x + half, y - 0.2 * half])),
        ("face", np.array([x - 0.7 * half, y - 0.7 * half, x + 0.7 * half, y + 0.9 * half])),
    ]


def _leg_boxes(points: Floats, seen: npt.NDArray[np.bool_], unit: float) -> list[tuple[str, Floats]]:
    found: list[tuple[str, Floats]] = []
    hips, knees, ankles = ([i for i in pair if seen[i]] for pair in (HIPS, KNEES, ANKLES))
    if hips and knees:
        found.append(("lower body", _around(points[hips + knees], 0.2 * unit, 0.15 * unit)))
    if hips and ankles:
        found.append(("legs", _around(points[hips + knees + ankles], 0.15 * unit, 0.1 * unit)))
    shoulders = [i for i in SHOULDERS if seen[i]]
    if shoulders and (knees or ankles):
        found.append(("outfit", _around(points[shoulders + hips + knees + ankles], 0.2 * unit, 0.15 * unit)))
    # a foot lies below its ankle
    feet = [_around(points[i][None] + [0, 0.12 * unit], 0.25 * unit, 0.2 * unit) for i in ankles]
    found += [("foot", box) for box in feet]
    if len(feet) == 2:
        found.append(("feet", np.concatenate([np.minimum(*feet)[:2], np.maximum(*feet)[2:]])))
    return found


def _around(points: Floats, across: float, down: float) -> Floats:
    """Box around points ``[P, 2]`` with margins ``across`` and ``down``."""
    margin = np.array([across, down])
    return np.concatenate([points.min(0) - margin, points.max(0) + margin])


def part_classes(names: Sequence[str]) -> npt.NDArray[np.float32]:
    """One-hot rows ``[N, parts]`` of part names."""
    return np.eye(len(PARTS), dtype=np.float32)[[PARTS.index(name) for name in names]].reshape(-1, len(PARTS))
