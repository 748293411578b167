"""Error analysis of grounded captions: Table 4 and Figure 2 of Distributed Attention.

The object words of the generated captions, and the object words of the references that the captions miss, are
divided into five kinds:

``missing``       a reference word whose class is not in the caption
``hallucinated``  a predicted word whose class is not in the reference (a class that the reference has without a
                  box is not counted, as in F1)
``correct``       a predicted word whose class is in the reference, with IoU above the threshold
``partial``       a predicted word whose class is in the reference, not correct, with its box inside the true box
``other``         any other predicted word whose class is in the reference

The paper defines these five kinds in words (Sec. 4.5). The published share of ``partial`` among ``partial`` and
``other`` (7.94 of 14.70 for the baseline) equals the 54.0 % of its Figure 2, so the figure divides the same wrong
words. Its classes enlarged and deviated together are ``other``. The paper does not define them; here

``enlarged``      the true box lies inside the predicted box
``deviated``      all other cases: the boxes overlap in part, are disjoint, or have no common frame

The paper leaves three more points open. (1) A caption is compared with each of the five references in turn, and a
word is matched with the first word of its class, both as in F1 (see ``protocol``). (2) For a word with several true
boxes, the box with the highest IoU is used. (3) A box equal to the true box is correct, not partial.
"""

from __future__ import annotations

import numpy as np

from deixis.metrics.grounded_captions import FLICKR30K, Ints, Matches, Protocol
from deixis.metrics.score import RULES, Score, Values, make_score, signature

KINDS = ("missing", "hallucinated", "correct", "partial", "other")
WRONG_KINDS = ("partial", "enlarged", "deviated")
PREDICTED_KINDS = ("correct", *WRONG_KINDS, "hallucinated")
"""The kinds of predicted words, best first."""


def error_scores(matches: Matches, protocol: Protocol = FLICKR30K, **about: object) -> list[Score]:
    """Share of each kind: ``errors_*`` over all words, ``wrong_*`` over the wrong boxes.

    The five ``errors_*`` sum to 1. The three ``wrong_*`` sum to 1 if any box is wrong. ``about`` are the first fields
    of the signature.
    """
    counts = error_counts(matches, protocol)
    mark = signature(**about, **protocol.describe())
    counts["other"] = counts["enlarged"] + counts["deviated"]
    return [
        *_shares("errors", {kind: counts[kind] for kind in KINDS}, matches.ids, mark),
        *_shares("wrong", {kind: counts[kind] for kind in WRONG_KINDS}, matches.ids, mark),
    ]


def error_counts(matches: Matches, protocol: Protocol = FLICKR30K) -> dict[str, Values]:
    """Count the words of each kind per image, ``[n]`` each."""
    n = len(matches.ids)

    def per_image(items: Ints) -> Values:
        return np.bincount(items, minlength=n).astype(np.float64)

    kind_of_word = _predicted_kinds(matches, protocol)
    counts = {kind: per_image(matches.pred_item[kind_of_word == i]) for i, kind in enumerate(PREDICTED_KINDS)}
    return {"missing": per_image(matches.ref_item[matches.ref_match < 0]), **counts}


def word_kinds(matches: Matches, protocol: Protocol = FLICKR30K) -> dict[str, dict[int, str]]:
    """Image -> position of a predicted object word -> its kind.

    A word is compared with each reference and can have several kinds; the best one is returned. A word is
    hallucinated only if no reference has its class. A word that is never counted has no entry.
    """
    found: dict[str, dict[int, str]] = {}
    kinds = _predicted_kinds(matches, protocol)
    for i in np.argsort(-kinds, kind="stable"):  # the best kind is written last
        image = matches.ids[matches.pred_item[i]]
        found.setdefault(image, {})[int(matches.pred_word[i])] = PREDICTED_KINDS[kinds[i]]
    return found


def _predicted_kinds(matches: Matches, protocol: Protocol) -> Ints:
    """Kind ``[A]`` of each predicted word, as an index into PREDICTED_KINDS."""
    matched = matches.pred_match >= 0
    pair = matches.pred_match[matched]
    is_kind = [matches.iou[pair] > protocol.threshold, matches.partial[pair], matches.enlarged[pair]]
    kinds = np.full(len(matched), PREDICTED_KINDS.index("hallucinated"))
    kinds[matched] = np.select(is_kind, [0, 1, 2], PREDICTED_KINDS.index("deviated"))  # first true condition
    return kinds


def _shares(prefix: str, counts: dict[str, Values], ids: tuple[str, ...], mark: str) -> list[Score]:
    total = np.sum(list(counts.values()), axis=0)
    scores = []
    for kind, count in counts.items():
        stats = np.stack([count, total], axis=1)
        items = np.where(total > 0, RULES["mean"](stats), np.nan)
        scores.append(make_score(f"{prefix}_{kind}", ids, items, stats, "mean", mark))
    return scores
