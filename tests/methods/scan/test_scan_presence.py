"""Presence of phrases by a matcher: calibration, classes of a detector, unknown words, and boxes by heat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.calibration import UNKNOWN_SCORE, Calibration, Presence
from deixis.language.queries import phrase_queries
from deixis.language.vocabulary import Vocabulary
from deixis.methods.scan.config import ScanConfig
from deixis.methods.scan.model import MIN_NAME_PROB, NAME_WEIGHT, Placing, ScanGrounder
from deixis.methods.scan.network import ScanNet
from deixis.types import Labels, Phrase, Regions
from deixis.vision.classes import imagenet_classes

VOCABULARY = Vocabulary.build([["a", "dog", "cat", "and", "ball"]], minimum=1)
EXTRACTOR = {"name": "made", "description": {"version": 1, "proposals": {"supervision": "boxes: COCO"}}}
BOXES = np.array([[0, 0, 100, 80], [0, 0, 40, 40], [60, 40, 100, 80]], dtype=np.float32)
DOG, UNICORN = (
    Phrase("a dog", 0, 2, head="dog", lemma="dog"),
    Phrase("a unicorn", 0, 2, head="unicorn", lemma="unicorn"),
)


def regions(prob: float = 0.9) -> Regions:
    """Three regions; the detector finds a dog in the last one."""
    names = ("dog", "cat", *imagenet_classes())
    labels = Labels(np.array([[1], [1], [0]]), np.array([[0.1], [0.2], [prob]], dtype=np.float32), names)
    return Regions(BOXES, np.eye(3, dtype=np.float32), (100, 80), np.full(3, 0.5), labels=labels, extractor="made")


@pytest.fixture
def grounder() -> ScanGrounder:
    torch.manual_seed(0)
    network = ScanNet(ScanConfig(len(VOCABULARY), 3, words=8, embed=12, count="nouns"))
    presence = Presence(Calibration(4.0, 1.0), Calibration(2.0, 0.5))
    return ScanGrounder(network, VOCABULARY, EXTRACTOR, "made", placing=Placing("heat"), presence=presence)


def test_evidence_adds_the_class_of_the_head_noun(grounder: ScanGrounder) -> None:
    (seen,), (unseen,) = grounder.encode([regions(0.9)]), grounder.encode([regions(0.0)])
    (with_class,), (without,) = grounder.evidence(seen, [DOG]), grounder.evidence(unseen, [DOG])
    assert with_class - without == pytest.approx(NAME_WEIGHT * np.log(0.9 / MIN_NAME_PROB), abs=1e-6)
    other = replace(DOG, text="a ball", head="ball", lemma="thing")  # no class of the detector
    assert grounder.evidence(seen, [other]) == pytest.approx(grounder.evidence(unseen, [other]))


def test_scores_are_calibrated_evidence(grounder: ScanGrounder) -> None:
    (photo,) = grounder.encode([regions()])
    queries = phrase_queries(["a dog", "a ball"])
    evidence = grounder.evidence(photo, [phrase for query in queries for phrase in query.phrases])
    scores = [one.score for one in grounder.ground(photo, queries)]
    np.testing.assert_allclose(scores, [1 / (1 + np.exp(-(4 * e + 1))) for e in evidence], rtol=1e-6)
    assert grounder.caption_probability(0.25) == pytest.approx(1 / (1 + np.exp(-1.0)))


def test_unknown_head_words_have_a_low_score_and_are_named(grounder: ScanGrounder) -> None:
    (photo,) = grounder.encode([regions()])
    known, unknown = grounder.ground(photo, phrase_queries(["a dog", "a unicorn"]))
    assert (known.unknown_word, unknown.unknown_word) == ("", "unicorn")
    assert unknown.score <= UNKNOWN_SCORE < known.score
    assert grounder.unknown_word(UNICORN) == "unicorn"
    assert grounder.unknown_word(replace(UNICORN, head="dogs", lemma="dog")) == ""


def test_the_class_of_a_detector_selects_the_box(grounder: ScanGrounder) -> None:
    (photo,) = grounder.encode([regions()])
    (found,) = grounder.ground(photo, phrase_queries(["a dog"]))
    assert found.box == (60, 40, 100, 80)
    x, y = found.point or (0, 0)
    assert 60 <= x < 100
    assert 40 <= y < 80


def test_a_folder_keeps_rule_and_calibration(grounder: ScanGrounder, tmp_path: Path) -> None:
    grounder.save_pretrained(tmp_path)
    again = ScanGrounder.from_pretrained(tmp_path)
    assert (again.presence, again.placing) == (grounder.presence, grounder.placing)
    (photo,), (other,) = grounder.encode([regions()]), again.encode([regions()])
    queries = phrase_queries(["a dog"])
    (one,), (two,) = grounder.ground(photo, queries), again.ground(other, queries)
    assert (one.box, one.unknown_word) == (two.box, two.unknown_word)
    assert one.score == pytest.approx(two.score, rel=1e-5)
