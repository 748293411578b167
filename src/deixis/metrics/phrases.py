"""Phrase grounding metrics: accuracy at IoU thresholds, Recall@k, pointing game, and baselines.

Evaluators differ in details that change the scores. Each detail is a field of :class:`Protocol` and part of the
signature:

- A phrase may have several boxes. ReIR uses their union as the reference box (``target:union``). AMC accepts a point
  in any of them (``target:any``).
- The IoU threshold is inclusive (``>=``) or exclusive (``>``), with or without the extra pixel of inclusive corners.
- A point on the edge of a box is inside for ReIR, and outside for AMC. ReIR uses the centre of its predicted box. AMC
  uses the maximum of a heat map resized to the image with bicubic interpolation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from deixis import boxes as geometry
from deixis.errors import DeixisError
from deixis.localize.points import bicubic_maximum
from deixis.metrics.overlaps import largest, paired_iou, without_extra_pixel
from deixis.metrics.score import Score, Values, mean_score, signature
from deixis.types import Grounding, Point

Bools = npt.NDArray[np.bool_]
Edge = Literal["strict", "inclusive", "half-open"]
Target = Literal["union", "any"]

CURVE = tuple(round(0.1 * i, 1) for i in range(1, 10))
"""IoU thresholds .1 to .9 of the accuracy curve; ReIR's Figure 4 shows .5 to .8."""


@dataclass(frozen=True, eq=False)
class PhraseReference:
    """A phrase of an image and its annotated boxes."""

    id: str  # unique: image, position of the phrase in its caption, phrase
    image: str
    phrase: str
    boxes: npt.NDArray[np.floating]  # [M, 4], M > 0
    size: tuple[int, int]  # width, height of the image
    category: str = ""  # the first of the data set's types, e.g. "people"
    caption: int = 0  # number of the caption with the phrase
    start: int = 0  # position of its first word in the caption

    def __post_init__(self) -> None:
        if self.boxes.ndim != 2 or self.boxes.shape[1] != 4 or len(self.boxes) == 0:
            raise ValueError(
                f"phrase '{self.phrase}' of image {self.image}: expected boxes [M, 4], got {self.boxes.shape}"
            )


Answers = Mapping[str, Sequence[Grounding]]
"""Reference id -> candidates, best first; the first is the prediction. A phrase without candidates is wrong."""


@dataclass(frozen=True)
class Protocol:
    """Choices in which evaluators of phrase grounding differ."""

    target: Target = "union"  # reference box for IoU and for the box centre
    threshold: float = 0.5
    compare: Literal[">=", ">"] = ">="
    extra_pixel: bool = True  # side = x2 - x1 + 1 of inclusive corners (our boxes, unchanged)
    point_edge: Edge = "strict"  # for the point of a heat map
    centre_edge: Edge = "inclusive"  # for the centre of a box

    def right(self, iou: Values) -> Bools:
        """Whether each IoU is correct."""
        return iou >= self.threshold if self.compare == ">=" else iou > self.threshold

    def iou_mark(self) -> dict[str, object]:
        """Signature fields of the metrics that use IoU."""
        return {"target": self.target, "iou": f"{self.compare}{self.threshold:g}{'+1px' if self.extra_pixel else ''}"}


FLICKR30K = Protocol(extra_pixel=False)
"""ReIR's evaluator (accuracy, PointIt) and AMC's (pointing) for Flickr30k Entities: inclusive corners, no + 1."""
REFER = Protocol()
"""RefCOCO, RefCOCO+, RefCOCOg and ReferItGame: one box (x, y, w, h) per phrase, with sides w and h."""


# Scores -------------------------------------------------------------------------------------------------------------


def phrase_scores(
    references: Sequence[PhraseReference],
    answers: Answers,
    protocol: Protocol = FLICKR30K,
    recall_at: Sequence[int] = (1, 5, 10),
    **about: object,
) -> list[Score]:
    """Compute all phrase grounding scores; ``about`` are the first fields of each signature.

    ``accuracy`` and ``mean_iou`` of the first box; ``accuracy_at_0.1`` to ``accuracy_at_0.9``; ``recall_at_k`` if any
    phrase has several candidates; ``pointing`` and ``pointing_union`` of the point (see :func:`predicted_points`);
    ``pointing_centre`` of the centre of the first box; accuracy and pointing per category, e.g. ``accuracy[people]``.
    """
    _check(references)
    ids = [reference.id for reference in references]
    first = _first_boxes(references, answers)  # NaN rows for phrases without a prediction
    iou = overlaps(references, first, protocol)
    hits = protocol.right(iou).astype(np.float64)
    mark = signature(**about, **protocol.iou_mark())
    mean_mark = signature(**about, target=protocol.target, pixel=_pixel(protocol))
    scores = [mean_score("accuracy", ids, hits, mark), mean_score("mean_iou", ids, iou, mean_mark)]
    scores += accuracy_curve(references, iou, protocol, CURVE, **about)
    deepest = max((len(candidates) for candidates in answers.values()), default=0)
    if deepest > 1:
        for k in recall_at:
            found = recall(references, answers, k, protocol)
            scores.append(mean_score(f"recall_at_{k}", ids, found, mark))

    def pointed(name: str, points: Values, source: str, target: Target, edge: Edge) -> Score:
        is_inside = pointing(references, points, target, edge, protocol.extra_pixel)
        text = signature(**about, target=target, point=source, edge=edge, pixel=_pixel(protocol))
        return mean_score(name, ids, is_inside, text)

    centres = geometry.centre(first if protocol.extra_pixel else without_extra_pixel(first)).astype(np.float64)
    source, points = predicted_points(references, answers)
    points = centres if source == "box centre" else points
    game = pointed("pointing", points, source, "any", protocol.point_edge)
    scores += [
        game,
        pointed("pointing_union", points, source, "union", protocol.point_edge),
        pointed("pointing_centre", centres, "box centre", protocol.target, protocol.centre_edge),
    ]
    return [*scores, *per_category(references, scores[0]), *per_category(references, game)]


def accuracy_curve(
    references: Sequence[PhraseReference],
    iou: Values,
    protocol: Protocol = FLICKR30K,
    thresholds: Sequence[float] = CURVE,
    **about: object,
) -> list[Score]:
    """Compute ``accuracy_at_0.1`` etc. from the IoU ``[n]`` of the first boxes (ReIR, Fig. 4)."""
    ids = [reference.id for reference in references]
    scores = []
    for threshold in thresholds:
        at = Protocol(protocol.target, threshold, protocol.compare, protocol.extra_pixel)
        mark = signature(**about, **at.iou_mark())
        scores.append(mean_score(f"accuracy_at_{threshold:g}", ids, at.right(iou).astype(np.float64), mark))
    return scores


def per_category(references: Sequence[PhraseReference], score: Score) -> list[Score]:
    """Mean over the phrases of each category (AMC, Table 2), e.g. ``accuracy[people]``, most frequent first."""
    groups: dict[str, list[int]] = {}
    for i, reference in enumerate(references):
        if reference.category:
            groups.setdefault(reference.category, []).append(i)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [
        mean_score(f"{score.name}[{name}]", [score.ids[i] for i in rows], score.items[rows], score.signature)
        for name, rows in ordered
    ]


def baselines(
    references: Sequence[PhraseReference],
    protocol: Protocol = FLICKR30K,
    proposals: Mapping[str, npt.NDArray[np.floating]] | None = None,
    **about: object,
) -> list[Score]:
    """Compute baselines: whole image, image centre, and best proposal.

    ``baseline_whole_image`` is the accuracy of the whole image as the box. ``baseline_image_centre`` is the pointing
    game (any box) of the image centre. With ``proposals`` (image -> boxes ``[N, 4]``), ``bound_best_proposal`` is the
    accuracy of the proposal with the highest IoU; phrases of an image without proposals are wrong.
    """
    _check(references)
    ids = [reference.id for reference in references]
    sizes = np.array([reference.size for reference in references], dtype=np.float64)
    whole = np.concatenate([np.zeros_like(sizes), sizes], axis=1)
    mark = signature(**about, **protocol.iou_mark())
    hits = protocol.right(overlaps(references, whole, protocol)).astype(np.float64)
    centred = pointing(references, sizes / 2, "any", protocol.point_edge, protocol.extra_pixel)
    point_mark = signature(
        **about, target="any", point="image centre", edge=protocol.point_edge, pixel=_pixel(protocol)
    )
    scores = [
        mean_score("baseline_whole_image", ids, hits, mark),
        mean_score("baseline_image_centre", ids, centred, point_mark),
    ]
    if proposals is not None:
        none = np.zeros((0, 4))
        owners = np.repeat(np.arange(len(references)), [len(proposals.get(r.image, none)) for r in references])
        boxes = np.concatenate([none, *(proposals.get(r.image, none) for r in references)])
        best = largest(_overlaps(references, boxes, owners, protocol), owners, len(references))
        scores.append(mean_score("bound_best_proposal", ids, protocol.right(best).astype(np.float64), mark))
    return scores


# Overlap ------------------------------------------------------------------------------------------------------------


def overlaps(references: Sequence[PhraseReference], boxes: Values, protocol: Protocol = FLICKR30K) -> Values:
    """IoU ``[n]`` of one box per phrase ``[n, 4]`` with its reference box; 0 for a NaN box."""
    return _overlaps(references, boxes, np.arange(len(references)), protocol)


def recall(references: Sequence[PhraseReference], answers: Answers, k: int, protocol: Protocol = FLICKR30K) -> Values:
    """Whether one of the first k candidates of each phrase is correct, ``[n]``."""
    tops = [[candidate.box for candidate in answers.get(reference.id, ())[:k]] for reference in references]
    owners = np.repeat(np.arange(len(references)), [len(top) for top in tops])
    boxes = geometry.as_boxes([box for top in tops for box in top]).astype(np.float64)
    best = largest(_overlaps(references, boxes, owners, protocol), owners, len(references))
    return protocol.right(best).astype(np.float64)


def _overlaps(
    references: Sequence[PhraseReference], boxes: npt.ArrayLike, owners: npt.ArrayLike, protocol: Protocol
) -> Values:
    """IoU of each box with the phrase ``owners[i]``; the maximum over its reference boxes."""
    predicted = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    owner = np.asarray(owners, dtype=np.intp)
    reference_boxes, phrase_of = _reference_boxes(references, protocol.target)
    if not protocol.extra_pixel:
        predicted, reference_boxes = without_extra_pixel(predicted), without_extra_pixel(reference_boxes)
    # pair each box with each reference box of its phrase; starts[p] is the first reference box of phrase p
    counts = np.bincount(phrase_of, minlength=len(references))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    left = np.repeat(np.arange(len(predicted)), counts[owner])
    within = np.arange(len(left)) - np.repeat(np.cumsum(counts[owner]) - counts[owner], counts[owner])
    iou = np.nan_to_num(paired_iou(predicted[left], reference_boxes[starts[owner[left]] + within]))
    return largest(iou, left, len(predicted))


def _reference_boxes(references: Sequence[PhraseReference], target: Target) -> tuple[Values, npt.NDArray[np.intp]]:
    """Reference boxes ``[m, 4]`` and the phrase index of each ``[m]``, in order."""
    if target == "union":
        unions = [geometry.union(reference.boxes) for reference in references]
        return np.array(unions, dtype=np.float64).reshape(-1, 4), np.arange(len(references))
    phrase_of = np.repeat(np.arange(len(references)), [len(reference.boxes) for reference in references])
    return np.concatenate([reference.boxes for reference in references]).astype(np.float64), phrase_of


def _first_boxes(references: Sequence[PhraseReference], answers: Answers) -> Values:
    none = (np.nan,) * 4
    return np.array([a[0].box if (a := answers.get(r.id)) else none for r in references], dtype=np.float64)


# Pointing -----------------------------------------------------------------------------------------------------------


def pointing(
    references: Sequence[PhraseReference], points: npt.ArrayLike, target: Target, edge: Edge, extra_pixel: bool = False
) -> Values:
    """Whether each point (x, y) of ``[n, 2]`` lies in a reference box of its phrase, ``[n]``; 0 for NaN."""
    reference_boxes, phrase_of = _reference_boxes(references, target)
    if not extra_pixel:
        reference_boxes = without_extra_pixel(reference_boxes)
    point = np.asarray(points, dtype=np.float64).reshape(-1, 2)[phrase_of]
    low, high = reference_boxes[:, :2], reference_boxes[:, 2:]
    if edge == "strict":
        is_inside = (low < point) & (point < high)
    elif edge == "inclusive":
        is_inside = (low <= point) & (point <= high)
    else:
        is_inside = (low <= point) & (point < high)
    return largest(is_inside.all(1), phrase_of, len(references))


def predicted_points(references: Sequence[PhraseReference], answers: Answers) -> tuple[str, Values]:
    """Predicted points ``[n, 2]``, and their source.

    The source is the same for all phrases, for the signature: "heat" if each prediction has a heat map or its maximum
    (:func:`deixis.localize.points.bicubic_maximum`); else "given" if each prediction has a point; else "box centre".
    """
    given = [answers[r.id][0] for r in references if answers.get(r.id)]
    if given and all(answer.heat is not None or answer.heat_point is not None for answer in given):
        source = "heat"
    elif given and all(answer.point is not None for answer in given):
        source = "given"
    else:
        source = "box centre"
    points = np.full((len(references), 2), np.nan)
    for i, reference in enumerate(references):
        candidates = answers.get(reference.id)
        if candidates:
            points[i] = _point(candidates[0], source)
    return source, points


def _point(answer: Grounding, source: str) -> Point:
    if source == "heat" and answer.heat_point is not None:
        return answer.heat_point
    if source == "heat" and answer.heat is not None:
        return bicubic_maximum(answer.heat)
    if source == "given" and answer.point is not None:
        return answer.point
    x, y = geometry.centre(answer.box)
    return float(x), float(y)


def _pixel(protocol: Protocol) -> str:
    return "+1px" if protocol.extra_pixel else "+0px"


def _check(references: Sequence[PhraseReference]) -> None:
    if not references:
        raise DeixisError("The reference has no phrase with a box. Check its path and --split.")
    if len({reference.id for reference in references}) < len(references):
        raise ValueError("two phrases of the reference have the same id")
