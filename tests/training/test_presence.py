"""Texts of a photograph against texts of the next one: who is asked what, and the curves that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from deixis.calibration import Presence
from deixis.data import Caption, Sample
from deixis.language.tokenise import tokens
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.presence import calibrate
from deixis.training.presence import EvidenceSamples, collect_evidence
from deixis.types import Phrase


def sample(image: str, text: str, *phrases: str) -> Sample:
    words = tokens(text)
    starts = [next(i for i in range(len(words)) if words[i:][: len(p.split())] == tuple(p.split())) for p in phrases]
    spans = (Phrase(p, start, start + len(p.split())) for p, start in zip(phrases, starts, strict=True))
    return Sample(image, (Caption(text, words, tuple(spans)),))


SAMPLES = [
    sample("1", "A dog and a ball.", "a dog", "a ball"),
    sample("2", "The red ball near a cat.", "the red ball", "a cat"),
    sample("3", "A man.", "a man"),
]


def test_what_is_absent_is_what_the_next_photograph_has_and_nobody_says_of_this_one() -> None:
    asked: dict[str, list[str]] = {}

    def find(photo: object, texts: Sequence[str]) -> list[float]:
        asked[str(photo)] = list(texts)
        return [float(len(text)) for text in texts]

    phrases, captions = collect_evidence(SAMPLES, lambda image: f"photo {image}", find)
    assert asked == {
        # own phrases, those of the next photograph, hard negatives, the noun that often occurs with the own ones
        "photo 1": [
            *("a dog", "a ball", "a cat", "a cat", "a frisbee", "a cat"),
            *("A dog and a ball.", "The red ball near a cat."),
        ],
        "photo 2": [
            *("the red ball", "a cat", "a man", "the red kite", "the yellow ball", "a horse", "a dog"),
            *("The red ball near a cat.", "A man."),
        ],
        "photo 3": ["a man", "a dog", "a ball", "a girl", "A man.", "A dog and a ball."],
    }
    assert phrases == EvidenceSamples([5, 6, 12, 5, 5], [5, 5, 9, 5, 5, 12, 15, 7, 5, 5, 6, 6])
    assert captions == EvidenceSamples([17, 24, 6], [24, 6, 17])


def test_a_grounder_is_calibrated_by_its_own_pair_evidence() -> None:
    """Each photograph is encoded, and its texts are given as phrases with their lemmas."""
    asked: list[Phrase] = []

    def pair_evidence(encoded: str, phrases: Sequence[Phrase]) -> list[float]:
        asked.extend(phrases)
        return find(encoded.removeprefix("encoded "), [phrase.text for phrase in phrases])

    def find(photo: str, texts: Sequence[str]) -> list[float]:
        return [float(photo == "1" or "cat" in text) for text in texts]

    grounder = SimpleNamespace(encode=lambda photos: [f"encoded {one}" for one in photos], pair_evidence=pair_evidence)
    found = calibrate(cast(AlbefGrounder, grounder), SAMPLES, str)
    phrases, captions = collect_evidence(SAMPLES, str, find)
    assert phrases == EvidenceSamples([1, 1, 0, 1, 0], [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
    assert found == Presence(phrases.calibration(), captions.calibration())
    assert found.phrase.slope > 0
    assert {(one.text, one.lemma) for one in asked} >= {("the red ball", "ball"), ("A man.", "man")}


def test_the_curve_is_one_half_in_the_middle() -> None:
    dice = np.random.default_rng(0)
    told = EvidenceSamples(list(dice.normal(1.0, 0.5, 4000)), list(dice.normal(0.0, 0.5, 4000)))
    curve = told.calibration()
    assert curve(0.5) == pytest.approx(0.5, abs=0.02)
    assert curve(1.0) == pytest.approx(1 / (1 + np.exp(-2.0)), abs=0.02)  # log-odds of two normals: 4 (x - 1/2)
