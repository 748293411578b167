"""Hallucination rates: which classes a caption names, and which of them are not there."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.metrics.hallucination import hallucination, mentioned_classes

CLASSES = {"dog": "dog", "puppy": "dog", "hot dog": "hot dog", "cat": "cat", "fire hydrant": "fire hydrant"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a dog and a puppy", ["dog", "dog"]),
        ("a hot dog", ["hot dog"]),
        ("a hot cat", ["cat"]),
        ("a hot", []),
        ("dog hot dog dog fire", ["dog", "hot dog", "dog"]),
        ("", []),
    ],
)
def test_the_longest_name_wins(text: str, expected: list[str]) -> None:
    assert mentioned_classes(text.split(), CLASSES) == expected
    assert mentioned_classes(text.split(), {}) == []


def test_rates_of_sentences_and_of_mentions() -> None:
    mentioned = {"1": ["dog", "cat"], "2": ["dog", "dog", "car"], "3": [], "4": ["bus"]}
    present = {"1": {"dog"}, "2": ["dog", "car"], "3": [], "4": ["dog"], "not asked": []}
    sentences, instances = hallucination(mentioned, present)
    assert (sentences.name, instances.name) == ("CHAIRs", "CHAIRi")
    assert sentences.value == pytest.approx(2 / 4)
    assert instances.value == pytest.approx(2 / 6)
    np.testing.assert_array_equal(sentences.items, [1, 0, 0, 1])
    np.testing.assert_array_equal(instances.items, [0.5, 0, np.nan, 1])
    assert instances.ids == ("1", "2", "3", "4")


def test_synonyms_count_on_both_sides() -> None:
    synonyms = {"puppy": "dog", "lorry": "truck"}
    mentioned, present = {"1": ["puppy", "truck"]}, {"1": ["dog", "lorry"]}
    assert [score.value for score in hallucination(mentioned, present, synonyms)] == [0, 0]
    assert [score.value for score in hallucination(mentioned, present)] == [1, 1]


def test_nothing_mentioned_is_nothing_hallucinated() -> None:
    assert [score.value for score in hallucination({"1": []}, {"1": ["dog"]})] == [0, 0]


def test_an_image_without_classes_is_named() -> None:
    with pytest.raises(DeixisError, match="image 2"):
        hallucination({"1": [], "2": ["dog"]}, {"1": []})
    with pytest.raises(DeixisError, match="at least one caption"):
        hallucination({}, {})
