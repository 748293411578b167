"""Corpus BLEU-1 to BLEU-4 (Papineni et al. 2002), with the counts of the COCO caption evaluation."""

from __future__ import annotations

from functools import partial
from itertools import chain

import numpy as np

from deixis.metrics.ngrams import ORDERS, Hypotheses, References, check_captions, count_ngrams, flatten, per_image_text
from deixis.metrics.score import RULES, Score, Values, make_score, signature

# Smoothing constants of the COCO caption evaluation, needed for identical scores.
# A hypothesis too short for an n-gram has precision 1e-15 / 1e-9 instead of 0 / 0.
TINY, SMALL = 1e-15, 1e-9


def bleu_of_sums(sums: Values, order: int) -> Values:
    """Compute BLEU ``[B]`` from summed statistics ``[B, 10]``.

    Columns: hypothesis length, reference length, matches by order (4), hypothesis n-grams by order (4).
    """
    length, target = sums[:, 0], sums[:, 1]
    matched, present = sums[:, 2 : 2 + order], sums[:, 2 + ORDERS : 2 + ORDERS + order]
    precision = np.prod((matched + TINY) / (present + SMALL), axis=1) ** (1 / order)
    ratio = (length + TINY) / (target + SMALL)
    return precision * np.exp(np.minimum(0.0, 1 - 1 / ratio))


RULES.update({f"bleu-{order}": partial(bleu_of_sums, order=order) for order in range(1, ORDERS + 1)})


def bleu(hypotheses: Hypotheses, references: References, tok: str = "given") -> list[Score]:
    """Compute BLEU-1, -2, -3 and -4. ``tok`` is the tokeniser's name in the signature.

    Matches of an n-gram are clipped at its maximum count in one reference. The brevity penalty uses the reference
    with the closest length; of two equally close lengths it uses the shorter.
    """
    images = check_captions(hypotheses, references)
    per_image = np.array([len(references[image]) for image in images])
    sentences = list(chain.from_iterable(references[image] for image in images))
    counts = count_ngrams(*flatten([*sentences, *(hypotheses[image] for image in images)]))

    # Maximum count of each n-gram in one reference of an image.
    n, grams = len(images), max(len(counts.table), 1)
    image_of = np.repeat(np.arange(n), per_image)  # [R]
    is_reference = counts.sentence < len(sentences)
    key = image_of[counts.sentence[is_reference]] * grams + counts.ngram[is_reference]
    by_key = np.argsort(key, kind="stable")
    distinct, starts = np.unique(key[by_key], return_index=True)
    max_count = np.maximum.reduceat(counts.count[is_reference][by_key], starts)

    image, ngram = counts.sentence[~is_reference] - len(sentences), counts.ngram[~is_reference]
    count = counts.count[~is_reference]
    key = image * grams + ngram
    place = np.minimum(np.searchsorted(distinct, key), len(distinct) - 1)
    matched = np.where(distinct[place] == key, np.minimum(count, max_count[place]), 0)
    order = counts.table.orders()[ngram]

    lengths, reference_lengths = counts.lengths[len(sentences) :], counts.lengths[: len(sentences)]
    distance = np.abs(reference_lengths - lengths[image_of])
    # Sort key: distance first, length second.
    scale = int(reference_lengths.max()) + 1
    first = np.concatenate([[0], np.cumsum(per_image)[:-1]])
    closest = np.minimum.reduceat(distance * scale + reference_lengths, first) % scale

    stats = np.zeros((n, 2 + 2 * ORDERS))
    stats[:, 0], stats[:, 1] = lengths, closest
    stats[:, 2 : 2 + ORDERS] = np.bincount(image * ORDERS + order, matched, n * ORDERS).reshape(n, ORDERS)
    stats[:, 2 + ORDERS :] = np.maximum(0, lengths[:, None] - np.arange(ORDERS))
    text = signature(refs=per_image_text(references), length="closest", tok=tok)
    rules = [f"bleu-{order}" for order in range(1, ORDERS + 1)]
    return [make_score(rule.upper(), images, RULES[rule](stats), stats, rule, text) for rule in rules]
