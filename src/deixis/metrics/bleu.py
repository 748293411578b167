"""BLEU-1 to BLEU-4 over a corpus of captions (Papineni et al. 2002), as the COCO caption evaluation counts it."""

from __future__ import annotations

from functools import partial
from itertools import chain

import numpy as np

from deixis.metrics.ngrams import ORDERS, Hypotheses, References, check_captions, count_ngrams, flatten, per_image_text
from deixis.metrics.score import RULES, Score, Values, make_score, signature

# The published evaluator's way round a division by zero. They keep its numbers: a hypothesis too short for an
# n-gram has precision 1e-15 / 1e-9 there, not 0 / 0.
TINY, SMALL = 1e-15, 1e-9


def bleu_of_sums(sums: Values, order: int) -> Values:
    """BLEU ``[B]`` from sums ``[B, 10]``: hypothesis and reference length, matches by order, n-grams by order."""
    length, target = sums[:, 0], sums[:, 1]
    matched, present = sums[:, 2 : 2 + order], sums[:, 2 + ORDERS : 2 + ORDERS + order]
    precision = np.prod((matched + TINY) / (present + SMALL), axis=1) ** (1 / order)
    ratio = (length + TINY) / (target + SMALL)
    return precision * np.exp(np.minimum(0.0, 1 - 1 / ratio))


RULES.update({f"bleu-{order}": partial(bleu_of_sums, order=order) for order in range(1, ORDERS + 1)})


def bleu(hypotheses: Hypotheses, references: References, tok: str = "given") -> list[Score]:
    """BLEU-1, -2, -3 and -4. ``tok`` names the tokeniser in the signature.

    An n-gram of the hypothesis matches as often as it stands in the reference that has it most. The brevity penalty
    compares with the reference of the closest length, the shorter of two equally close.
    """
    images = check_captions(hypotheses, references)
    per_image = np.array([len(references[image]) for image in images])
    sentences = list(chain.from_iterable(references[image] for image in images))
    counts = count_ngrams(*flatten([*sentences, *(hypotheses[image] for image in images)]))

    # The most that any reference of an image has of an n-gram.
    n, grams = len(images), max(len(counts.table), 1)
    image_of = np.repeat(np.arange(n), per_image)  # [R]
    is_reference = counts.sentence < len(sentences)
    key = image_of[counts.sentence[is_reference]] * grams + counts.ngram[is_reference]
    by_key = np.argsort(key, kind="stable")
    distinct, starts = np.unique(key[by_key], return_index=True)
    most = np.maximum.reduceat(counts.count[is_reference][by_key], starts)

    image, ngram = counts.sentence[~is_reference] - len(sentences), counts.ngram[~is_reference]
    count = counts.count[~is_reference]
    key = image * grams + ngram
    place = np.minimum(np.searchsorted(distinct, key), len(distinct) - 1)
    matched = np.where(distinct[place] == key, np.minimum(count, most[place]), 0)
    order = counts.table.orders()[ngram]

    lengths, reference_lengths = counts.lengths[len(sentences) :], counts.lengths[: len(sentences)]
    away = np.abs(reference_lengths - lengths[image_of])
    # One number that sorts by distance first and by length second.
    scale = int(reference_lengths.max()) + 1
    first = np.concatenate([[0], np.cumsum(per_image)[:-1]])
    closest = np.minimum.reduceat(away * scale + reference_lengths, first) % scale

    stats = np.zeros((n, 2 + 2 * ORDERS))
    stats[:, 0], stats[:, 1] = lengths, closest
    stats[:, 2 : 2 + ORDERS] = np.bincount(image * ORDERS + order, matched, n * ORDERS).reshape(n, ORDERS)
    stats[:, 2 + ORDERS :] = np.maximum(0, lengths[:, None] - np.arange(ORDERS))
    text = signature(refs=per_image_text(references), length="closest", tok=tok)
    rules = [f"bleu-{order}" for order in range(1, ORDERS + 1)]
    return [make_score(rule.upper(), images, RULES[rule](stats), stats, rule, text) for rule in rules]
