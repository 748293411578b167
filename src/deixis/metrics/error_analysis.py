"""Where grounded captions go wrong: the five kinds of Table 4 and the three kinds of Figure 2 of Distributed Attention.

Every object word of the generated captions, and every object word of the references that was not said, is of exactly
one kind:

``missing``       a word of the reference whose class the caption does not say
``hallucinated``  a word said whose class the reference does not have (one that the reference has without a box is
                  left out, as in F1)
``correct``       a word said, of a class that the reference has, whose IoU with the true box is above the threshold
``partial``       such a word whose box is not correct and lies wholly inside the true box
``other``         such a word that is neither

The paper defines these five in words (Sec. 4.5). The published share of ``partial`` among ``partial`` and ``other``
(7.94 of 14.70 for the baseline) is the 54.0 % of its Figure 2, so that figure splits the same wrong words, and
``other`` is what it calls enlarged and deviated. It does not say how; here

``enlarged``      the true box lies wholly inside the predicted one
``deviated``      everything else: the boxes cross, lie apart, or share no frame

The paper is silent on three more points. A caption is compared with each of the five references in turn, and a word
meets the first word of its class, both as in F1 (``protocol`` decides). A word with several true boxes is judged by
the one that it overlaps best. A box that is exactly the true box is correct before it is anything else.
"""

from __future__ import annotations

import numpy as np

from deixis.metrics.grounded_captions import FLICKR30K, Ints, Matches, Protocol
from deixis.metrics.score import RULES, Score, Values, make_score, signature

KINDS = ("missing", "hallucinated", "correct", "partial", "other")
WRONG_KINDS = ("partial", "enlarged", "deviated")
SAID_KINDS = ("correct", *WRONG_KINDS, "hallucinated")
"""The kinds of words that were said, the kindest first."""


def error_scores(matches: Matches, protocol: Protocol = FLICKR30K, **about: object) -> list[Score]:
    """The share of each kind: ``errors_missing`` ... over all words, ``wrong_partial`` ... over the wrong boxes.

    The five ``errors_*`` add up to 1, and so do the three ``wrong_*`` where any box is wrong. ``about`` begins the
    signature.
    """
    counts = error_counts(matches, protocol)
    mark = signature(**about, **protocol.describe())
    counts["other"] = counts["enlarged"] + counts["deviated"]
    return [
        *_shares("errors", {kind: counts[kind] for kind in KINDS}, matches.ids, mark),
        *_shares("wrong", {kind: counts[kind] for kind in WRONG_KINDS}, matches.ids, mark),
    ]


def error_counts(matches: Matches, protocol: Protocol = FLICKR30K) -> dict[str, Values]:
    """Words of each kind per image, ``[n]`` each: missing, hallucinated, correct, partial, enlarged, deviated."""
    n = len(matches.ids)

    def per_image(items: Ints) -> Values:
        return np.bincount(items, minlength=n).astype(np.float64)

    said = _said_kinds(matches, protocol)
    counts = {kind: per_image(matches.said_item[said == i]) for i, kind in enumerate(SAID_KINDS)}
    return {"missing": per_image(matches.shown_item[matches.shown_match < 0]), **counts}


def word_kinds(matches: Matches, protocol: Protocol = FLICKR30K) -> dict[str, dict[int, str]]:
    """Image -> position of an object word said -> its kind, for people who look at single captions.

    A word is held against each reference, so it may be of several kinds: this is the kindest, and a word is
    hallucinated only where no reference has its class. One that is left out everywhere has no kind.
    """
    found: dict[str, dict[int, str]] = {}
    kinds = _said_kinds(matches, protocol)
    for i in np.argsort(-kinds, kind="stable"):  # the kindest is written last, and stays
        image = matches.ids[matches.said_item[i]]
        found.setdefault(image, {})[int(matches.said_word[i])] = SAID_KINDS[kinds[i]]
    return found


def _said_kinds(matches: Matches, protocol: Protocol) -> Ints:
    """The kind ``[A]`` of each word said, as an index into SAID_KINDS."""
    met = matches.said_match >= 0
    pair = matches.said_match[met]
    is_kind = [matches.iou[pair] > protocol.threshold, matches.partial[pair], matches.enlarged[pair]]
    kinds = np.full(len(met), SAID_KINDS.index("hallucinated"))
    kinds[met] = np.select(is_kind, [0, 1, 2], SAID_KINDS.index("deviated"))  # the first that is true
    return kinds


def _shares(prefix: str, counts: dict[str, Values], ids: tuple[str, ...], mark: str) -> list[Score]:
    total = np.sum(list(counts.values()), axis=0)
    scores = []
    for kind, count in counts.items():
        stats = np.stack([count, total], axis=1)
        items = np.where(total > 0, RULES["mean"](stats), np.nan)
        scores.append(make_score(f"{prefix}_{kind}", ids, items, stats, "mean", mark))
    return scores
