"""Attention of the nouns of a given sentence to the regions of a photograph, by captioners and matchers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.language.parse import parse
from deixis.methods.scan.model import ScanGrounder
from deixis.methods.updown.model import Captioner
from deixis.pipelines.models import PhraseGrounder
from deixis.pipelines.photo import Photo


@dataclass(frozen=True, eq=False)
class WordAttention:
    """Attention of one model at the nouns of a sentence."""

    model: str
    words: tuple[str, ...]  # the nouns, in order
    weights: npt.NDArray[np.floating]  # [words, N], each row sums to 1
    boxes: npt.NDArray[np.floating]  # [N, 4] of the regions, in pixels


def attend_words(photo: Photo, sentence: str, model: Captioner | PhraseGrounder) -> WordAttention:
    """Return the attention of a model at the nouns of a sentence.

    A captioner is made to generate the sentence; its attention is the mean over its branches. A matcher compares the
    sentence with the regions (POS-SCAN, Eq. 5).
    """
    (parsed,) = parse([sentence])
    nouns = [at for at, noun in enumerate(parsed.nouns) if noun]
    if not nouns:
        raise DeixisError(f"there is no noun in '{sentence}'. Give a sentence that names what is in the photograph.")
    if isinstance(model, ScanGrounder):
        regions = photo.regions(model.extractor)
        weights = model.align(photo.encoded(model), [parsed])[0][0]
    elif isinstance(model, Captioner):
        regions = photo.regions(model.extractor)
        ((candidate,),) = model.force_decode([regions], [[parsed.tokens]])
        weights = candidate.trace.attention.mean(1)
    else:
        raise DeixisError(f"{model.name} has no attention of words to regions. Name captioners or matchers (SCAN).")
    nouns = [at for at in nouns if at < len(weights)]  # a captioner cuts long sentences
    chosen = np.asarray(weights, dtype=np.float64)[nouns]
    chosen = chosen / chosen.sum(1, keepdims=True).clip(1e-12)
    return WordAttention(model.name, tuple(parsed.tokens[at] for at in nouns), chosen, regions.boxes)
