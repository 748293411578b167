"""Calibration of a fusion model's evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from deixis.calibration import Presence
from deixis.data import Sample
from deixis.language.parse import parse
from deixis.methods.albef.model import AlbefGrounder
from deixis.training.presence import collect_evidence


def pair_evidence(grounder: AlbefGrounder, image: Any, texts: Sequence[str]) -> list[float]:
    """Pair evidence of texts with regions or an image."""
    (encoded,) = grounder.encode([image])
    parses = parse(texts)
    phrases = [replace(one.phrase(0, len(one)), text=text) for text, one in zip(texts, parses, strict=True)]
    return grounder.pair_evidence(encoded, phrases)


def calibrate(grounder: AlbefGrounder, samples: Sequence[Sample], photo: Callable[[str], Any]) -> Presence:
    """Fit the curves that turn a grounder's evidence into probabilities, on samples outside its training set."""
    phrases, captions = collect_evidence(samples, photo, partial(pair_evidence, grounder))
    return Presence(phrases.calibration(), captions.calibration())
