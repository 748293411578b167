"""ROUGE-L: the longest common subsequence of a caption and its references (Lin 2004)."""

from __future__ import annotations

from collections.abc import Hashable

from deixis.metrics.ngrams import Hypotheses, References, Sentence, check_captions, per_image_text
from deixis.metrics.score import Score, mean_score, signature

BETA = 1.2
"""Weight of recall relative to precision, as in the COCO caption evaluation."""


def bit_masks(sentence: Sentence) -> dict[Hashable, int]:
    """Token -> its positions in the sentence, as bits of an integer."""
    masks: dict[Hashable, int] = {}
    for place, token in enumerate(sentence):
        masks[token] = masks.get(token, 0) | 1 << place
    return masks


def common_subsequence(masks: dict[Hashable, int], length: int, other: Sentence) -> int:
    """Length of the longest common subsequence of two sentences; the first is given by ``bit_masks`` and length.

    In a row of the dynamic programming table, neighbouring cells differ by 0 or 1. An integer stores these steps (bit 0
    for an increase), and one addition updates a whole row (Hyyrö 2004).
    """
    full = (1 << length) - 1
    steps = full
    for token in other:
        mask = masks.get(token)
        if mask:
            both = steps & mask
            steps = ((steps + both) | (steps - both)) & full
    return length - steps.bit_count()


def rouge_l(hypotheses: Hypotheses, references: References, tok: str = "given") -> Score:
    """Compute ROUGE-L with beta 1.2, averaged over images; an empty hypothesis scores 0.

    Precision and recall are separate maxima over the references, as in the COCO caption evaluation. ``tok`` is the
    tokeniser's name in the signature.
    """
    images = check_captions(hypotheses, references)
    items = []
    for image in images:
        hypothesis = hypotheses[image]
        masks = bit_masks(hypothesis)
        precision = recall = 0.0
        for reference in references[image]:
            common = common_subsequence(masks, len(hypothesis), reference)
            if common:
                precision = max(precision, common / len(hypothesis))
                recall = max(recall, common / len(reference))
        items.append((1 + BETA**2) * precision * recall / (recall + BETA**2 * precision) if precision else 0.0)
    return mean_score("ROUGE-L", images, items, signature(refs=per_image_text(references), beta=BETA, tok=tok))
