"""Compute all caption metrics, for captions given as text or as tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deixis.errors import DeixisError
from deixis.metrics.bleu import bleu
from deixis.metrics.cider import DocumentFrequencies, cider
from deixis.metrics.java import JavaError, meteor, spice
from deixis.metrics.ngrams import Sentence
from deixis.metrics.rouge import rouge_l
from deixis.metrics.score import Score

CAPTION_METRICS = ("BLEU", "ROUGE-L", "CIDEr", "CIDEr-D", "CIDEr-plain", "METEOR", "SPICE")
"""Names of the caption metrics; METEOR and SPICE need Java.

``CIDEr`` is CIDEr-D with document frequencies of the references, as most papers report it. ``CIDEr-D`` uses cached
document frequencies if they are given. ``CIDEr-plain`` is the paper's definition, without clipping and length penalty.
"""


def caption_scores(
    hypotheses: Mapping[str, str | Sentence],
    references: Mapping[str, Sequence[str | Sentence]],
    metrics: Sequence[str] = ("BLEU", "ROUGE-L", "CIDEr"),
    document_frequencies: DocumentFrequencies | None = None,
    spice_jars: Path | None = None,
    tok: str | None = None,
) -> tuple[list[Score], dict[str, str]]:
    """Score one caption per image against its references; also return metric -> reason for absent metrics.

    Captions given as strings are tokenised as in the COCO caption evaluation (``tok:ptb`` in the signature). Captions
    given as sequences are used as tokens; ``tok`` is the tokeniser's name. Only METEOR and SPICE can be absent.
    """
    from deixis.language.tokenise import tokens

    unknown = [metric for metric in metrics if metric not in CAPTION_METRICS]
    if unknown:
        raise DeixisError(f"Unknown caption metric {unknown[0]!r}. Choose from {', '.join(CAPTION_METRICS)}.")
    plain_text = any(isinstance(caption, str) for caption in hypotheses.values())
    kind = tok or ("ptb" if plain_text else "given")

    def words(caption: str | Sentence) -> Sentence:
        return tokens(caption) if isinstance(caption, str) else caption

    hyps = {image: words(caption) for image, caption in hypotheses.items()}
    refs = {image: [words(caption) for caption in captions] for image, captions in references.items()}
    scores: list[Score] = []
    absent: dict[str, str] = {}
    for metric in metrics:
        try:
            match metric:
                case "BLEU":
                    scores += bleu(hyps, refs, kind)
                case "ROUGE-L":
                    scores.append(rouge_l(hyps, refs, kind))
                case "CIDEr":
                    scores.append(cider(hyps, refs, tok=kind))
                case "CIDEr-D":
                    scores.append(cider(hyps, refs, document_frequencies, tok=kind, name=metric))
                case "CIDEr-plain":
                    scores.append(cider(hyps, refs, document_frequencies, plain=True, tok=kind, name=metric))
                case "METEOR":
                    scores.append(meteor(hyps, refs, kind))
                case "SPICE":
                    scores.append(spice(hyps, refs, spice_jars, kind))
        except JavaError as error:
            absent[metric] = str(error)
    return scores, absent
