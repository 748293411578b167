"""All caption metrics behind one function, for captions as text or as tokens."""

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
"""``CIDEr`` is what the field prints (CIDEr-D over the corpus), ``CIDEr-D`` takes cached document frequencies where
they are given, ``CIDEr-plain`` is the paper's, without clipping and length penalty. The last two need Java."""


def caption_scores(
    hypotheses: Mapping[str, str | Sentence],
    references: Mapping[str, Sequence[str | Sentence]],
    metrics: Sequence[str] = ("BLEU", "ROUGE-L", "CIDEr"),
    document_frequencies: DocumentFrequencies | None = None,
    spice_jars: Path | None = None,
    tok: str | None = None,
) -> tuple[list[Score], dict[str, str]]:
    """The scores of one caption for each image against its references, and why a metric is absent, by its name.

    Captions that are strings are tokenised as the COCO caption evaluation does (``tok:ptb`` in the signature);
    sequences are taken as tokens, and ``tok`` may say of which kind. Only METEOR and SPICE can be absent.
    """
    from deixis.language.tokenise import tokens

    unknown = [metric for metric in metrics if metric not in CAPTION_METRICS]
    if unknown:
        raise DeixisError(f"There is no caption metric {unknown[0]!r}; choose from {', '.join(CAPTION_METRICS)}.")
    plain_text = any(isinstance(caption, str) for caption in hypotheses.values())
    kind = tok or ("ptb" if plain_text else "given")

    def words(caption: str | Sentence) -> Sentence:
        return tokens(caption) if isinstance(caption, str) else caption

    mine = {image: words(caption) for image, caption in hypotheses.items()}
    theirs = {image: [words(caption) for caption in captions] for image, captions in references.items()}
    scores: list[Score] = []
    absent: dict[str, str] = {}
    for metric in metrics:
        try:
            match metric:
                case "BLEU":
                    scores += bleu(mine, theirs, kind)
                case "ROUGE-L":
                    scores.append(rouge_l(mine, theirs, kind))
                case "CIDEr":
                    scores.append(cider(mine, theirs, tok=kind))
                case "CIDEr-D":
                    scores.append(cider(mine, theirs, document_frequencies, tok=kind, name=metric))
                case "CIDEr-plain":
                    scores.append(cider(mine, theirs, document_frequencies, plain=True, tok=kind, name=metric))
                case "METEOR":
                    scores.append(meteor(mine, theirs, kind))
                case "SPICE":
                    scores.append(spice(mine, theirs, spice_jars, kind))
        except JavaError as error:
            absent[metric] = str(error)
    return scores, absent
